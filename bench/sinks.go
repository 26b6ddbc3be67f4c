package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// sinks measures what publishing to one hot address costs when 1,000 queues are
// defined, of which one takes the event, against one queue alone.
type sinks struct{ site }

const (
	manySinks   = 1000
	sinkTopics  = 100 // that the patterns name
	sinksGoal   = 1.1
	publishEach = 5000 // events of a chunk
)

func (s sinks) run(ctx context.Context, quick bool) ([]finding, error) {
	ours, closeOurs, err := s.side(ctx, manySinks)
	if err != nil {
		return nil, err
	}
	defer closeOurs()
	base, closeBase, err := s.side(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer closeBase()
	if err := calmDown(ctx); err != nil {
		return nil, err
	}
	p, err := interleave(ctx, sized(quick, 30, 75), ours, base)
	if err != nil {
		return nil, err
	}
	return p.compareAll("publish in hundreds with 1,000 queues / 1", s.site, sinksGoal), nil
}

func (s sinks) side(ctx context.Context, queues int) (_ side, stop func(), err error) {
	m, err := s.open(ctx)
	if err != nil {
		return side{}, nil, err
	}
	if err := m.defineSinks(ctx, queues, queues/10); err != nil {
		m.close()
		return side{}, nil, err
	}
	hot := func(int) millrace.Event {
		return millrace.Event{Topic: "orders", Type: "order.placed", Data: payload()}
	}
	return side{
		redis: m.redis,
		chunk: func(ctx context.Context) (int, error) {
			return publishEach, m.publishMany(ctx, publishEach, hundred, hot)
		},
		after: m.purge,
	}, m.close, nil
}

// defineSinks defines n queues: the first takes what the rows publish, the
// others take nothing of it. So many of them have patterns that name no topic,
// and must be tried on every new address.
func (m *mill) defineSinks(ctx context.Context, n, nameless int) error {
	if err := m.define(ctx, queueName, millrace.DefaultQueueSpec(":orders:order")); err != nil {
		return err
	}
	others := newQuota(n - 1)
	return inParallel(batchers, func() error {
		for {
			left := int(others.left.Add(-1))
			if left < 0 {
				return nil
			}
			spec := millrace.DefaultQueueSpec(sinkPattern(left, nameless))
			if err := m.define(ctx, "sink-"+strconv.Itoa(left), spec); err != nil {
				return err
			}
		}
	})
}

// sinkPattern is the pattern of the i-th queue that takes nothing. Those that
// name a topic share a hundred of them, one of which is the one published.
func sinkPattern(i, nameless int) string {
	switch topic := i % sinkTopics; {
	case i < nameless:
		return fmt.Sprintf("^tenant-%d:", i)
	case topic == 0:
		return fmt.Sprintf(":orders:refund-%d", i)
	case topic%2 == 0:
		return fmt.Sprintf("^tenant-%d:topic-%d:", i, topic)
	default:
		return fmt.Sprintf(":topic-%d:", topic)
	}
}

// purge empties the queue that takes what the rows publish.
func (m *mill) purge(ctx context.Context) error {
	if _, _, err := m.Queues().Purge(ctx, queueName, ""); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}
