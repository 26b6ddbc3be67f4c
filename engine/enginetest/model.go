package enginetest

import (
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
	live     *func(millrace.LiveEvent)
	hints    []millrace.Hint
	served   func(*modelQueue, *modelMessage) // watches what is served, if it is set
	gave     func(*modelLane, string)         // watches whose batches are given, if it is set
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
	held        []*modelHeld
	subs        map[string]*modelSub
	subRing     []string // uids, in the order of their turns
	subWanted   bool
	subTrash    int                               // events of batches that removed subscriptions left
	exits       []millrace.Exit                   // what the commit under way has dropped
	operations  []*modelOperation                 // by number
	retired     map[string]millrace.QueueSettings // of removed queues
	fired       map[string]*modelFired            // by the trigger's uid
	joined      int                               // how often a message has joined a lease group
	places      int                               // how often a message has taken a place in the line of its key
}

// modelQueue is one queue in one lane: its unsettled and dead messages by name,
// and the tenants that wait, in the order of their turns.
type modelQueue struct {
	settings millrace.QueueSettings
	tenants  map[string]millrace.TenantSettings
	messages []*modelMessage
	ring     []string
	credit   int // what a full lease left of the turn of the ring's head; 0 if it has not begun
	wanted   bool
	acked    int64
	spent    int64
	dropped  int64
	total    millrace.Tally
	counts   map[countedAt]*millrace.OperationCount
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
	name      uint64
	seq, prev uint64
	recorded  int64
	tenant    string
	key       string
	body      []byte
	place     int // in the line of its key
	state     modelState
	attempts  int
	due       int64 // of a leased or delayed one, or of a dead one that will be forgotten

	token    millrace.Token // of a leased one
	consumer string
	joined   int // when it joined its group
	group    int // when its group was made

	reason, err string // of a dead one
	died        int64

	operation *modelOperation // the latest; nil in a queue that is not tracked
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
			topics: map[string]millrace.TopicStats{}, queues: map[string]*modelQueue{}, removed: map[string]bool{}, subs: map[string]*modelSub{},
			retired: map[string]millrace.QueueSettings{}, fired: map[string]*modelFired{},
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

// at is a moment of a lane's clock.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
