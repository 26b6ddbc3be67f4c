package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	reloadRetry = time.Second // after a reload that failed
	maxRemoved  = 1000        // removals that a node remembers: as many as the store does
)

// registry is the node's copy of the definitions.
type registry struct {
	engine  millrace.Engine
	lanes   int
	log     *slog.Logger
	nudged  chan struct{}
	removed func(millrace.Apply) // unless nil, is told of removals that a reload brings

	reloading sync.Mutex // one reload at a time
	house     atomic.Pointer[house]
}

// house is one version of all definitions. It never changes.
type house struct {
	version uint64
	queues  map[string]*queue
	subs    map[string]*subscription
	subOf   map[string]*subscription // by uid
	topics  map[string]millrace.Definition
	removed []string      // uids of what was last deleted and lanes know of
	longest time.Duration // request timeout of any subscription
	router  *router

	triggers  map[string]*trigger
	triggerOf map[string]*trigger // by the digest of its secret
}

// queue is a queue's definition, ready for use.
type queue struct {
	definition millrace.Definition
	name, uid  string
	version    int // how often it was defined
	paused     bool
	spec       millrace.QueueSpec
	match      *millrace.Match
}

// queueRecord is the stored form of a queue's definition.
type queueRecord struct {
	millrace.QueueSpec
	Version int  `json:"version"`
	Paused  bool `json:"paused,omitempty"`
}

func newRegistry(e millrace.Engine, lanes int, log *slog.Logger) *registry {
	r := &registry{engine: e, lanes: lanes, log: log, nudged: make(chan struct{}, 1)}
	h := newHouse(0)
	h.router = newRouter(h)
	r.house.Store(h)
	return r
}

func newHouse(version uint64) *house {
	return &house{
		version: version, queues: map[string]*queue{}, topics: map[string]millrace.Definition{},
		subs: map[string]*subscription{}, subOf: map[string]*subscription{},
		triggers: map[string]*trigger{}, triggerOf: map[string]*trigger{},
	}
}

func (r *registry) now() *house { return r.house.Load() }

// nudge asks the agent to reload.
func (r *registry) nudge() {
	select {
	case r.nudged <- struct{}{}:
	default:
	}
}

// run reloads whenever it is nudged, and now and then in case a nudge was lost.
func (r *registry) run(ctx context.Context) {
	scan := time.NewTicker(slowScan)
	defer scan.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.nudged:
		case <-scan.C:
		}
		r.follow(ctx)
	}
}

// follow reloads, and tries again until it works or ctx ends.
func (r *registry) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := r.reload(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			r.log.Warn("reload definitions", "error", err, "again_in", reloadRetry)
			pause(ctx, reloadRetry)
		}
	}
}

// reload fetches what changed and returns the house as it is then.
func (r *registry) reload(ctx context.Context) (*house, error) {
	h, gone, err := r.fetch(ctx)
	if err == nil && len(gone) > 0 && r.removed != nil {
		r.removed(millrace.Apply{Version: h.version, Removed: gone})
	}
	return h, err
}

// fetch fetches what changed; gone are the uids of sinks that were removed.
func (r *registry) fetch(ctx context.Context) (h *house, gone []string, err error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	old := r.now()
	changes, err := r.engine.Definitions(ctx, old.version)
	if err != nil {
		return nil, nil, err
	}
	if changes.Version == old.version && !changes.Full {
		return old, nil, nil
	}
	if h, err = old.with(changes); err != nil {
		return nil, nil, err
	}
	r.house.Store(h)
	for _, d := range changes.Definitions {
		if d.Deleted && d.Kind != millrace.KindTopic {
			gone = append(gone, d.UID)
		}
	}
	return h, gone, nil
}

// with is the house after some changes.
func (h *house) with(c millrace.Changes) (*house, error) {
	next := newHouse(c.Version)
	if !c.Full {
		maps.Copy(next.queues, h.queues)
		maps.Copy(next.subs, h.subs)
		maps.Copy(next.topics, h.topics)
		maps.Copy(next.triggers, h.triggers)
		next.removed = slices.Clone(h.removed)
	}
	for _, d := range c.Definitions {
		if err := next.take(d); err != nil {
			return nil, err
		}
	}
	next.removed = next.removed[max(0, len(next.removed)-maxRemoved):]
	for _, s := range next.subs {
		next.subOf[s.uid] = s
		next.longest = max(next.longest, s.spec.RequestTimeout)
	}
	for _, t := range next.triggers {
		next.triggerOf[t.Digest] = t
	}
	next.router = newRouter(next)
	return next, nil
}

func (h *house) take(d millrace.Definition) error {
	switch {
	case d.Kind == millrace.KindQueue && d.Deleted:
		delete(h.queues, d.Name)
		h.removed = append(h.removed, d.UID)
	case d.Kind == millrace.KindQueue:
		q, err := newQueue(d)
		if err != nil {
			return err
		}
		h.queues[d.Name] = q
	case d.Kind == millrace.KindSubscription && d.Deleted:
		delete(h.subs, d.Name)
		h.removed = append(h.removed, d.UID)
	case d.Kind == millrace.KindSubscription:
		s, err := newSubscription(d)
		if err != nil {
			return err
		}
		h.subs[d.Name] = s
	case d.Kind == millrace.KindTrigger && d.Deleted:
		delete(h.triggers, d.Name)
		h.removed = append(h.removed, d.UID)
	case d.Kind == millrace.KindTrigger:
		t, err := newTrigger(d)
		if err != nil {
			return err
		}
		h.triggers[d.Name] = t
	case d.Kind == millrace.KindTopic && d.Deleted:
		delete(h.topics, d.Name)
	case d.Kind == millrace.KindTopic:
		h.topics[d.Name] = d
	}
	return nil
}

