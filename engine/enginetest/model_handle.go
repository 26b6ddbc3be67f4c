package enginetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// ListBatches lists batches by name.
func (m *Model) ListBatches(_ context.Context, lane int, p millrace.BatchPage) (list []millrace.Batch, err error) {
	_, s, err := m.sub(lane, p.Subscription)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	for _, b := range s.batches {
		if b.name > p.After && (p.State == "" || p.State == b.state) && len(list) < p.Limit {
			list = append(list, s.show(b))
		}
	}
	return list, nil
}

func (s *modelSub) show(b *modelBatch) millrace.Batch {
	shown := millrace.Batch{
		Name: b.name, State: b.state, Current: s.current == b, Count: len(b.events), Bytes: b.bytes(),
		Attempts: b.attempts, CreatedAt: at(b.created), Node: b.node, Error: b.err,
	}
	if b.due > 0 {
		shown.DueAt = at(b.due)
	}
	return shown
}

// sub enters a lane and finds a subscription; without an error, leave must follow.
func (m *Model) sub(lane int, uid string) (*modelLane, *modelSub, error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, nil, err
	}
	if s := l.subs[uid]; s != nil {
		return l, s, nil
	}
	m.leave()
	return nil, nil, millrace.Errorf(millrace.CodeNotFound, "no such subscription")
}

// Batch returns one batch.
func (m *Model) Batch(_ context.Context, lane int, subscription string, name uint64) (millrace.Batch, []millrace.BatchEvent, error) {
	_, s, err := m.sub(lane, subscription)
	if err != nil {
		return millrace.Batch{}, nil, err
	}
	defer m.leave()
	b := s.named(name)
	if b == nil {
		return millrace.Batch{}, nil, millrace.Errorf(millrace.CodeNotFound, "no such batch")
	}
	return s.show(b), b.shown(), nil
}

// RetryBatches makes batches ready.
func (m *Model) RetryBatches(_ context.Context, lane int, of millrace.BatchesOf) (done, left int, err error) {
	l, s, err := m.sub(lane, of.Subscription)
	if err != nil {
		return 0, 0, err
	}
	defer m.leave()
	m.tick(l, of.Now)
	for _, b := range slices.Clone(s.batches) {
		named := slices.Contains(of.Names, b.name) || of.Dead && b.state == millrace.BatchDead && done < of.Max
		if !named || b.state == millrace.BatchReady || b.state == millrace.BatchPending {
			continue
		}
		if b.state == millrace.BatchDead {
			b.attempts = 0
		}
		m.promote(l, of.Subscription, b)
		done++
	}
	return done, s.count(millrace.BatchDead), nil
}

// DropBatch removes a batch.
func (m *Model) DropBatch(_ context.Context, lane int, subscription string, name uint64) error {
	l, s, err := m.sub(lane, subscription)
	if err != nil {
		return err
	}
	defer m.leave()
	b := s.named(name)
	switch {
	case b == nil:
		return millrace.Errorf(millrace.CodeNotFound, "no such batch")
	case b.state == millrace.BatchPending:
		return millrace.Errorf(millrace.CodePending, "the batch is being sent")
	}
	m.dropBatch(l, subscription, b)
	return nil
}

// DropOldest removes the oldest batches of all subscriptions.
func (m *Model) DropOldest(_ context.Context, lane, limit int) (dropped []millrace.DroppedBatch, err error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var all []dueEntry
	for uid, s := range l.subs {
		for _, b := range s.batches {
			if b.state != millrace.BatchPending {
				all = append(all, dueEntry{uid: uid, name: b.name, batch: b})
			}
		}
	}
	slices.SortFunc(all, func(a, b dueEntry) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid)) })
	for _, e := range all[:min(limit, len(all))] {
		m.dropBatch(l, e.uid, e.batch)
		dropped = append(dropped, millrace.DroppedBatch{Subscription: e.uid, Name: e.name, Count: len(e.batch.events)})
	}
	return dropped, nil
}

// AttemptLog returns what was logged, newest first.
func (m *Model) AttemptLog(_ context.Context, lane int, subscription string) ([][]byte, error) {
	_, s, err := m.sub(lane, subscription)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	log := slices.Clone(s.log)
	slices.Reverse(log)
	return log, nil
}

// SubscriptionStats counts.
func (m *Model) SubscriptionStats(_ context.Context, lane int, subscription string) (millrace.SubscriptionStats, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.SubscriptionStats{}, err
	}
	defer m.leave()
	s := l.subs[subscription]
	if s == nil {
		return millrace.SubscriptionStats{}, nil
	}
	stats := millrace.SubscriptionStats{
		Sent: s.sent, Failed: s.failed, Dropped: s.dropped, Skipped: s.skipped, Batches: int64(len(s.batches)),
		Pending: int64(s.count(millrace.BatchPending)), Reason: s.reason, Parked: s.parked > 0 || s.probing,
	}
	for _, b := range s.batches {
		if b.state == millrace.BatchDead {
			stats.Dead += int64(len(b.events))
			continue
		}
		stats.Queued += int64(len(b.events))
		if stats.Oldest.IsZero() {
			stats.Oldest = at(b.created)
		}
	}
	if s.failingSince > 0 {
		stats.FailingSince = at(s.failingSince)
	}
	if s.parked > 0 {
		stats.NextAttemptAt = at(s.parked)
	}
	return stats, nil
}
