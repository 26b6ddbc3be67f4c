package enginetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// modelRegistry is the registry: what every name means, and the deleted ones.
type modelRegistry struct {
	version     uint64
	raised      uint64
	definitions []millrace.Definition
}

// Define writes a definition.
func (m *Model) Define(ctx context.Context, d millrace.Definition, replaces uint64) (millrace.Definition, error) {
	done, err := m.DefineAll(ctx, []millrace.Redefinition{{Definition: d, Replaces: replaces}})
	if err != nil {
		return millrace.Definition{}, err
	}
	return done[0], nil
}

// DefineAll writes definitions, or none.
func (m *Model) DefineAll(_ context.Context, list []millrace.Redefinition) ([]millrace.Definition, error) {
	if _, err := m.enter(0); err != nil {
		return nil, err
	}
	defer m.leave()
	for _, d := range list {
		if old := m.registry.current(d.Definition); old.Version != d.Replaces {
			return nil, millrace.Errorf(millrace.CodeChanged, "it has version %d", old.Version)
		}
	}
	var done []millrace.Definition
	for _, r := range list {
		d := r.Definition
		m.registry.version++
		d.Version = m.registry.version
		m.registry.definitions = append(slices.DeleteFunc(m.registry.definitions, sameName(d)), d)
		done = append(done, d)
	}
	m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintRegistry})
	return done, nil
}

// sameName finds the definition that a name has now.
func sameName(d millrace.Definition) func(millrace.Definition) bool {
	return func(o millrace.Definition) bool { return o.Kind == d.Kind && o.Name == d.Name && !o.Deleted }
}

// current is what the name of a definition means now.
func (r *modelRegistry) current(d millrace.Definition) millrace.Definition {
	if i := slices.IndexFunc(r.definitions, sameName(d)); i >= 0 {
		return r.definitions[i]
	}
	return millrace.Definition{}
}

// Definitions returns what changed.
func (m *Model) Definitions(_ context.Context, since uint64) (millrace.Changes, error) {
	if _, err := m.enter(0); err != nil {
		return millrace.Changes{}, err
	}
	defer m.leave()
	c := millrace.Changes{Version: m.registry.version}
	c.Full = since == 0 || since > m.registry.version || since < m.registry.raised
	for _, d := range m.registry.definitions {
		if c.Full || d.Version > since {
			c.Definitions = append(c.Definitions, d)
		}
	}
	return c, nil
}

// RaiseVersion lifts the registry.
func (m *Model) RaiseVersion(_ context.Context, v uint64) (uint64, error) {
	if _, err := m.enter(0); err != nil {
		return 0, err
	}
	defer m.leave()
	if m.registry.version <= v {
		m.registry.version = v + 1
		m.registry.raised = v + 1
	}
	m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintRegistry})
	return m.registry.version, nil
}

// Apply tells a lane of a version.
func (m *Model) Apply(_ context.Context, lane int, a millrace.Apply) (gone []string, err error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	l.stats.Version = max(l.stats.Version, a.Version)
	for _, uid := range a.Removed {
		l.removed[uid] = true
		delete(l.fired, uid)
		if q := l.queues[uid]; q != nil {
			l.trash = append(l.trash, q.messages...)
			l.retired[uid] = q.settings
			delete(l.queues, uid)
		}
		if s := l.subs[uid]; s != nil {
			l.subTrash += s.events()
			delete(l.subs, uid)
			l.subRing = slices.DeleteFunc(l.subRing, func(o string) bool { return o == uid })
		}
	}
	for _, s := range a.Queues {
		switch q := l.queues[s.UID]; {
		case l.removed[s.UID]:
			gone = append(gone, s.UID)
		case q == nil:
			l.queues[s.UID] = &modelQueue{
				settings: s, tenants: map[string]millrace.TenantSettings{}, counts: map[countedAt]*millrace.OperationCount{},
			}
		case s.Version >= q.settings.Version:
			m.change(l, q, s)
		}
	}
	return append(gone, m.applySubs(l, a.Subscriptions)...), nil
}

