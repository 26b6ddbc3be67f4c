package main

import (
	"context"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// ordered measures what it costs to keep the order of 10,000 keys, all of which
// have messages waiting the whole time. Both queues lie in one store and have
// messages of their own.
type ordered struct{ site }

const (
	activeKeys    = 10000
	orderedChunk  = 5000
	orderedGoal   = 1.5
	orderedQueue  = "ordered"
	unsortedQueue = "unordered"
)

func (o ordered) run(ctx context.Context, quick bool) ([]finding, error) {
	rounds := sized(quick, 20, 50)
	m, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := o.setUp(ctx, m, chunksOf(rounds)*orderedChunk+2*activeKeys); err != nil {
		return nil, err
	}
	drain := func(queue string) side {
		return side{redis: m.redis, chunk: func(ctx context.Context) (int, error) {
			return orderedChunk, m.drain(ctx, queue, orderedChunk)
		}}
	}
	p, err := interleave(ctx, rounds, drain(orderedQueue), drain(unsortedQueue))
	if err != nil {
		return nil, err
	}
	return p.compareAll("lease + ack of 10,000 keys, ordered / unordered", o.site, orderedGoal), nil
}

// setUp fills both queues with n messages each.
func (o ordered) setUp(ctx context.Context, m *mill, n int) error {
	for _, queue := range []string{orderedQueue, unsortedQueue} {
		spec := millrace.DefaultQueueSpec(":" + queue + ":")
		spec.Ordered = queue == orderedQueue
		if err := m.define(ctx, queue, spec); err != nil {
			return err
		}
	}
	topics := [...]string{orderedQueue, unsortedQueue}
	err := m.publishMany(ctx, 2*n, millrace.MaxEvents, func(i int) millrace.Event {
		key := "key-" + strconv.Itoa(i/2%activeKeys)
		return millrace.Event{Topic: topics[i%2], Type: "order.placed", Key: key, Data: payload()}
	})
	if err != nil {
		return err
	}
	return calmDown(ctx)
}
