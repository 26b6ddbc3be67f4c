package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// Model is the whole contract in memory, as naively as possible: slices and
// maps, every question answered by looking at everything. It is a
// millrace.Engine, and what it answers is right by being obvious.
type Model struct {
	mu       sync.Mutex
	identity millrace.Identity
	clock    func() time.Time
	window   time.Duration
	closed   bool
	lanes    []*modelLane
	registry modelRegistry
	nodes    map[string]millrace.Node
	watcher  func(millrace.Hint)
	hints    []millrace.Hint
}

// modelLane is one lane: a clock, a counter, and what it holds.
type modelLane struct {
	lane, lanes uint64
	n           uint64
	t           int64 // the clock: milliseconds since 1970
	offset      int64
	stats       millrace.LaneStats
	digests     map[millrace.Digest]modelStamp
	last        map[[2]string]uint64
	topics      map[string]millrace.TopicStats
	queues      map[string]*modelQueue
	removed     map[string]bool
	trash       []*modelMessage
	joined      int // how often a message has joined a lease group
}

// modelQueue is one queue in one lane: its unsettled and dead messages by seq,
// and the tenants that wait, in the order of their turns.
type modelQueue struct {
	settings millrace.QueueSettings
	messages []*modelMessage
	ring     []string
	wanted   bool
	acked    int64
	spent    int64
}

// modelStamp is what is remembered of an id.
type modelStamp struct {
	millrace.Stamp
	at int64
}

// remembers tells whether an id is still known: for two windows.
func (m *Model) remembers(l *modelLane, s modelStamp) bool {
	return l.t < s.at+2*max(m.window, time.Minute).Milliseconds()
}

type modelState byte

const (
	waiting modelState = iota
	leased
	delayed
	dead
)

type modelMessage struct {
	seq, prev uint64
	recorded  int64
	tenant    string
	body      []byte
	state     modelState
	attempts  int
	token     millrace.Token
	due       int64 // of a leased or delayed one
	joined    int   // of a leased one: when it joined its group
}

var _ millrace.Engine = (*Model)(nil)

// NewModel returns an empty store with a number of lanes.
func NewModel(lanes int, clock func() time.Time) *Model {
	m := &Model{clock: clock, nodes: map[string]millrace.Node{}}
	m.identity = millrace.Identity{
		Engine: "model", StoreID: "model", Format: millrace.Format, Lanes: lanes,
		Namespace: millrace.DefaultNamespace, Created: true,
	}
	for i := range lanes {
		m.lanes = append(m.lanes, &modelLane{
			lane: uint64(i), lanes: uint64(lanes),
			digests: map[millrace.Digest]modelStamp{}, last: map[[2]string]uint64{},
			topics: map[string]millrace.TopicStats{}, queues: map[string]*modelQueue{}, removed: map[string]bool{},
		})
	}
	return m
}

// enter locks the model for one transition in a lane; leave unlocks it and
// hands out the hints that the transition made true.
func (m *Model) enter(lane int) (*modelLane, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, millrace.Errorf(millrace.CodeUnavailable, "the store is closed")
	}
	if lane < 0 || lane >= len(m.lanes) {
		m.mu.Unlock()
		return nil, millrace.Errorf(millrace.CodeLaneMissing, "no lane %d", lane)
	}
	return m.lanes[lane], nil
}

func (m *Model) leave() {
	hints, watcher := m.hints, m.watcher
	m.hints = nil
	m.mu.Unlock()
	for _, h := range hints {
		if watcher != nil {
			watcher(h)
		}
	}
}

// tick moves a lane's clock to now, or by its machine's clock if now is zero.
func (m *Model) tick(l *modelLane, now time.Time) {
	if now.IsZero() {
		machine := m.clock().UnixMilli()
		if machine+l.offset < l.t-1000 {
			l.offset = l.t - machine
		}
		l.t = max(l.t, machine+l.offset)
		return
	}
	l.t = max(l.t, now.UnixMilli())
}

// Publish commits events to a lane.
func (m *Model) Publish(_ context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Committed{}, err
	}
	defer m.leave()
	if l.stale(c) {
		return millrace.Committed{}, &millrace.Error{Code: millrace.CodeStale, CurrentVersion: l.stats.Version}
	}
	m.tick(l, c.Now)
	l.stats.Version = max(l.stats.Version, c.Version)
	done := millrace.Committed{RecordedAt: at(l.t)}
	for _, e := range c.Events {
		done.Stamps = append(done.Stamps, m.stamp(l, e))
	}
	done.Due = l.due()
	return done, nil
}