// change gives a queue other settings: who may be served then enters the ring.
func (m *Model) change(l *modelLane, q *modelQueue, s millrace.QueueSettings) {
	s.Ordered, s.Tracked = q.settings.Ordered, q.settings.Tracked
	q.settings = s
	for _, tenant := range q.names() {
		m.wait(l, q, tenant)
	}
	m.wake(l, q)
}

// Sweep frees what removed queues left.
func (m *Model) Sweep(_ context.Context, lane, limit int) (int, error) {
	l, err := m.enter(lane)
	if err != nil {
		return 0, err
	}
	defer m.leave()
	before := l.due()
	n := min(limit, len(l.trash))
	for _, msg := range l.trash[:n] {
		m.cancel(l, msg)
	}
	m.hintDue(l, before)
	l.trash = l.trash[n:]
	of := min(limit-n, l.subTrash)
	l.subTrash -= of
	l.stats.Dropped += int64(n + of)
	return n + of, nil
}

// LaneStats returns a lane's counters.
func (m *Model) LaneStats(_ context.Context, lane int) (millrace.LaneStats, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.LaneStats{}, err
	}
	defer m.leave()
	s := l.stats
	s.Held = int64(len(l.held))
	s.ClockOffset = time.Duration(l.offset) * time.Millisecond
	return s, nil
}

// Topics returns the topics of a lane, by name.
func (m *Model) Topics(_ context.Context, lane int) ([]millrace.TopicStats, error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var topics []millrace.TopicStats
	for _, topic := range l.topics {
		topics = append(topics, topic)
	}
	return byName(topics), nil
}

func byName(topics []millrace.TopicStats) []millrace.TopicStats {
	slices.SortFunc(topics, func(a, b millrace.TopicStats) int { return cmp.Compare(a.Name, b.Name) })
	return topics
}

// ForgetTopic drops a topic's record.
func (m *Model) ForgetTopic(_ context.Context, lane int, topic string) error {
	l, err := m.enter(lane)
	if err != nil {
		return err
	}
	defer m.leave()
	delete(l.topics, topic)
	return nil
}

// Beat records a node.
func (m *Model) Beat(_ context.Context, n millrace.Node, ttl time.Duration) ([]millrace.Node, error) {
	if _, err := m.enter(0); err != nil {
		return nil, err
	}
	defer m.leave()
	now := m.clock().UTC().Truncate(time.Millisecond)
	if n.ID != "" {
		n.SeenAt = now
		m.nodes[n.ID] = n
	}
	var left []millrace.Node
	for id, other := range m.nodes {
		if now.Sub(other.SeenAt) >= ttl && id != n.ID {
			delete(m.nodes, id)
			continue
		}
		left = append(left, other)
	}
	slices.SortFunc(left, func(a, b millrace.Node) int { return cmp.Compare(a.ID, b.ID) })
	return left, nil
}

// Leave forgets a node.
func (m *Model) Leave(_ context.Context, id string) error {
	if _, err := m.enter(0); err != nil {
		return err
	}
	defer m.leave()
	delete(m.nodes, id)
	return nil
}

// Identity says what the store is.
func (m *Model) Identity() millrace.Identity { return m.identity }

// Durability is in memory.
func (m *Model) Durability() millrace.Durability { return millrace.InMemory }

// Watch hands hints to f.
func (m *Model) Watch(f func(millrace.Hint)) (stop func()) {
	m.mu.Lock()
	m.watcher = f
	m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintAll})
	m.leave()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watcher = nil
	}
}

// Bytes counts the bodies.
func (m *Model) Bytes(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(1)
	for _, l := range m.lanes {
		for _, q := range l.queues {
			for _, msg := range q.messages {
				n += int64(len(msg.body))
			}
		}
		for _, s := range l.subs {
			for _, b := range s.batches {
				n += int64(b.bytes())
			}
		}
	}
	return n, nil
}

// Ping answers while the model is open.
func (m *Model) Ping(context.Context) error {
	_, err := m.enter(0)
	if err == nil {
		m.leave()
	}
	return err
}

// Check finds nothing: what the model holds is right by definition.
func (m *Model) Check(context.Context) error { return nil }

// Close refuses everything until Reopen.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.live = true, nil
	return nil
}

// Reopen makes a closed model answer again, as a store that is found.
func (m *Model) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.identity.Created = false, false
}