func newQueue(d millrace.Definition) (*queue, error) {
	record := queueRecord{QueueSpec: millrace.DefaultQueueSpec(""), Version: 1}
	if err := json.Unmarshal(d.Spec, &record); err != nil {
		return nil, fmt.Errorf("read the definition of queue %s: %w", d.Name, err)
	}
	q := &queue{definition: d, name: d.Name, uid: d.UID, version: record.Version, paused: record.Paused, spec: record.QueueSpec}
	var err error
	if q.match, err = millrace.CompileMatch(q.spec.Match); err != nil {
		return nil, fmt.Errorf("read the definition of queue %s: %w", d.Name, err)
	}
	return q, nil
}

// settings is what the lanes must know of the queue.
func (q *queue) settings() millrace.QueueSettings {
	return millrace.QueueSettings{
		UID: q.uid, Version: q.definition.Version,
		MaxAttempts: q.spec.MaxAttempts, Block: q.spec.OnExhausted == millrace.ExhaustedBlock, BlockDelay: q.spec.BackoffMax,
		Ordered: q.spec.Ordered, Paused: q.paused, TenantLimit: q.spec.TenantLimit,
		MaxLength: q.spec.MaxLength, DropOldest: q.spec.Overflow == millrace.OverflowDropOldest,
		DeadRetention: q.spec.DeadRetention,
		Tracked:       q.spec.Tracked, Retention: kept(q.spec.Retention), ErrorRetention: kept(q.spec.ErrorRetention),
	}
}

// kept is how long operations are kept: 0 stands for as long as can be.
func kept(d time.Duration) time.Duration {
	if d == 0 {
		return millrace.MaxRetention
	}
	return d
}

func (q *queue) state() string {
	if q.paused {
		return millrace.StatePaused
	}
	return millrace.StateActive
}

// queue finds a queue by name; one that this node has not heard of yet is
// looked for in the store before it is declared unknown.
func (r *registry) queue(ctx context.Context, name string) (*queue, error) {
	if q, ok := r.now().queues[name]; ok {
		return q, nil
	}
	if fault := millrace.NameFault(name); fault != "" {
		return nil, millrace.Invalid([]millrace.Fault{{Location: "queue", Message: fault}})
	}
	h, err := r.reload(ctx)
	if err != nil {
		return nil, err
	}
	if q, ok := h.queues[name]; ok {
		return q, nil
	}
	return nil, millrace.Errorf(millrace.CodeNotFound, "there is no such queue")
}

// catchUp makes a commit possible that a lane has refused as stale, with the
// version that the lane knows: either this node is behind and reloads, or the
// registry lost its tail and is raised past the lane, or the lane has not been
// told of all queues yet and is told now.
func (r *registry) catchUp(ctx context.Context, lane int, laneVersion uint64) error {
	h := r.now()
	if laneVersion <= h.version {
		return r.applyAll(ctx, lane, h)
	}
	h, err := r.reload(ctx)
	if err != nil || laneVersion <= h.version {
		return err
	}
	r.log.WarnContext(ctx, "a lane is ahead of the registry, which has lost its last changes", "lane", lane, "lane_version", laneVersion, "registry_version", h.version)
	if _, err := r.engine.RaiseVersion(ctx, laneVersion); err != nil {
		return err
	}
	_, err = r.reload(ctx)
	return err
}

// applyAll tells a lane of every queue and subscription, and of those that were removed.
func (r *registry) applyAll(ctx context.Context, lane int, h *house) error {
	a := millrace.Apply{Version: h.version, Removed: h.removed}
	for _, name := range slices.Sorted(maps.Keys(h.queues)) {
		a.Queues = append(a.Queues, h.queues[name].settings())
	}
	for _, name := range slices.Sorted(maps.Keys(h.subs)) {
		a.Subscriptions = append(a.Subscriptions, h.subs[name].settings(r.lanes))
	}
	gone, err := r.engine.Apply(ctx, lane, a)
	if err != nil || len(gone) == 0 {
		return err
	}
	return r.revive(ctx, h, gone)
}

// definitions are those of every sink.
func (h *house) definitions() (all []millrace.Definition) {
	for _, q := range h.queues {
		all = append(all, q.definition)
	}
	for _, s := range h.subs {
		all = append(all, s.definition)
	}
	return all
}

// revive gives new data to sinks that the registry knows although a lane has
// seen them removed: the registry has lost their removal.
func (r *registry) revive(ctx context.Context, h *house, gone []string) error {
	for _, d := range h.definitions() {
		if !slices.Contains(gone, d.UID) {
			continue
		}
		r.log.WarnContext(ctx, "the registry has lost the removal of a sink, which begins anew and empty", "kind", d.Kind, "name", d.Name)
		d.UID = newUID()
		if _, err := r.engine.Define(ctx, d, d.Version); err != nil && millrace.CodeOf(err) != millrace.CodeChanged {
			return err
		}
	}
	h, err := r.reload(ctx)
	if err != nil {
		return err
	}
	return r.repair(ctx, h)
}

// repair tells every lane everything, in case a node died while it did so.
func (r *registry) repair(ctx context.Context, h *house) error {
	for lane := range r.lanes {
		if err := r.applyAll(ctx, lane, h); err != nil {
			return err
		}
	}
	return nil
}

// applyEverywhere tells every lane of a change and returns when all have it.
func (r *registry) applyEverywhere(ctx context.Context, a millrace.Apply) error {
	for lane := range r.lanes {
		if _, err := r.engine.Apply(ctx, lane, a); err != nil {
			return err
		}
	}
	return nil
}
