package main

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace"
)

// tracked measures what it costs that every message has an operation: publish, lease and ack, in hundreds and one by
// one. Both queues lie in one store and have messages of their own.
type tracked struct{ site }

const (
	trackedHundreds = 2000 // messages of a chunk
	trackedSingles  = 500
	trackedStock    = 5000 // that wait all the time, so that no lease comes short
	trackedGoal     = 1.5
	trackedQueue    = "tracked"
	untrackedQueue  = "plain"
)

func (t tracked) run(ctx context.Context, quick bool) ([]finding, error) {
	m, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := t.setUp(ctx, m); err != nil {
		return nil, err
	}
	var all []finding
	for _, way := range []struct {
		what        string
		count, each int
	}{{"in hundreds", trackedHundreds, hundred}, {"one by one", trackedSingles, 1}} {
		trip := func(queue string) side {
			return side{redis: m.redis, chunk: func(ctx context.Context) (int, error) {
				return way.count, m.roundTrip(ctx, queue, way.count, way.each)
			}}
		}
		p, err := interleave(ctx, sized(quick, 12, 50), trip(trackedQueue), trip(untrackedQueue))
		if err != nil {
			return nil, err
		}
		all = append(all, p.compareAll("publish + lease + ack "+way.what+", tracked / untracked", t.site, trackedGoal)...)
	}
	return all, nil
}

func (t tracked) setUp(ctx context.Context, m *mill) error {
	for _, queue := range []string{trackedQueue, untrackedQueue} {
		spec := millrace.DefaultQueueSpec(":" + queue + ":")
		spec.Tracked = queue == trackedQueue
		if err := m.define(ctx, queue, spec); err != nil {
			return err
		}
		if err := m.publishTo(ctx, queue, trackedStock, millrace.MaxEvents); err != nil {
			return err
		}
	}
	return calmDown(ctx)
}

func (m *mill) publishTo(ctx context.Context, topic string, n, each int) error {
	return m.publishMany(ctx, n, each, func(int) millrace.Event {
		return millrace.Event{Topic: topic, Type: "order.placed", Data: payload()}
	})
}

// roundTrip publishes n messages to a queue, so many at a time, and leases and acks as many.
func (m *mill) roundTrip(ctx context.Context, queue string, n, each int) error {
	if err := m.publishTo(ctx, queue, n, each); err != nil {
		return err
	}
	if each == hundred {
		return m.drain(ctx, queue, n)
	}
	left := newQuota(n)
	return inParallel(batchers, func() error {
		for left.take(1) > 0 {
			if err := m.leaseOne(ctx, queue); err != nil {
				return err
			}
		}
		return nil
	})
}

// leaseOne leases and acks one message.
func (m *mill) leaseOne(ctx context.Context, queue string) error {
	messages, err := m.Queues().Lease(ctx, queue, millrace.LeaseOptions{Max: 1, Lease: leaseFor})
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("lease of queue %s: got %d messages: %v", queue, len(messages), err)
	}
	done, err := m.Queues().Ack(ctx, queue, millrace.Settlement{Receipt: messages[0].Receipt})
	if err != nil || done.Settled != 1 {
		return fmt.Errorf("ack: %d settled: %v", done.Settled, err)
	}
	return nil
}
