package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// publishes is the model with events that are changed on their way.
func publishes(change func(*millrace.CommitEvent)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
			c.Events = slices.Clone(c.Events)
			for i := range c.Events {
				change(&c.Events[i])
			}
			return m.Publish(context.Background(), lane, c)
		}}
	}
}

func holdIgnored(m *Model) millrace.Engine {
	return publishes(func(e *millrace.CommitEvent) { e.Delay = 0 })(m)
}

func heldStays(m *Model) millrace.Engine {
	return publishes(func(e *millrace.CommitEvent) { e.From = 0 })(m)
}

func heldForgotten(m *Model) millrace.Engine {
	return publishes(func(e *millrace.CommitEvent) { e.Remembered = e.Remembered && e.Delay == 0 })(m)
}

func handedOnce(m *Model) millrace.Engine {
	return &broken{Model: m, step: func(m *Model, lane int, now time.Time, limit int) (millrace.Stepped, error) {
		done, err := m.Step(context.Background(), lane, now, limit)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, h := range m.lanes[lane].held {
			if h.next > h.due {
				h.next = 1 << 50
			}
		}
		return done, err
	}}
}

type cancelsNothing struct{ *Model }

func (b cancelsNothing) CancelHeld(ctx context.Context, lane int, tenant, id string) error {
	_, err := b.Held(ctx, lane, tenant, id)
	return err
}

func cancelForgotten(m *Model) millrace.Engine { return cancelsNothing{m} }

func heldLost(m *Model) millrace.Engine {
	if !m.identity.Created {
		for _, l := range m.lanes {
			l.held = nil
		}
	}
	return m
}

func heldLostUnderLoad(m *Model) millrace.Engine {
	n := 0
	return &broken{Model: m, step: func(m *Model, lane int, now time.Time, limit int) (millrace.Stepped, error) {
		m.mu.Lock()
		if l := m.lanes[lane]; len(l.held) > 0 {
			if n++; n%3 == 0 {
				l.held = l.held[1:]
			}
		}
		m.mu.Unlock()
		return m.Step(context.Background(), lane, now, limit)
	}}
}

// injects is the model with something done to it after each injection.
type injects struct {
	*Model
	after func(*modelLane, *modelMessage)
}

func (b injects) Inject(ctx context.Context, lane int, in millrace.Inject) error {
	err := b.Model.Inject(ctx, lane, in)
	inside(b.Model, lane, in.Queue, func(l *modelLane, q *modelQueue) {
		for i := range in.Events {
			b.after(l, q.messages[len(q.messages)-1-i])
		}
	})
	return err
}

func injectedBySeq(m *Model) millrace.Engine {
	return injects{m, func(_ *modelLane, msg *modelMessage) { msg.name = msg.seq }}
}

func injectionCounted(m *Model) millrace.Engine {
	return injects{m, func(l *modelLane, _ *modelMessage) { l.stats.Published++ }}
}
