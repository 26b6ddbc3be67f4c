package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// bent is the model with some of its calls on operations and triggers replaced.
type bent struct {
	*Model
	start  func(*Model, int, millrace.Start) (millrace.Started, error)
	report func(*Model, int, millrace.ProgressReport) error
	cancel func(*Model, int, time.Time, uint64) (millrace.StoredOperation, error)
	list   func(*Model, int, millrace.OperationPage) ([]millrace.StoredOperation, uint64, error)
	count  func(*Model, int, millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error)
	fire   func(*millrace.Fire)
	extend func(*millrace.Extended)
	peek   func(*Model, int, millrace.Peek) ([]millrace.QueuedMessage, error)
	apply  func(*Model, int, *millrace.Apply)
}

func (b *bent) Start(ctx context.Context, lane int, s millrace.Start) (millrace.Started, error) {
	if b.start != nil {
		return b.start(b.Model, lane, s)
	}
	return b.Model.Start(ctx, lane, s)
}

func (b *bent) Report(ctx context.Context, lane int, r millrace.ProgressReport) error {
	if b.report != nil {
		return b.report(b.Model, lane, r)
	}
	return b.Model.Report(ctx, lane, r)
}

func (b *bent) CancelOperation(ctx context.Context, lane int, now time.Time, number uint64) (millrace.StoredOperation, error) {
	if b.cancel != nil {
		return b.cancel(b.Model, lane, now, number)
	}
	return b.Model.CancelOperation(ctx, lane, now, number)
}

func (b *bent) ListOperations(ctx context.Context, lane int, p millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
	if b.list != nil {
		return b.list(b.Model, lane, p)
	}
	return b.Model.ListOperations(ctx, lane, p)
}

func (b *bent) OperationCounts(ctx context.Context, lane int, c millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error) {
	if b.count != nil {
		return b.count(b.Model, lane, c)
	}
	return b.Model.OperationCounts(ctx, lane, c)
}

func (b *bent) Fire(ctx context.Context, lane int, f millrace.Fire) (millrace.Fired, error) {
	if b.fire != nil {
		b.fire(&f)
	}
	return b.Model.Fire(ctx, lane, f)
}

func (b *bent) Extend(ctx context.Context, lane int, e millrace.Extend) (millrace.Extended, error) {
	done, err := b.Model.Extend(ctx, lane, e)
	if b.extend != nil {
		b.extend(&done)
	}
	return done, err
}

func (b *bent) Peek(ctx context.Context, lane int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
	if b.peek != nil {
		return b.peek(b.Model, lane, p)
	}
	return b.Model.Peek(ctx, lane, p)
}

func (b *bent) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	if b.apply != nil {
		b.apply(b.Model, lane, &a)
	}
	return b.Model.Apply(ctx, lane, a)
}

// within looks at a lane of the model under its lock.
func within(m *Model, lane int, look func(*modelLane)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lane >= 0 && lane < len(m.lanes) {
		look(m.lanes[lane])
	}
}

// startsWith is the model with starts that are changed on their way.
func startsWith(change func(*millrace.Start)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &bent{Model: m, start: func(m *Model, lane int, s millrace.Start) (millrace.Started, error) {
			change(&s)
			return m.Start(context.Background(), lane, s)
		}}
	}
}

func startInChain(m *Model) millrace.Engine {
	return &bent{Model: m, start: func(m *Model, lane int, s millrace.Start) (millrace.Started, error) {
		done, err := m.Start(context.Background(), lane, s)
		within(m, lane, func(l *modelLane) { l.last[[2]string{s.Tenant, s.Key}] = done.ID.Number })
		return done, err
	}}
}

func startShown(m *Model) millrace.Engine {
	return &bent{Model: m, start: func(m *Model, lane int, s millrace.Start) (millrace.Started, error) {
		done, err := m.Start(context.Background(), lane, s)
		within(m, lane, func(l *modelLane) { m.show(l, millrace.CommitEvent{Body: s.Body}, millrace.Stamp{Seq: done.ID.Number}) })
		return done, err
	}}
}

// reportsWith is the model with reports that are changed on their way.
func reportsWith(change func(*millrace.ProgressReport)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &bent{Model: m, report: func(m *Model, lane int, r millrace.ProgressReport) error {
			change(&r)
			return m.Report(context.Background(), lane, r)
		}}
	}
}

