package broker

import (
	"context"
	"fmt"
	"reflect"
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
	if spec.Redact == nil {
		spec.Redact = []string{}
	}
	err = untilStill(func() error {
		d, isNew, err := s.define(ctx, name, spec)
		if err != nil {
			return err
		}
		created = isNew
		q, err = s.describe(ctx, d)
		return err
	})
	return q, created, err
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
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, false, err
	}
	old, exists := h.queues[name]
	switch {
	case exists && reflect.DeepEqual(old.spec, spec):
		return old, false, s.tell(ctx, old)
	case exists:
		if err := immutable(&old.spec, &spec); err != nil {
			return nil, false, err
		}
		q, err := s.write(ctx, old, queueRecord{QueueSpec: spec, Version: old.version + 1, Paused: old.paused})
		return q, false, err
	}
	fresh := &queue{definition: millrace.Definition{Kind: millrace.KindQueue, Name: name, UID: newUID()}}
	q, err := s.write(ctx, fresh, queueRecord{QueueSpec: spec, Version: 1})
	return q, true, err
}

// write replaces a queue's record in the registry and tells every lane.
func (s Queues) write(ctx context.Context, old *queue, record queueRecord) (*queue, error) {
	d, err := s.b.registry.write(ctx, old.definition, record)
	if err != nil {
		return nil, err
	}
	q, err := newQueue(d)
	if err != nil {
		return nil, err
	}
	return q, s.tell(ctx, q)
}

// tell tells every lane of a queue, and this node.
func (s Queues) tell(ctx context.Context, q *queue) error {
	return s.b.registry.tell(ctx, millrace.Apply{Version: q.definition.Version, Queues: []millrace.QueueSettings{q.settings()}})
}

// Pause stops leasing; see millrace.QueueService.
func (s Queues) Pause(ctx context.Context, name string) error { return s.setPaused(ctx, name, true) }

// Resume ends a pause; see millrace.QueueService.
func (s Queues) Resume(ctx context.Context, name string) error { return s.setPaused(ctx, name, false) }

func (s Queues) setPaused(ctx context.Context, name string, paused bool) error {
	if err := s.b.gate.enter(); err != nil {
		return err
	}
	defer s.b.gate.leave()
	return untilStill(func() error {
		if _, err := s.b.registry.reload(ctx); err != nil {
			return err
		}
		q, err := s.b.registry.queue(ctx, name)
		if err != nil {
			return err
		}
		if q.paused == paused {
			return s.tell(ctx, q)
		}
		_, err = s.write(ctx, q, queueRecord{QueueSpec: q.spec, Version: q.version, Paused: paused})
		return err
	})
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
	return listed(ctx, s.b, page, func(h *house) map[string]*queue { return h.queues }, s.describe)
}

// describe gathers what a queue holds in all lanes.
func (s Queues) describe(ctx context.Context, q *queue) (millrace.Queue, error) {
	out := millrace.Queue{Name: q.name, Version: q.version, State: q.state(), Spec: q.spec}
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
	held, err := s.heldBefore(ctx, q, ifEmpty)
	if err != nil {
		return err
	}
	if err := s.b.remove(ctx, q.definition); err != nil {
		return err
	}
	s.b.logDropped(ctx, q, "", "queue_deleted", held)
	return nil
}

// heldBefore is how many messages a queue holds that is to be deleted, if that
// is of interest, and CodeNotEmpty if there must be none.
func (s Queues) heldBefore(ctx context.Context, q *queue, ifEmpty bool) (int, error) {
	if !ifEmpty && !s.b.logging(ctx) {
		return 0, nil
	}
	d, err := s.describe(ctx, q)
	if err != nil {
		return 0, err
	}
	held := int(d.Ready + d.Leased + d.Delayed + d.Dead)
	if ifEmpty && held > 0 {
		return 0, millrace.Errorf(millrace.CodeNotEmpty, "the queue holds messages")
	}
	return held, nil
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