func (l *modelLane) stale(c millrace.Commit) bool {
	if c.Version < l.stats.Version {
		return true
	}
	for _, e := range c.Events {
		for _, uid := range e.Queues {
			if l.queues[uid] == nil {
				return true
			}
		}
	}
	return false
}

func (m *Model) stamp(l *modelLane, e millrace.CommitEvent) millrace.Stamp {
	if first, known := l.digests[e.Digest]; known && e.Remembered && m.remembers(l, first) {
		l.stats.Duplicates++
		first.Duplicate = true
		return first.Stamp
	}
	l.n = max(l.n+1, uint64(l.t-millrace.SeqEpoch)*millrace.SeqPerMilli)
	s := millrace.Stamp{Seq: l.n*l.lanes + l.lane, Sinks: len(e.Queues)}
	if e.Key != "" {
		s.Prev = l.last[[2]string{e.Tenant, e.Key}]
		l.last[[2]string{e.Tenant, e.Key}] = s.Seq
	}
	if e.Remembered {
		l.digests[e.Digest] = modelStamp{s, l.t}
	}
	l.count(e)
	for _, uid := range e.Queues {
		q := l.queues[uid]
		q.messages = append(q.messages, &modelMessage{
			seq: s.Seq, prev: s.Prev, recorded: l.t, tenant: e.Tenant, body: slices.Clone(e.Body),
		})
		m.wait(l, q, e.Tenant)
	}
	return s
}

func (l *modelLane) count(e millrace.CommitEvent) {
	l.stats.Published++
	if len(e.Queues) == 0 {
		l.stats.Unrouted++
	}
	topic := l.topics[e.Topic]
	l.topics[e.Topic] = millrace.TopicStats{Name: e.Topic, Events: topic.Events + 1, LastEventAt: at(l.t)}
}

// wait puts a tenant that has something waiting at the tail of the ring, unless it is there.
func (m *Model) wait(l *modelLane, q *modelQueue, tenant string) {
	if slices.Contains(q.ring, tenant) {
		return
	}
	q.ring = append(q.ring, tenant)
	if q.wanted {
		q.wanted = false
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintQueue, Lane: int(l.lane), Queue: q.settings.UID})
	}
}

// due is the time until the next lease ends or the next retry is due.
func (l *modelLane) due() time.Duration {
	next := int64(-1)
	for _, q := range l.queues {
		for _, msg := range q.messages {
			if (msg.state == leased || msg.state == delayed) && (next < 0 || msg.due < next) {
				next = msg.due
			}
		}
	}
	if next < 0 {
		return -1
	}
	return time.Duration(max(0, next-l.t)) * time.Millisecond
}

// Step returns what is due, in its order.
func (m *Model) Step(_ context.Context, lane int, now time.Time, limit int) (millrace.Stepped, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Stepped{}, err
	}
	defer m.leave()
	m.tick(l, now)
	var done millrace.Stepped
	entries := l.dueEntries()
	for _, e := range entries[:min(limit, len(entries))] {
		m.stepOne(l, e, &done)
	}
	done.More = len(entries) > limit
	done.Due = l.due()
	return done, nil
}

type dueEntry struct {
	*modelMessage
	queue *modelQueue
}

func (l *modelLane) dueEntries() []dueEntry {
	var entries []dueEntry
	for _, q := range l.queues {
		for _, msg := range q.messages {
			if (msg.state == leased || msg.state == delayed) && msg.due <= l.t {
				entries = append(entries, dueEntry{msg, q})
			}
		}
	}
	slices.SortFunc(entries, dueEntry.compare)
	return entries
}

// compare orders by time; at one time retries before leases, each by uid;
// retries by seq, leases by token and by when they joined their group.
func (e dueEntry) compare(o dueEntry) int {
	order := cmp.Or(
		cmp.Compare(e.due, o.due), cmp.Compare(o.state, e.state),
		cmp.Compare(e.queue.settings.UID, o.queue.settings.UID))
	if order != 0 || e.state == delayed {
		return cmp.Or(order, cmp.Compare(e.seq, o.seq))
	}
	return cmp.Or(bytes.Compare(e.token[:], o.token[:]), cmp.Compare(e.joined, o.joined))
}

func (m *Model) stepOne(l *modelLane, e dueEntry, done *millrace.Stepped) {
	if e.state == delayed {
		done.Returned++
	} else {
		done.Expired++
	}
	if e.state == leased && e.queue.exhausted(e.modelMessage) {
		done.Dead++
		e.queue.bury(e.modelMessage)
		return
	}
	e.state = waiting
	m.wait(l, e.queue, e.tenant)
}

// at is a moment of a lane's clock.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
