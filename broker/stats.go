package broker

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

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
	lanes, err := askLanes(ctx, b, 1, func(ctx context.Context, _, lane int) (millrace.LaneStats, error) {
		return b.engine.LaneStats(ctx, lane)
	})
	if err != nil {
		return millrace.Stats{}, err
	}
	for _, s := range lanes {
		out.LaneStats = out.Plus(s)
	}
	held, err := b.queueStats(ctx, slices.Collect(maps.Values(h.queues)))
	if err != nil {
		return millrace.Stats{}, err
	}
	for _, s := range held {
		out.Queues = out.Queues.Plus(s.QueueCounts)
	}
	out.Subscriptions, err = b.countSubscriptions(ctx, h)
	return out, err
}

// askAtOnce is how many of the store's answers a question to all lanes waits for at a time.
const askAtOnce = 16

// askLanes asks every lane about each of n things. The answers about the first come first,
// by lane; those that failed are zero.
func askLanes[A any](ctx context.Context, b *Broker, n int, ask func(ctx context.Context, i, lane int) (A, error)) ([]A, error) {
	lanes := b.identity.Lanes
	answers := make([]A, n*lanes)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(askAtOnce)
	for i := range answers {
		g.Go(func() (err error) {
			answers[i], err = ask(ctx, i/lanes, i%lanes)
			return err
		})
	}
	return answers, g.Wait()
}

// queueStats asks every lane about each queue.
func (b *Broker) queueStats(ctx context.Context, queues []*queue) ([]millrace.QueueStats, error) {
	return askLanes(ctx, b, len(queues), func(ctx context.Context, i, lane int) (millrace.QueueStats, error) {
		return b.engine.Stats(ctx, lane, queues[i].uid)
	})
}

// subscriptionStats asks every lane about each subscription.
func (b *Broker) subscriptionStats(ctx context.Context, subs ...*subscription) ([]millrace.SubscriptionStats, error) {
	return askLanes(ctx, b, len(subs), func(ctx context.Context, i, lane int) (millrace.SubscriptionStats, error) {
		return b.engine.SubscriptionStats(ctx, lane, subs[i].uid)
	})
}

// countSubscriptions adds up what all subscriptions hold.
func (b *Broker) countSubscriptions(ctx context.Context, h *house) (c millrace.SubscriptionCounts, err error) {
	subs, lanes := slices.Collect(maps.Values(h.subs)), b.identity.Lanes
	stats, err := b.subscriptionStats(ctx, subs...)
	if err != nil {
		return c, err
	}
	for i, sub := range subs {
		s := sub.holding(stats[i*lanes : (i+1)*lanes])
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