func progressFalls(m *Model) millrace.Engine {
	return &bent{Model: m, report: func(m *Model, lane int, r millrace.ProgressReport) error {
		err := m.Report(context.Background(), lane, r)
		within(m, lane, func(l *modelLane) {
			for _, op := range l.operations {
				if err == nil && op.ID.Number == r.Number {
					op.Progress.Percent = r.Percent
				}
			}
		})
		return err
	}}
}

// anybodyReports takes the token of whoever holds the message.
func anybodyReports(m *Model) millrace.Engine {
	return &bent{Model: m, report: func(m *Model, lane int, r millrace.ProgressReport) error {
		within(m, lane, func(l *modelLane) {
			for _, q := range l.queues {
				for _, msg := range q.messages {
					if msg.name == r.Name {
						r.Token = msg.token
					}
				}
			}
		})
		return m.Report(context.Background(), lane, r)
	}}
}

// finishedCancelled makes CANCELLED what has finished otherwise.
func finishedCancelled(m *Model) millrace.Engine {
	return &bent{Model: m, cancel: func(m *Model, lane int, now time.Time, number uint64) (millrace.StoredOperation, error) {
		done, err := m.CancelOperation(context.Background(), lane, now, number)
		within(m, lane, func(l *modelLane) {
			for _, op := range l.operations {
				if op.ID.Number == number && millrace.CodeOf(err) == millrace.CodeFinished {
					op.Status = millrace.OperationCancelled
				}
			}
		})
		return done, err
	}}
}

func untold(m *Model) millrace.Engine {
	return &bent{Model: m, extend: func(e *millrace.Extended) { e.Cancelled = nil }}
}

func cancelledPeeked(m *Model) millrace.Engine {
	return &bent{Model: m, peek: func(m *Model, lane int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
		var hidden []*modelOperation
		within(m, lane, func(l *modelLane) {
			for _, op := range l.operations {
				if op.Status == millrace.OperationCancelled {
					op.Status = millrace.OperationQueued
					hidden = append(hidden, op)
				}
			}
		})
		all, err := m.Peek(context.Background(), lane, p)
		within(m, lane, func(*modelLane) {
			for _, op := range hidden {
				op.Status = millrace.OperationCancelled
			}
		})
		return all, err
	}}
}

func trackedChanges(m *Model) millrace.Engine {
	return &bent{Model: m, apply: func(m *Model, lane int, a *millrace.Apply) {
		within(m, lane, func(l *modelLane) {
			for _, s := range a.Queues {
				if q := l.queues[s.UID]; q != nil {
					q.settings.Tracked = s.Tracked
				}
			}
		})
	}}
}

func removedFires(m *Model) millrace.Engine {
	return &bent{Model: m, apply: func(_ *Model, _ int, a *millrace.Apply) {
		a.Removed = slices.DeleteFunc(slices.Clone(a.Removed), func(uid string) bool { return uid == triggerUID })
	}}
}

// fires is the model with firings that are changed on their way.
func fires(change func(*millrace.Fire)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine { return &bent{Model: m, fire: change} }
}

// lists is the model with pages of operations that are changed on their way, and back.
func lists(ask func(*millrace.OperationPage), answer func([]millrace.StoredOperation, *uint64)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &bent{Model: m, list: func(m *Model, lane int, p millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
			if ask != nil {
				ask(&p)
			}
			list, next, err := m.ListOperations(context.Background(), lane, p)
			if answer != nil {
				answer(list, &next)
			}
			return list, next, err
		}}
	}
}

func oldestListed(m *Model) millrace.Engine {
	return lists(nil, func(list []millrace.StoredOperation, _ *uint64) { slices.Reverse(list) })(m)
}

// listUnbounded looks on until it has a full page.
func listUnbounded(m *Model) millrace.Engine {
	return &bent{Model: m, list: func(m *Model, lane int, p millrace.OperationPage) ([]millrace.StoredOperation, uint64, error) {
		all, next, err := m.ListOperations(context.Background(), lane, p)
		for next != 0 && len(all) < p.Limit {
			var more []millrace.StoredOperation
			p.Before = next
			more, next, err = m.ListOperations(context.Background(), lane, p)
			all = append(all, more...)
		}
		return all, next, err
	}}
}

// counting is the model with counts that are changed on their way, and back.
func counting(ask func(*millrace.CountQuery), answer func(*millrace.OperationCount)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &bent{Model: m, count: func(m *Model, lane int, c millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error) {
			if ask != nil {
				ask(&c)
			}
			list, total, err := m.OperationCounts(context.Background(), lane, c)
			for i := range list {
				if answer != nil {
					answer(&list[i])
				}
			}
			return list, total, err
		}}
	}
}
