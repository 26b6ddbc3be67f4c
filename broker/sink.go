package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// What queues and subscriptions have in common: they are defined by name, told to every
// lane, listed and removed in the same way.

// untilStill tries something that reads a definition and writes over it, again while
// somebody else changes it in between.
func untilStill(try func() error) error {
	for range maxReroutes {
		if err := try(); millrace.CodeOf(err) != millrace.CodeChanged {
			return err
		}
	}
	return millrace.Errorf(millrace.CodeUnavailable, "the definition keeps changing; try again")
}

// write replaces the definition that d is, by its version, with one that has another record.
func (r *registry) write(ctx context.Context, d millrace.Definition, record any) (millrace.Definition, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return d, fmt.Errorf("write the definition of %s %s: %w", d.Kind, d.Name, err)
	}
	replaces := d.Version
	d.Spec = text
	return r.engine.Define(ctx, d, replaces)
}

// tell tells every lane of a definition, and this node.
func (r *registry) tell(ctx context.Context, a millrace.Apply) error {
	if err := r.applyEverywhere(ctx, a); err != nil {
		return err
	}
	_, err := r.reload(ctx)
	return err
}

// inLane does something with a sink in a lane. A lane that does not know the sink,
// although the registry does, is told of it and asked again.
func (r *registry) inLane(ctx context.Context, d *millrace.Definition, lane int, do func() error) error {
	err := do()
	if millrace.CodeOf(err) != millrace.CodeNotFound {
		return err
	}
	h, reloadErr := r.reload(ctx)
	if reloadErr != nil {
		return reloadErr
	}
	if !h.defines(d) {
		return err
	}
	if err := r.applyAll(ctx, lane, h); err != nil {
		return err
	}
	return do()
}

// defines reports whether a name still means the sink that it meant.
func (h *house) defines(d *millrace.Definition) bool {
	if d.Kind == millrace.KindSubscription {
		s, ok := h.subs[d.Name]
		return ok && s.uid == d.UID
	}
	q, ok := h.queues[d.Name]
	return ok && q.uid == d.UID
}

// listed describes a page of what the registry has, by name.
func listed[D, S any](ctx context.Context, b *Broker, page millrace.Page, all func(*house) map[string]D, describe func(context.Context, D) (S, error)) ([]S, string, error) {
	if err := b.gate.enter(); err != nil {
		return nil, "", err
	}
	defer b.gate.leave()
	h, err := b.registry.reload(ctx)
	if err != nil {
		return nil, "", err
	}
	names, next, err := pageOf(slices.Sorted(maps.Keys(all(h))), page)
	if err != nil {
		return nil, "", err
	}
	list := make([]S, 0, len(names))
	for _, name := range names {
		one, err := describe(ctx, all(h)[name])
		if err != nil {
			return nil, "", err
		}
		list = append(list, one)
	}
	return list, next, nil
}

// removeTime is how long the lanes may take to hear of a removal, once it is written.
const removeTime = 30 * time.Second

// remove deletes a sink's definition and tells every lane; what it held is swept. Once the
// definition is gone nobody can ask for its end again: so what is left to do is done even if ctx ends.
func (b *Broker) remove(ctx context.Context, d millrace.Definition) error {
	was := d.Version
	d.Deleted = true
	d, err := b.engine.Define(ctx, d, was)
	if err != nil {
		if millrace.CodeOf(err) == millrace.CodeChanged {
			return millrace.Errorf(millrace.CodeUnavailable, "the definition has just changed; try again")
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	if err := b.registry.applyEverywhere(ctx, millrace.Apply{Version: d.Version, Removed: []string{d.UID}}); err != nil {
		return err
	}
	b.sweeper.nudge()
	_, err = b.registry.reload(ctx)
	return err
}
