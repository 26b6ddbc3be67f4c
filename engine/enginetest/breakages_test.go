package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// inside looks at a queue of the model under its lock.
func inside(m *Model, lane int, uid string, look func(*modelLane, *modelQueue)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lane < 0 || lane >= len(m.lanes) {
		return
	}
	if q := m.lanes[lane].queues[uid]; q != nil {
		look(m.lanes[lane], q)
	}
}

func receiptNotCompared(m *Model) millrace.Engine {
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		s.Items = slices.Clone(s.Items)
		inside(m, lane, s.Queue, func(_ *modelLane, q *modelQueue) {
			for i, item := range s.Items {
				for _, msg := range q.messages {
					if msg.name == item.Name {
						s.Items[i].Token = msg.token
					}
				}
			}
		})
		return m.Settle(context.Background(), lane, s)
	}}
}

func receiptNotSpent(m *Model) millrace.Engine {
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		done, err := m.Settle(context.Background(), lane, s)
		done.Lost = slices.DeleteFunc(done.Lost, func(i int) bool {
			return slices.ContainsFunc(s.Items[:i], func(o millrace.SettleItem) bool { return o.Name == s.Items[i].Name })
		})
		return done, err
	}}
}

func endedLeaseSettles(m *Model) millrace.Engine {
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		inside(m, lane, s.Queue, func(l *modelLane, q *modelQueue) {
			for _, msg := range q.messages {
				if msg.state == leased && msg.due <= s.Now.UnixMilli() {
					msg.due = s.Now.UnixMilli() + 1
				}
			}
		})
		return m.Settle(context.Background(), lane, s)
	}}
}

func servedTwice(m *Model) millrace.Engine {
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		all := millrace.Leased{}
		for range l.Max {
			one := l
			one.Max = 1
			done, err := m.Lease(context.Background(), lane, one)
			if err != nil {
				return done, err
			}
			done.Messages = append(all.Messages, done.Messages...)
			all = done
			inside(m, lane, l.Queue, func(_ *modelLane, q *modelQueue) {
				if n := len(q.ring); n > 0 && len(all.Messages)%3 == 1 {
					q.ring = append([]string{q.ring[n-1]}, q.ring[:n-1]...)
				}
			})
		}
		return all, nil
	}}
}

func lastInFirstOut(m *Model) millrace.Engine {
	reverse := func(lane int, uid string) {
		inside(m, lane, uid, func(_ *modelLane, q *modelQueue) { slices.Reverse(q.messages) })
	}
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		reverse(lane, l.Queue)
		defer reverse(lane, l.Queue)
		return m.Lease(context.Background(), lane, l)
	}}
}

func duplicateStored(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		c.Events = slices.Clone(c.Events)
		for i := range c.Events {
			c.Events[i].Remembered = false
		}
		return m.Publish(context.Background(), lane, c)
	}}
}

func anotherFacet(m *Model) millrace.Engine {
	return &broken{Model: m, step: func(m *Model, lane int, now time.Time, limit int) (millrace.Stepped, error) {
		m.mu.Lock()
		for _, q := range m.lanes[lane].queues {
			for _, msg := range q.messages {
				if msg.state == leased && len(q.ring) > 0 {
					msg.tenant = q.ring[0]
				}
			}
		}
		m.mu.Unlock()
		return m.Step(context.Background(), lane, now, limit)
	}}
}

func attemptsNotCounted(m *Model) millrace.Engine {
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		inside(m, lane, s.Queue, func(_ *modelLane, q *modelQueue) {
			for _, msg := range q.messages {
				msg.attempts = min(msg.attempts, 1)
			}
		})
		return m.Settle(context.Background(), lane, s)
	}}
}

func halfCommit(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		c.Events = slices.Clone(c.Events)
		for i, e := range c.Events {
			c.Events[i].Queues = e.Queues[:min(1, len(e.Queues))]
		}
		return m.Publish(context.Background(), lane, c)
	}}
}

func staleStores(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		done, err := m.Publish(context.Background(), lane, c)
		if millrace.CodeOf(err) == millrace.CodeStale {
			c.Events = c.Events[:1]
			_, _ = m.Publish(context.Background(), lane, c)
		}
		return done, err
	}}
}

func prevForgotten(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		m.mu.Lock()
		clear(m.lanes[lane].last)
		m.mu.Unlock()
		return m.Publish(context.Background(), lane, c)
	}}
}

func clockGoesBack(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		m.mu.Lock()
		m.lanes[lane].t = 0
		m.mu.Unlock()
		return m.Publish(context.Background(), lane, c)
	}}
}

func stepUnbounded(m *Model) millrace.Engine {
	return &broken{Model: m, step: func(m *Model, lane int, now time.Time, _ int) (millrace.Stepped, error) {
		return m.Step(context.Background(), lane, now, 1<<20)
	}}
}

func extensionForgotten(m *Model) millrace.Engine {
	return &broken{Model: m, extend: func(m *Model, lane int, e millrace.Extend) (millrace.Extended, error) {
		short := e
		short.For = time.Millisecond
		done, err := m.Extend(context.Background(), lane, short)
		done.Until = done.Until.Add(e.For - short.For)
		return done, err
	}}
}

type removedReturns struct{ *Model }

func (b removedReturns) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	b.mu.Lock()
	clear(b.lanes[lane].removed)
	b.mu.Unlock()
	return b.Model.Apply(ctx, lane, a)
}

func removedComesBack(m *Model) millrace.Engine { return removedReturns{m} }

type definesAnything struct{ *Model }

func (b definesAnything) Define(ctx context.Context, d millrace.Definition, _ uint64) (millrace.Definition, error) {
	current := uint64(0)
	for _, o := range b.registry.definitions {
		if o.Name == d.Name && o.Kind == d.Kind && !o.Deleted {
			current = o.Version
		}
	}
	return b.Model.Define(ctx, d, current)
}

func definitionNotCompared(m *Model) millrace.Engine { return definesAnything{m} }

type silent struct{ *Model }

func (silent) Watch(func(millrace.Hint)) func() { return func() {} }

func noHint(m *Model) millrace.Engine { return silent{m} }

func settledComesBack(m *Model) millrace.Engine {
	if !m.identity.Created {
		for _, l := range m.lanes {
			for _, q := range l.queues {
				for _, msg := range q.messages {
					if msg.state == dead {
						msg.state = waiting
						q.ring = append(q.ring, msg.tenant)
					}
				}
			}
		}
	}
	return m
}

func ackForgotten(m *Model) millrace.Engine {
	n := 0
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		m.mu.Lock()
		n++
		forget := n%10 == 0 && s.Verb == millrace.Ack
		m.mu.Unlock()
		if forget {
			return millrace.Settled{Due: -1}, nil
		}
		return m.Settle(context.Background(), lane, s)
	}}
}

func messageLost(m *Model) millrace.Engine {
	n := 0
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		inside(m, lane, l.Queue, func(_ *modelLane, q *modelQueue) {
			if n++; n%20 == 0 {
				i := slices.IndexFunc(q.messages, func(msg *modelMessage) bool { return msg.state != dead && len(q.ring) == 0 })
				q.messages = slices.Delete(q.messages, max(i, 0), i+1)
			}
		})
		return m.Lease(context.Background(), lane, l)
	}}
}
