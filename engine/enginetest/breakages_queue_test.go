package enginetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// applies is the model with settings that are changed on their way.
func applies(change func(*millrace.QueueSettings)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine { return &broken{Model: m, apply: change} }
}

func pauseIgnored(m *Model) millrace.Engine {
	return applies(func(s *millrace.QueueSettings) { s.Paused = false })(m)
}

func limitIgnored(m *Model) millrace.Engine {
	return applies(func(s *millrace.QueueSettings) { s.TenantLimit = 0 })(m)
}

func blockIgnored(m *Model) millrace.Engine {
	return applies(func(s *millrace.QueueSettings) { s.Block = false })(m)
}

func retentionIgnored(m *Model) millrace.Engine {
	return applies(func(s *millrace.QueueSettings) { s.DeadRetention = 0 })(m)
}

func orderIgnored(m *Model) millrace.Engine {
	return applies(func(s *millrace.QueueSettings) { s.Ordered = false })(m)
}

// settles is the model with tenants' settings that are changed on their way.
type settles struct {
	*Model
	change func(*millrace.TenantSettings)
}

func (b settles) SetTenant(ctx context.Context, lane int, queue, tenant string, s *millrace.TenantSettings) error {
	if s != nil {
		changed := *s
		b.change(&changed)
		s = &changed
	}
	return b.Model.SetTenant(ctx, lane, queue, tenant, s)
}

func weightsIgnored(m *Model) millrace.Engine {
	return settles{m, func(s *millrace.TenantSettings) { s.Weight = min(s.Weight, 1) }}
}

func zeroServed(m *Model) millrace.Engine {
	return settles{m, func(s *millrace.TenantSettings) { s.Weight = max(s.Weight, 1) }}
}

func cutTurnForgotten(m *Model) millrace.Engine {
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		inside(m, lane, l.Queue, func(_ *modelLane, q *modelQueue) { q.credit = 0 })
		return m.Lease(context.Background(), lane, l)
	}}
}

// creditSurvives serves a tenant that was paused in the midst of its turn to the turn's end.
func creditSurvives(m *Model) millrace.Engine {
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		inside(m, lane, l.Queue, func(_ *modelLane, q *modelQueue) {
			if q.credit > 0 && q.weight(q.ring[0]) == 0 {
				q.tenants[q.ring[0]] = millrace.TenantSettings{Weight: q.credit}
			}
		})
		return m.Lease(context.Background(), lane, l)
	}}
}

func onceLeases(m *Model) millrace.Engine {
	return &broken{Model: m, lease: func(m *Model, lane int, l millrace.Lease) (millrace.Leased, error) {
		l.For = max(l.For, time.Millisecond)
		return m.Lease(context.Background(), lane, l)
	}}
}

func staysOut(m *Model) millrace.Engine {
	return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
		var before []string
		inside(m, lane, s.Queue, func(_ *modelLane, q *modelQueue) { before = slices.Clone(q.ring) })
		done, err := m.Settle(context.Background(), lane, s)
		inside(m, lane, s.Queue, func(_ *modelLane, q *modelQueue) {
			if q.settings.TenantLimit > 0 {
				q.ring = before
			}
		})
		return done, err
	}}
}

type speechless struct{ *Model }

func (b speechless) Dead(ctx context.Context, lane int, p millrace.DeadPage) ([]millrace.QueuedMessage, error) {
	all, err := b.Model.Dead(ctx, lane, p)
	for i := range all {
		all[i].Error = ""
	}
	return all, err
}

func reasonForgotten(m *Model) millrace.Engine { return speechless{m} }

func attemptsKept(m *Model) millrace.Engine {
	return &broken{Model: m, redrive: func(msg *modelMessage) { msg.attempts = 1 }}
}

func redriveToTheEnd(m *Model) millrace.Engine {
	return &broken{Model: m, redrive: func(msg *modelMessage) { msg.place = 1 << 40 }}
}

type purgesHalf struct{ *Model }

func (b purgesHalf) Purge(ctx context.Context, lane int, p millrace.Purge) (done, left int, err error) {
	var kept []*modelMessage
	inside(b.Model, lane, p.Queue, func(_ *modelLane, q *modelQueue) {
		for _, msg := range q.messages {
			if msg.state == delayed {
				kept = append(kept, msg)
				msg.state = leased
			}
		}
	})
	done, left, err = b.Model.Purge(ctx, lane, p)
	for _, msg := range kept {
		msg.state = delayed
	}
	return done + len(kept), left, err
}

func purgeLeaves(m *Model) millrace.Engine { return purgesHalf{m} }

type sortedPeek struct{ *Model }

func (b sortedPeek) Peek(ctx context.Context, lane int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
	all, err := b.Model.Peek(ctx, lane, p)
	slices.SortFunc(all, func(x, y millrace.QueuedMessage) int { return cmp.Compare(x.Name, y.Name) })
	return all, err
}

func peekByName(m *Model) millrace.Engine { return sortedPeek{m} }

type releasesAll struct{ *Model }

func (b releasesAll) Release(ctx context.Context, lane int, r millrace.Release) (int, error) {
	inside(b.Model, lane, r.Queue, func(_ *modelLane, q *modelQueue) {
		for _, msg := range q.messages {
			msg.consumer = r.Consumer
		}
	})
	return b.Model.Release(ctx, lane, r)
}

func releaseOfAll(m *Model) millrace.Engine { return releasesAll{m} }

func fullStores(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		done, err := m.Publish(context.Background(), lane, c)
		if millrace.CodeOf(err) == millrace.CodeFull {
			c.Events = c.Events[:1]
			_, _ = m.Publish(context.Background(), lane, c)
		}
		return done, err
	}}
}

func lengthOfAll(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		full := ""
		for _, e := range c.Events {
			for _, uid := range e.Queues {
				inside(m, lane, uid, func(_ *modelLane, q *modelQueue) {
					if limit := q.settings.MaxLength; limit > 0 && len(q.messages) > limit {
						full = uid
					}
				})
			}
		}
		if full != "" {
			return millrace.Committed{}, &millrace.Error{Code: millrace.CodeFull, Sink: full}
		}
		return m.Publish(context.Background(), lane, c)
	}}
}

func newestDropped(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		m.mu.Lock()
		for _, q := range m.lanes[lane].queues {
			slices.Reverse(q.messages)
		}
		m.mu.Unlock()
		done, err := m.Publish(context.Background(), lane, c)
		m.mu.Lock()
		for _, q := range m.lanes[lane].queues {
			slices.SortFunc(q.messages, func(x, y *modelMessage) int { return cmp.Compare(x.name, y.name) })
		}
		m.mu.Unlock()
		return done, err
	}}
}

// afterRetry is the model with messages that are changed when they are retried.
func afterRetry(change func(*modelMessage)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &broken{Model: m, settle: func(m *Model, lane int, s millrace.Settle) (millrace.Settled, error) {
			done, err := m.Settle(context.Background(), lane, s)
			inside(m, lane, s.Queue, func(l *modelLane, q *modelQueue) {
				for _, msg := range q.messages {
					if s.Verb == millrace.Retry && slices.ContainsFunc(s.Items, func(i millrace.SettleItem) bool { return i.Name == msg.name }) {
						change(msg)
						m.wait(l, q, msg.tenant)
					}
				}
			})
			return done, err
		}}
	}
}

func retryToTheEnd(m *Model) millrace.Engine {
	return afterRetry(func(msg *modelMessage) { msg.place = 1 << 40 })(m)
}

func delayForgetsKey(m *Model) millrace.Engine {
	return afterRetry(func(msg *modelMessage) { msg.key = "" })(m)
}
