package enginetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// seen is the time of a read: it does not move the lane's clock.
func (m *Model) seen(l *modelLane, now time.Time) int64 {
	clock := &modelLane{t: l.t, offset: l.offset}
	m.tick(clock, now)
	return clock.t
}

// shown finds an operation that has not expired.
func (l *modelLane) shown(t int64, number uint64) (*modelOperation, error) {
	for _, op := range l.operations {
		if op.ID.Number == number && !op.expired(t) {
			return op, nil
		}
	}
	return nil, millrace.Errorf(millrace.CodeNotFound, "no such operation")
}

func (op *modelOperation) expired(t int64) bool {
	return op.Status.Finished() && t >= op.ExpiresAt.UnixMilli()
}

// copied is an operation that later changes do not reach.
func (op *modelOperation) copied() millrace.StoredOperation {
	s := op.StoredOperation
	if s.Progress != nil {
		told := *s.Progress
		s.Progress = &told
	}
	return s
}

// Operation returns one.
func (m *Model) Operation(_ context.Context, lane int, r millrace.ReadOperation) (millrace.StoredOperation, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	defer m.leave()
	op, err := l.shown(m.seen(l, r.Now), r.Number)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	op.watched = op.watched || r.Watch && !op.Status.Finished()
	return op.copied(), nil
}

// ListOperations looks at operations from the highest number down.
func (m *Model) ListOperations(_ context.Context, lane int, p millrace.OperationPage) (list []millrace.StoredOperation, next uint64, err error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, 0, err
	}
	defer m.leave()
	t := m.seen(l, p.Now)
	index := l.index(p)
	for i, op := range index {
		if len(list) == p.Limit || i == millrace.MaxListExamined {
			return list, index[i-1].ID.Number, nil
		}
		if onPage(p, op, t) {
			list = append(list, op.copied())
		}
	}
	return list, 0, nil
}

// index are the operations of a page's subject, or else of its queue, below Before, the highest first.
func (l *modelLane) index(p millrace.OperationPage) []*modelOperation {
	var index []*modelOperation
	for _, op := range slices.Backward(l.operations) {
		in := op.UID == p.Queue && l.queues[op.UID] != nil
		if p.Subject != "" {
			in = op.Subject == p.Subject
		}
		if in && (p.Before == 0 || op.ID.Number < p.Before) {
			index = append(index, op)
		}
	}
	return index
}

// onPage tells whether an operation that a page looks at is on it.
func onPage(p millrace.OperationPage, op *modelOperation, t int64) bool {
	return !op.expired(t) && (p.Queue == "" || p.Queue == op.UID) && (p.Status == "" || p.Status == op.Status) &&
		(p.Tenant == "" || p.Tenant == op.Tenant)
}

// countedAt is the place of a count.
type countedAt struct {
	bucket millrace.CountBucket
	at     int64
}

// counted counts a move of an operation, unless its queue was removed: in the
// bucket of now of every length, and in the queue's total.
func (l *modelLane) counted(op *modelOperation, count func(*millrace.OperationCount)) {
	q := l.queues[op.UID]
	if q == nil {
		return
	}
	for _, b := range []millrace.CountBucket{millrace.Minutes, millrace.Hours, millrace.Days} {
		place := countedAt{b, l.t - l.t%b.Span().Milliseconds()}
		if q.counts[place] == nil {
			q.counts[place] = &millrace.OperationCount{At: at(place.at)}
		}
		count(q.counts[place])
	}
	total := millrace.OperationCount{Tally: q.total}
	count(&total)
	q.total = total.Tally
}

// add counts a length of time.
func add(s *millrace.Spans, ms int64) {
	if *s == nil {
		*s = millrace.Spans{}
	}
	(*s)[millrace.SpanIndex(ms)]++
}

// OperationCounts returns buckets by time.
func (m *Model) OperationCounts(_ context.Context, lane int, c millrace.CountQuery) ([]millrace.OperationCount, millrace.Tally, error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, millrace.Tally{}, err
	}
	defer m.leave()
	q := l.queues[c.Queue]
	if q == nil {
		return nil, millrace.Tally{}, nil
	}
	kept := at(m.seen(l, c.Now) - c.Bucket.Kept().Milliseconds())
	var list []millrace.OperationCount
	for place, count := range q.counts {
		if place.bucket == c.Bucket && !count.At.Before(kept) && !count.At.Before(c.Since) && count.At.Before(c.Until) {
			list = append(list, *count)
		}
	}
	slices.SortFunc(list, func(a, b millrace.OperationCount) int { return a.At.Compare(b.At) })
	for i := range list {
		list[i].Queued, list[i].Running = maps.Clone(list[i].Queued), maps.Clone(list[i].Running)
	}
	return list, q.total, nil
}
