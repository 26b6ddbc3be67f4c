package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/millrace-dev/millrace"
)

// laneOf is the lane that a batch lies in, by its name.
func (s Subscriptions) laneOf(name uint64) int { return millrace.LaneOfSeq(name, s.b.identity.Lanes) }

// inLane does something with a subscription in a lane.
func (s Subscriptions) inLane(ctx context.Context, sub *subscription, lane int, do func() error) error {
	return s.b.registry.inLane(ctx, &sub.definition, lane, do)
}

// Batches lists batches, oldest first; see millrace.SubscriptionService. A cursor is the
// id of the batch before its page.
func (s Subscriptions) Batches(ctx context.Context, name string, q millrace.BatchQuery) ([]millrace.SubscriptionBatch, string, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	limit, after, err := batchPage(q.Page)
	if err != nil {
		return nil, "", err
	}
	var all []millrace.Batch
	for lane := range s.b.identity.Lanes {
		err := s.inLane(ctx, sub, lane, func() error {
			list, err := s.b.engine.ListBatches(ctx, lane, millrace.BatchPage{Subscription: sub.uid, State: q.State, After: after, Limit: limit + 1})
			all = append(all, list...)
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	slices.SortFunc(all, func(a, b millrace.Batch) int { return cmp.Compare(a.Name, b.Name) })
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = millrace.MessageID(all[limit-1].Name)
	}
	list := make([]millrace.SubscriptionBatch, len(all))
	for i, b := range all {
		list[i] = millrace.SubscriptionBatch{ID: millrace.MessageID(b.Name), Batch: b}
	}
	return list, next, nil
}

func batchPage(p millrace.Page) (limit int, after uint64, err error) {
	limit, faults := pageFaults(p.Limit, "")
	if err := millrace.Invalid(faults); err != nil {
		return 0, 0, err
	}
	if p.Cursor == "" {
		return limit, 0, nil
	}
	after, ok := millrace.ParseMessageID(p.Cursor)
	if !ok {
		return 0, 0, millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
	}
	return limit, after, nil
}

// enterBatch lets a call in and finds its subscription and the name of its batch;
// without an error, leave must follow.
func (s Subscriptions) enterBatch(ctx context.Context, name, id string) (*subscription, uint64, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	batch, ok := millrace.ParseMessageID(id)
	if !ok {
		s.b.gate.leave()
		return nil, 0, millrace.Errorf(millrace.CodeNotFound, "there is no such batch")
	}
	return sub, batch, nil
}

// GetBatch returns one batch with its events.
func (s Subscriptions) GetBatch(ctx context.Context, name, id string) (millrace.SubscriptionBatch, error) {
	sub, batch, err := s.enterBatch(ctx, name, id)
	if err != nil {
		return millrace.SubscriptionBatch{}, err
	}
	defer s.b.gate.leave()
	b, stored, err := s.b.engine.Batch(ctx, s.laneOf(batch), sub.uid, batch)
	if err != nil {
		return millrace.SubscriptionBatch{}, err
	}
	events, err := eventsOf(stored)
	return millrace.SubscriptionBatch{ID: id, Batch: b, Events: events}, err
}

// eventsOf reads the events of a batch, with their stamps.
func eventsOf(stored []millrace.BatchEvent) ([]millrace.Event, error) {
	events := make([]millrace.Event, len(stored))
	for i, b := range stored {
		e, err := millrace.DecodeEvent(b.Body)
		if err != nil {
			return nil, millrace.Wrap(millrace.CodeInternal, err, "a stored event cannot be read")
		}
		e.Seq, e.Prev, e.RecordedAt = b.Seq, b.Prev, b.RecordedAt
		events[i] = e
	}
	return events, nil
}

// DropBatch removes a batch; see millrace.SubscriptionService.
func (s Subscriptions) DropBatch(ctx context.Context, name, id string) error {
	sub, batch, err := s.enterBatch(ctx, name, id)
	if err != nil {
		return err
	}
	defer s.b.gate.leave()
	return s.b.engine.DropBatch(ctx, s.laneOf(batch), sub.uid, batch)
}

// RetryBatch makes a batch ready at once; see millrace.SubscriptionService.
func (s Subscriptions) RetryBatch(ctx context.Context, name, id string) (int, error) {
	sub, batch, err := s.enterBatch(ctx, name, id)
	if err != nil {
		return 0, err
	}
	defer s.b.gate.leave()
	lane := s.laneOf(batch)
	if _, _, err := s.b.engine.Batch(ctx, lane, sub.uid, batch); err != nil {
		return 0, err
	}
	n, _, err := s.b.engine.RetryBatches(ctx, lane, millrace.BatchesOf{Subscription: sub.uid, Names: []uint64{batch}})
	return n, err
}

// RetryDead makes all dead batches ready; see millrace.SubscriptionService.
func (s Subscriptions) RetryDead(ctx context.Context, name string) (int, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return 0, err
	}
	defer s.b.gate.leave()
	done := 0
	for lane := range s.b.identity.Lanes {
		for left := 1; left > 0; {
			err := s.inLane(ctx, sub, lane, func() (err error) {
				var n int
				n, left, err = s.b.engine.RetryBatches(ctx, lane, millrace.BatchesOf{Subscription: sub.uid, Dead: true, Max: millrace.MaxPage})
				done += n
				if n == 0 {
					left = 0
				}
				return err
			})
			if err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// Attempts returns the last attempts; see millrace.SubscriptionService.
func (s Subscriptions) Attempts(ctx context.Context, name, batch, event string) ([]millrace.Attempt, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer s.b.gate.leave()
	all, err := s.attempts(ctx, sub, func(a *attemptRecord) bool {
		return (batch == "" || a.Batch == batch) && (event == "" || a.marks(event))
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b millrace.Attempt) int { return b.At.Compare(a.At) })
	return all[:min(len(all), millrace.MaxAttemptLog)], nil
}

// attempts are those of all lanes that are remembered and wanted.
func (s Subscriptions) attempts(ctx context.Context, sub *subscription, wanted func(*attemptRecord) bool) ([]millrace.Attempt, error) {
	all := []millrace.Attempt{}
	for lane := range s.b.identity.Lanes {
		err := s.inLane(ctx, sub, lane, func() error {
			log, err := s.b.engine.AttemptLog(ctx, lane, sub.uid)
			for _, text := range log {
				var a attemptRecord
				if json.Unmarshal(text, &a) == nil && wanted(&a) {
					all = append(all, a.Attempt)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Inject puts events into one subscription, as they are; see millrace.SubscriptionService.
func (s Subscriptions) Inject(ctx context.Context, name string, events ...millrace.Event) (int, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return 0, err
	}
	defer s.b.gate.leave()
	if err := millrace.Invalid(injectFaults(events)); err != nil {
		return 0, err
	}
	return s.b.inject(ctx, &sub.definition, events, func(list []millrace.InjectEvent) millrace.Inject {
		return millrace.Inject{Subscription: sub.uid, Events: list}
	})
}
