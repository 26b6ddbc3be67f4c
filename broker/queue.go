package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Queues is what is done with queues. It is a millrace.QueueService.
type Queues struct{ b *Broker }

var _ millrace.QueueService = Queues{}

// Queues is what is done with queues.
func (b *Broker) Queues() millrace.QueueService { return Queues{b} }

// Put defines a queue or replaces its definition; see millrace.QueueService.
func (s Queues) Put(ctx context.Context, name string, spec millrace.QueueSpec) (q millrace.Queue, created bool, err error) {
	if err := s.b.gate.enter(); err != nil {
		return q, false, err
	}
	defer s.b.gate.leave()
	if err := queueFaults(name, &spec); err != nil {
		return q, false, err
	}
	for range maxReroutes {
		d, isNew, err := s.define(ctx, name, spec)
		if millrace.CodeOf(err) == millrace.CodeChanged {
			continue
		}
		if err != nil {
			return q, false, err
		}
		q, err = s.describe(ctx, d)
		return q, isNew, err
	}
	return q, false, millrace.Errorf(millrace.CodeUnavailable, "the definition keeps changing; try again")
}

func queueFaults(name string, spec *millrace.QueueSpec) error {
	var faults []millrace.Fault
	if m := millrace.NameFault(name); m != "" {
		faults = append(faults, millrace.Fault{Location: "queue", Message: m})
	}
	return millrace.Invalid(append(faults, spec.Faults("")...))
}

// define writes a definition over the one that is there and tells every lane.
// The same definition again is not written, but told again.
func (s Queues) define(ctx context.Context, name string, spec millrace.QueueSpec) (*queue, bool, error) {
	r := s.b.registry
	h, err := r.reload(ctx)
	if err != nil {
		return nil, false, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, false, fmt.Errorf("write the definition of queue %s: %w", name, err)
	}
	d := millrace.Definition{Kind: millrace.KindQueue, Name: name, Spec: text}
	old, exists := h.queues[name]
	switch {
	case exists && bytes.Equal(old.definition.Spec, text):
		d = old.definition
	case exists:
		if err := immutable(&old.spec, &spec); err != nil {
			return nil, false, err
		}
		d.UID = old.uid
		d, err = s.b.engine.Define(ctx, d, old.definition.Version)
	default:
		if d.UID, err = newUID(); err == nil {
			d, err = s.b.engine.Define(ctx, d, 0)
		}
	}
	if err != nil {
		return nil, false, err
	}
	q, err := newQueue(d)
	if err != nil {
		return nil, false, err
	}
	if err := r.applyEverywhere(ctx, millrace.Apply{Version: d.Version, Queues: []millrace.QueueSettings{q.settings()}}); err != nil {
		return nil, false, err
	}
	_, err = r.reload(ctx)
	return q, !exists, err
}

func immutable(old, spec *millrace.QueueSpec) error {
	if old.Ordered != spec.Ordered || old.Tracked != spec.Tracked {
		return millrace.Errorf(millrace.CodeImmutable, "ordered and tracked cannot change; delete the queue and create it anew")
	}
	return nil
}

// Get returns a queue with what it holds.
func (s Queues) Get(ctx context.Context, name string) (millrace.Queue, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.Queue{}, err
	}
	defer s.b.gate.leave()
	q, err := s.b.registry.queue(ctx, name)
	if err != nil {
		return millrace.Queue{}, err
	}
	return s.describe(ctx, q)
}

// List returns queues by name; see millrace.QueueService.
func (s Queues) List(ctx context.Context, page millrace.Page) ([]millrace.Queue, string, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, "", err
	}
	names, next, err := pageOf(slices.Sorted(maps.Keys(h.queues)), page)
	if err != nil {
		return nil, "", err
	}
	queues := make([]millrace.Queue, 0, len(names))
	for _, name := range names {
		q, err := s.describe(ctx, h.queues[name])
		if err != nil {
			return nil, "", err
		}
		queues = append(queues, q)
	}
	return queues, next, nil
}

// describe gathers what a queue holds in all lanes.
func (s Queues) describe(ctx context.Context, q *queue) (millrace.Queue, error) {
	out := millrace.Queue{Name: q.name, Version: q.definition.Revision, State: "active", Spec: q.spec}
	for lane := range s.b.identity.Lanes {
		stats, err := s.b.engine.Stats(ctx, lane, q.uid)
		if err != nil {
			return millrace.Queue{}, err
		}
		out.QueueStats = out.Plus(stats)
	}
	return out, nil
}

// Delete removes a queue with all it holds; see millrace.QueueService.
func (s Queues) Delete(ctx context.Context, name string, ifEmpty bool) error {
	if err := s.b.gate.enter(); err != nil {
		return err
	}
	defer s.b.gate.leave()
	q, err := s.b.registry.queue(ctx, name)
	if err != nil {
		return err
	}
	if ifEmpty {
		held, err := s.describe(ctx, q)
		if err != nil {
			return err
		}
		if held.QueueCounts != (millrace.QueueCounts{}) {
			return millrace.Errorf(millrace.CodeNotEmpty, "the queue holds messages")
		}
	}
	d := q.definition
	d.Deleted = true
	if d, err = s.b.engine.Define(ctx, d, q.definition.Version); err != nil {
		if millrace.CodeOf(err) == millrace.CodeChanged {
			return millrace.Errorf(millrace.CodeUnavailable, "the definition has just changed; try again")
		}
		return err
	}
	if err := s.b.registry.applyEverywhere(ctx, millrace.Apply{Version: d.Version, Removed: []string{q.uid}}); err != nil {
		return err
	}
	s.b.sweeper.nudge()
	_, err = s.b.registry.reload(ctx)
	return err
}

// pageOf cuts a page out of sorted names. A cursor is the name before its page.
func pageOf(names []string, page millrace.Page) ([]string, string, error) {
	limit := page.Limit
	if limit == 0 {
		limit = millrace.DefaultPage
	}
	if limit < 1 || limit > millrace.MaxPage {
		return nil, "", millrace.Invalid([]millrace.Fault{{Location: "limit", Message: fmt.Sprintf("must be between 1 and %d", millrace.MaxPage)}})
	}
	if page.Cursor != "" && millrace.NameFault(page.Cursor) != "" {
		return nil, "", millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
	}
	from, found := slices.BinarySearch(names, page.Cursor)
	if found {
		from++
	}
	names = names[from:]
	if len(names) <= limit {
		return names, "", nil
	}
	return names[:limit], names[limit-1], nil
}
