package broker

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// Stats describes the store.
func (b *Broker) Stats(ctx context.Context) (millrace.Stats, error) {
	if err := b.gate.enter(); err != nil {
		return millrace.Stats{}, err
	}
	defer b.gate.leave()
	out := millrace.Stats{Identity: b.identity, Durability: b.engine.Durability(), Refused: b.refused.Load()}
	var err error
	if out.Bytes, err = b.engine.Bytes(ctx); err != nil {
		return millrace.Stats{}, err
	}
	h := b.registry.now()
	for lane := range b.identity.Lanes {
		s, err := b.engine.LaneStats(ctx, lane)
		if err != nil {
			return millrace.Stats{}, err
		}
		out.LaneStats = out.Plus(s)
		for _, q := range h.queues {
			held, err := b.engine.Stats(ctx, lane, q.uid)
			if err != nil {
				return millrace.Stats{}, err
			}
			out.Queues = out.Queues.Plus(held.QueueCounts)
			if q.spec.Tracked {
				out.Operations.Queued += held.Ready + held.Delayed - held.Cancelled
				out.Operations.Running += held.Leased
			}
		}
	}
	out.Subscriptions, err = b.countSubscriptions(ctx, h)
	return out, err
}

// countSubscriptions adds up what all subscriptions hold.
func (b *Broker) countSubscriptions(ctx context.Context, h *house) (c millrace.SubscriptionCounts, err error) {
	for _, sub := range h.subs {
		s, err := Subscriptions{b}.describe(ctx, sub)
		if err != nil {
			return c, err
		}
		c.Queued += s.Queued
		c.Dead += s.Dead
		switch s.State {
		case millrace.StateFailing:
			c.Failing++
		case millrace.StateDisabled:
			c.Disabled++
		}
	}
	return c, nil
}
