package embedded

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// eventsAtOnce is about how many events of batches one transition drops: a
// batch has many, and nobody should wait for all of a thousand batches.
const eventsAtOnce = 10_000

// ListBatches lists batches by name, after one.
func (e *Engine) ListBatches(ctx context.Context, no int, p millrace.BatchPage) (list []millrace.Batch, err error) {
	err = e.lookSub(ctx, no, p.Subscription, func(l *lane, s *subscription, _ *group) (err error) {
		var chosen []*batch
		for _, b := range s.batches[s.after(p.After):] {
			if len(chosen) >= p.Limit {
				break
			}
			if b.state != batchGone && (p.State == "" || p.State == b.state.word()) {
				chosen = append(chosen, b)
			}
		}
		list, err = l.listed(s, chosen)
		return err
	})
	return list, err
}

// listed is batches of a subscription as listings show them.
func (l *lane) listed(s *subscription, batches []*batch) ([]millrace.Batch, error) {
	errors, err := l.lastErrors(s, batches)
	if err != nil {
		return nil, l.engine.readFailed(err)
	}
	var list []millrace.Batch
	for i, b := range batches {
		shown := millrace.Batch{
			Name: b.name(), State: b.state.word(), Current: s.current == b, Count: int(b.count), Bytes: int(b.bytes),
			Attempts: int(b.attempts), CreatedAt: milli(b.created), DueAt: moment(b.due.at), Error: errors[i],
		}
		if b.sending != nil {
			shown.Node = b.sending.node
		}
		list = append(list, shown)
	}
	return list, nil
}

func errNoBatch() error {
	return millrace.Errorf(millrace.CodeNotFound, "the subscription has no such batch in this lane")
}

// Batch returns one batch with its events.
func (e *Engine) Batch(ctx context.Context, no int, uid string, name uint64) (millrace.Batch, []millrace.BatchEvent, error) {
	var shown []millrace.Batch
	var m manifest
	err := e.lookSub(ctx, no, uid, func(l *lane, s *subscription, _ *group) (err error) {
		b := s.named(name)
		if b == nil {
			return errNoBatch()
		}
		m = b.manifest()
		shown, err = l.listed(s, []*batch{b})
		return err
	})
	if err != nil {
		return millrace.Batch{}, nil, err
	}
	l, err := e.enter(ctx, no)
	if err != nil {
		return millrace.Batch{}, nil, err
	}
	defer e.leave()
	events, err := l.readEvents([]manifest{m})
	if err != nil {
		return millrace.Batch{}, nil, e.readFailed(err)
	}
	if events[0] == nil { // it has gone meanwhile
		return millrace.Batch{}, nil, errNoBatch()
	}
	return shown[0], events[0], nil
}

// RetryBatches makes batches ready at once.
func (e *Engine) RetryBatches(ctx context.Context, no int, of millrace.BatchesOf) (done, left int, err error) {
	err = e.onSub(ctx, no, of.Subscription, of.Now, func(l *lane, s *subscription, g *group, _ int64) error {
		for _, b := range s.choose(&of) {
			if b.state == batchDead {
				b.attempts = 0
			}
			l.makeReady(g, b)
			done++
		}
		left = s.deadBatches
		return nil
	})
	return done, left, err
}

// choose is the batches that wait and are meant, by name.
func (s *subscription) choose(of *millrace.BatchesOf) (list []*batch) {
	names := slices.Compact(slices.Sorted(slices.Values(of.Names)))
	if !of.Dead {
		for _, name := range names {
			if b := s.named(name); b != nil && (b.state == batchEarly || b.state == batchDead) {
				list = append(list, b)
			}
		}
		return list
	}
	for _, b := range s.batches {
		if len(names) == 0 && len(list) >= of.Max {
			break
		}
		_, named := slices.BinarySearch(names, b.name())
		switch b.state {
		case batchEarly:
			if named {
				list = append(list, b)
			}
		case batchDead:
			if named || len(list) < of.Max {
				list = append(list, b)
			}
		}
	}
	return list
}

// DropBatch removes a batch that is not being sent.
func (e *Engine) DropBatch(ctx context.Context, no int, uid string, name uint64) error {
	return e.lookSub(ctx, no, uid, func(l *lane, s *subscription, g *group) error {
		switch b := s.named(name); {
		case b == nil:
			return errNoBatch()
		case b.state == batchPending:
			return millrace.Errorf(millrace.CodePending, "the batch is being sent; try again when it is not")
		default:
			l.dropBatch(g, b)
		}
		return nil
	})
}

// DropOldest removes the batches of all subscriptions that have the lowest names.
func (e *Engine) DropOldest(ctx context.Context, no int, most int) ([]millrace.DroppedBatch, error) {
	l, err := e.enter(ctx, no)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	var list []millrace.DroppedBatch
	err = l.do(ctx, func(g *group) error {
		events := 0
		for _, b := range l.oldest(most) {
			if events >= eventsAtOnce {
				break
			}
			events += int(b.count)
			list = append(list, millrace.DroppedBatch{Subscription: b.sub().uid.String(), Name: b.name(), Count: int(b.count)})
			l.dropBatch(g, b)
		}
		return nil
	})
	return list, err
}

// oldest is up to most batches that are not pending, by name, then by uid. It
// goes through all subscriptions side by side.
func (l *lane) oldest(most int) (list []*batch) {
	var next agenda // by name, as if that were a time
	advance := func(d *due, from int) {
		for i, b := range d.sub.batches[from:] {
			if b.state != batchGone && b.state != batchPending {
				d.at, d.seq = int64(b.name()), uint64(from+i)
				next.push(d)
				return
			}
		}
	}
	for _, s := range l.subs {
		advance(&due{sub: s}, 0)
	}
	for len(list) < most && next.first() != nil {
		d := next.first()
		list = append(list, d.sub.batches[d.seq])
		next.remove(d)
		advance(d, int(d.seq)+1)
	}
	return list
}
