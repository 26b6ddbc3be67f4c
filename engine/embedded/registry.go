package embedded

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// maxDeleted is how many deleted definitions the registry remembers; whoever
// asks for changes from before the last forgotten one gets all there is.
const maxDeleted = 1000

// registry is the definitions, all in memory; its journal's lock guards it.
type registry struct {
	journal
	version uint64
	floor   uint64 // changes from before this version are not all known
	byName  map[string]millrace.Definition
	deleted []millrace.Definition // by version
}

func newRegistry(e *Engine) *registry {
	r := &registry{byName: map[string]millrace.Definition{}}
	r.journal = journal{engine: e, seal: func(*group) {}, after: func(*group) {}}
	return r
}

// Define writes a definition as the next version of the registry, if the
// name's current one still is the one that it replaces.
func (e *Engine) Define(ctx context.Context, d millrace.Definition, replaces uint64) (millrace.Definition, error) {
	done, err := e.DefineAll(ctx, []millrace.Redefinition{{Definition: d, Replaces: replaces}})
	if err != nil {
		return millrace.Definition{}, err
	}
	return done[0], nil
}

// DefineAll writes several definitions in one step, or none.
func (e *Engine) DefineAll(ctx context.Context, list []millrace.Redefinition) ([]millrace.Definition, error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	r := e.registry
	var done []millrace.Definition
	err := r.do(ctx, func(g *group) error {
		for i := range list {
			if old := r.byName[definitionName(&list[i].Definition)]; old.Version != list[i].Replaces {
				return &millrace.Error{Code: millrace.CodeChanged, CurrentVersion: old.Version}
			}
		}
		for i := range list {
			d := list[i].Definition
			d.Version = r.version + 1
			d.Spec = slices.Clone(d.Spec)
			if err := r.write(g, d); err != nil {
				return err
			}
			done = append(done, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func definitionName(d *millrace.Definition) string { return string(d.Kind) + "\x00" + d.Name }

func (r *registry) write(g *group, d millrace.Definition) error {
	value, err := json.Marshal(&d)
	if err != nil {
		return fmt.Errorf("encode definition: %w", err)
	}
	g.key = definitionKey(g.key[:0], d.Kind, d.Name)
	if d.Deleted {
		g.del()
		g.key = deletedKey(g.key[:0], d.Version)
	}
	g.val = append(g.val[:0], value...)
	g.set()
	r.keep(d)
	r.version = d.Version
	for len(r.deleted) > maxDeleted {
		r.forgetDeleted(g)
	}
	r.writeVersion(g)
	g.hint(millrace.Hint{Kind: millrace.HintRegistry})
	return nil
}

// keep puts a definition into the index.
func (r *registry) keep(d millrace.Definition) {
	if d.Deleted {
		delete(r.byName, definitionName(&d))
		r.deleted = append(r.deleted, d)
	} else {
		r.byName[definitionName(&d)] = d
	}
}

// forgetDeleted drops the deleted definition with the lowest version.
func (r *registry) forgetDeleted(g *group) {
	r.floor = max(r.floor, r.deleted[0].Version)
	g.key = deletedKey(g.key[:0], r.deleted[0].Version)
	g.del()
	r.deleted = slices.Delete(r.deleted, 0, 1)
}

func (r *registry) writeVersion(g *group) {
	g.key = append(g.key[:0], kindVersion)
	g.val = appendNumbers(g.val[:0], int64(r.version), int64(r.floor))
	g.set()
}

// Definitions returns what changed after a version; since 0 asks for all.
func (e *Engine) Definitions(ctx context.Context, since uint64) (millrace.Changes, error) {
	if err := e.enterStore(ctx); err != nil {
		return millrace.Changes{}, err
	}
	defer e.leave()
	r := e.registry
	var c millrace.Changes
	err := r.do(ctx, func(*group) error {
		c = millrace.Changes{Version: r.version, Full: since == 0 || since < r.floor || since > r.version}
		for _, d := range r.all() {
			if c.Full || d.Version > since {
				c.Definitions = append(c.Definitions, d)
			}
		}
		return nil
	})
	return c, err
}

// all is the definitions by version, deleted ones included.
func (r *registry) all() []millrace.Definition {
	list := slices.AppendSeq(slices.Clone(r.deleted), maps.Values(r.byName))
	slices.SortFunc(list, func(a, b millrace.Definition) int { return cmp.Compare(a.Version, b.Version) })
	return list
}

// RaiseVersion moves the registry's version past v, if it is not.
func (e *Engine) RaiseVersion(ctx context.Context, v uint64) (uint64, error) {
	if err := e.enterStore(ctx); err != nil {
		return 0, err
	}
	defer e.leave()
	r := e.registry
	var version uint64
	err := r.do(ctx, func(g *group) error {
		if r.version <= v {
			// Whoever knows one of the lost versions must not take it for one of these.
			r.version, r.floor = v+1, v+1
			r.writeVersion(g)
		}
		g.hint(millrace.Hint{Kind: millrace.HintRegistry})
		version = r.version
		return nil
	})
	return version, err
}

// Apply tells one lane of a version of the registry, and returns which of the
// queues and subscriptions were removed from it before.
func (e *Engine) Apply(ctx context.Context, lane int, a millrace.Apply) (gone []string, err error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	for _, uid := range definedBy(&a) {
		if _, ok := parseUID(uid); !ok {
			return nil, errUID()
		}
	}
	err = l.do(ctx, func(g *group) error {
		gone = l.apply(g, &a)
		return nil
	})
	return gone, err
}

// definedBy is the uids of what is to be created or changed.
func definedBy(a *millrace.Apply) (uids []string) {
	for i := range a.Subscriptions {
		uids = append(uids, a.Subscriptions[i].UID)
	}
	for i := range a.Queues {
		uids = append(uids, a.Queues[i].UID)
	}
	return uids
}

func (l *lane) apply(g *group, a *millrace.Apply) (gone []string) {
	for _, name := range a.Removed {
		if u, ok := parseUID(name); ok {
			l.remove(g, u)
		}
	}
	for _, name := range definedBy(a) {
		u, _ := parseUID(name)
		if _, removed := l.removed[u]; removed {
			gone = append(gone, name)
		}
	}
	for _, s := range a.Subscriptions {
		u, _ := parseUID(s.UID)
		if _, removed := l.removed[u]; !removed {
			l.defineSub(g, u, s)
		}
	}
	for _, s := range a.Queues {
		u, _ := parseUID(s.UID)
		if _, removed := l.removed[u]; !removed {
			l.define(g, u, s)
		}
	}
	if a.Version > l.meta.version {
		l.meta.version = a.Version
		l.writeMeta(g)
	}
	return gone
}

// define stores a queue's settings unless the lane has later ones.
func (l *lane) define(g *group, u uid, s millrace.QueueSettings) {
	q := l.queues[u]
	if q == nil {
		q = newQueue(u)
		l.queues[u] = q
	} else {
		s.Ordered, s.Tracked = q.settings.Ordered, q.settings.Tracked
	}
	s.Retention, s.ErrorRetention = whole(s.Retention), whole(s.ErrorRetention)
	if !s.Tracked {
		s.Retention, s.ErrorRetention = 0, 0
	}
	s.UID, s.BlockDelay, s.DeadRetention = "", whole(s.BlockDelay), whole(s.DeadRetention)
	before := q.settings
	if before.Version > s.Version || before == s {
		return
	}
	q.settings = s
	g.key = queueKey(g.key[:0], kindSettings, l.no, u)
	g.val = appendSettings(g.val[:0], &s)
	g.set()
	if before.TenantLimit != s.TenantLimit {
		l.enterAll(g, q)
	}
	if before.Paused && !s.Paused && q.ring.size > 0 {
		l.wakeQueue(g, q)
	}
}

// enterAll puts those into the ring that a changed setting lets in.
func (l *lane) enterAll(g *group, q *queue) {
	var list []*facet
	for _, f := range q.facets {
		if !f.inRing && f.eligible(q) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *facet) int { return cmp.Compare(a.tenant, b.tenant) })
	for _, f := range list {
		l.enterRing(g, q, f)
	}
}

// remove makes a queue or a subscription unknown to the lane for ever; what it
// holds waits for the sweep.
func (l *lane) remove(g *group, u uid) {
	q, s := l.queues[u], l.subs[u]
	if _, before := l.removed[u]; before {
		return
	}
	if q != nil && q.settings.Tracked {
		l.retire(g, q)
	}
	l.noteRemoved(g, u, q != nil || s != nil)
	g.key = queueKey(g.key[:0], kindFired, l.no, u)
	g.del()
	if s != nil {
		l.removeSub(g, s)
	}
	if q == nil {
		return
	}
	q.removed = true
	l.agenda.drop(func(d *due) bool { return d.queue == q })
	delete(l.queues, u)
	g.key = queueKey(g.key[:0], kindSettings, l.no, u)
	g.del()
	g.key = queueKey(g.key[:0], kindCounters, l.no, u)
	g.del()
}

// unswept is the record of a removed sink whose data is still there.
const unswept = "unswept"

func (l *lane) noteRemoved(g *group, u uid, waits bool) {
	l.removed[u] = waits
	g.key = queueKey(g.key[:0], kindRemoved, l.no, u)
	g.val = g.val[:0]
	if waits {
		g.val = append(g.val, unswept...)
	}
	if keep, tracked := l.retired[u]; tracked && waits {
		g.val = binary.AppendVarint(g.val, wholeMilli(keep))
	}
	g.set()
}

// load reads the registry from disk.
func (r *registry) load(db *pebble.DB) error {
	var version, floor int64
	err := scan(db, []byte{kindVersion}, func(_, value []byte) error {
		return decodeNumbers(value, "the registry's version", &version, &floor)
	})
	r.version, r.floor = uint64(version), uint64(floor)
	for _, kind := range []byte{kindDeleted, kindDefinition} {
		if err != nil {
			return err
		}
		err = scan(db, []byte{kind}, func(_, value []byte) error {
			var d millrace.Definition
			if err := json.Unmarshal(value, &d); err != nil {
				return fmt.Errorf("decode definition: %w", err)
			}
			r.keep(d)
			return nil
		})
	}
	return err
}
