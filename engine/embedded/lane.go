package embedded

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// journal orders the transitions of one part of the store, a lane or the
// registry. A transition runs under the lock: it changes the index and appends
// its writes to the open group. The committer takes the group, and when it is
// durable all who wait for it are released. So log order is index order.
type journal struct {
	engine  *Engine
	seal    func(*group) // adds, under the lock, what is written once a group
	after   func(*group) // is called, under the lock, when the group is applied
	overlay *overlay     // of a lane; guarded by the lock

	mu      sync.Mutex
	open    *group   // takes writes
	flying  []*group // taken and not yet durable, in order
	made    uint64   // number of the open group
	applied uint64   // number of the last applied group
}

// group is the writes that become durable together.
type group struct {
	no       uint64
	db       *pebble.DB
	parts    [6]*pebble.Batch // those of operations are nil until they are needed
	touched  []uint64         // operations of which it writes a record
	overlay  *overlay         // of a lane
	writes   int
	key, val []byte // for building a record; the batch copies it
	hints    []millrace.Hint
	live     []millrace.LiveEvent // stamped in it, while somebody watches
	fat      []*facet             // whose tails can be trimmed once this is applied
	gone     []goneFrom           // settled messages that the disk still has
	lastSeq  uint64               // the highest seq stamped in it
	done     chan struct{}
}

type goneFrom struct {
	queue *queue
	seq   uint64
}

// The batches that may be read until the group is durable: that of the records
// that transitions read, and those of operations, which few of them do.
const (
	partReadBack = iota + 3
	partOperations
	partStates
	plainParts = partReadBack + 1 // that every group has
)

// part is the batch for a key. Bodies, messages and the rest are gathered
// apart, because neighbours go into Pebble's table several times faster than
// keys from all over; of one key the order is kept.
func (g *group) part(key []byte) *pebble.Batch {
	g.writes++
	switch key[0] {
	case kindBody:
		return g.parts[0]
	case kindMessage:
		return g.parts[1]
	case kindOperation:
		return g.seldom(partOperations)
	case kindState:
		return g.seldom(partStates)
	}
	if readBack(key[0]) || key[0] == kindChain || key[0] == kindEnding || key[0] == kindOpened {
		return g.parts[partReadBack]
	}
	return g.parts[2]
}

// seldom is a batch that not every group has.
func (g *group) seldom(part int) *pebble.Batch {
	if g.parts[part] == nil {
		g.parts[part] = g.db.NewBatch()
	}
	return g.parts[part]
}

func (g *group) set() {
	accepted(g.part(g.key).Set(g.key, g.val, nil))
	if readBack(g.key[0]) {
		accepted(g.overlay.writer().Set(g.key, g.val, nil))
	}
}

// show makes the record that was just set readable before it is applied, of a
// kind that is not by itself.
func (g *group) show() { accepted(g.overlay.writer().Set(g.key, g.val, nil)) }

// hide does the same for the record that was just deleted.
func (g *group) hide() { accepted(g.overlay.writer().Delete(g.key, nil)) }

func (g *group) del() {
	accepted(g.part(g.key).Delete(g.key, nil))
	if readBack(g.key[0]) {
		accepted(g.overlay.writer().Delete(g.key, nil))
	}
}

func (g *group) delRange(from, to []byte) { accepted(g.part(from).DeleteRange(from, to, nil)) }

// accepted panics if a batch refused a record, which only one past 4 GB does.
func accepted(err error) {
	if err != nil {
		panic("embedded: a batch refused a record: " + err.Error())
	}
}

func (g *group) empty() bool { return g.writes == 0 }

func (g *group) hint(h millrace.Hint) { g.hints = append(g.hints, h) }

// group is the open group.
func (j *journal) group() *group {
	if j.open == nil {
		j.made++
		j.open = &group{no: j.made, db: j.engine.db, overlay: j.overlay, done: make(chan struct{})}
		for i := range plainParts {
			j.open.parts[i] = j.engine.db.NewBatch()
		}
	}
	return j.open
}

// do runs one transition and returns when it, and all that it was computed
// from, is durable. A transition that returns an error must not have written.
func (j *journal) do(ctx context.Context, f func(*group) error) error {
	j.mu.Lock()
	if err := j.engine.refusal(ctx); err != nil {
		j.mu.Unlock()
		return err
	}
	g := j.group()
	writes, hints := g.writes, len(g.hints)
	err := f(g)
	wrote := g.writes != writes
	var own []millrace.Hint // of a transition that wrote nothing: the committer may never come by
	if !wrote && len(g.hints) > hints {
		own = slices.Clone(g.hints[hints:])
		g.hints = g.hints[:hints]
	}
	wait := j.pending()
	j.mu.Unlock()
	if wrote {
		j.engine.wakeCommitter()
	}
	if e := j.engine.await(ctx, wait, wrote); e != nil {
		return e
	}
	j.engine.sendHints(own)
	return err
}

// pending is the last group that has writes and is not durable, or nil.
func (j *journal) pending() *group {
	if j.open != nil && !j.open.empty() {
		return j.open
	}
	if n := len(j.flying); n > 0 {
		return j.flying[n-1]
	}
	return nil
}

// await waits for a group to be durable.
func (e *Engine) await(ctx context.Context, g *group, wrote bool) error {
	if g == nil {
		return nil
	}
	select {
	case <-g.done:
		return nil
	case <-e.broken:
	case <-ctx.Done():
	}
	select {
	case <-g.done:
		return nil
	default:
	}
	code, detail := millrace.CodeUnavailable, "the store did not answer"
	if wrote {
		code, detail = millrace.CodeOutcomeUnknown, "the store did not answer; it may have happened"
	}
	if err := ctx.Err(); err != nil {
		return millrace.Wrap(code, err, detail)
	}
	return millrace.Wrap(code, e.failure(), detail)
}

// take closes the open group for the committer, nil if there is nothing to write.
func (j *journal) take(last bool) *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil && last {
		j.group()
	}
	if j.open == nil || j.open.empty() && !last {
		return nil
	}
	g := j.open
	j.seal(g)
	if g.empty() {
		return nil
	}
	j.open, j.flying = nil, append(j.flying, g)
	return g
}

// release tells everyone that a group is durable.
func (j *journal) release(g *group) {
	j.mu.Lock()
	j.flying = slices.Delete(j.flying, 0, 1) // they are released in order
	j.applied = g.no
	j.after(g)
	for _, b := range g.parts[partReadBack:] {
		if b != nil {
			_ = b.Close()
		}
	}
	j.mu.Unlock()
	close(g.done)
}

// lane is the index of one lane; its journal's lock guards it.
type lane struct {
	journal
	no          int
	meta        meta
	dirty       bool // meta has changed since it was written
	queues      map[uid]*queue
	subs        map[uid]*subscription
	subRing     []*subscription // those that can be served, in the order of their turns
	subWanted   bool            // a take found no more
	removed     map[uid]bool    // for ever; true while its data waits for the sweep
	topics      map[string]*topic
	agenda      agenda
	held        map[uint64]*heldEvent
	heldDigests map[millrace.Digest]*heldEvent // those whose ids are remembered
	freed       []uint64                       // bodies that the transition has freed
	dropped     []millrace.Exit                // messages that the transition has dropped

	digests recent[millrace.Digest, remembered[stamp]]
	lasts   recent[string, remembered[uint64]]
	holders recent[uint64, uint32]
	filters filters

	watched map[uint64]bool       // operations whose next change is to be told
	endings map[uid]*ending       // when operations of a queue expire
	began   map[uid][]uint64      // operations that began in the open group
	ended   map[minuteIn][]uint64 // and those that ended, by when they expire
	retired map[uid]time.Duration // of removed queues that were tracked: how long their operations stay

	dirtyQueues  []*queue
	dirtyTopics  []*topic
	dirtySubs    []*subscription
	dirtyBatches []*batch
	appliedSeq   uint64

	cache bodies
	kept  kept
	sweep sweeper
}

func newLane(e *Engine, no int) *lane {
	l := &lane{no: no, queues: map[uid]*queue{}, removed: map[uid]bool{}, topics: map[string]*topic{}}
	l.subs = map[uid]*subscription{}
	l.began, l.ended = map[uid][]uint64{}, map[minuteIn][]uint64{}
	l.watched, l.endings, l.retired = map[uint64]bool{}, map[uid]*ending{}, map[uid]time.Duration{}
	l.held, l.heldDigests = map[uint64]*heldEvent{}, map[millrace.Digest]*heldEvent{}
	l.journal = journal{engine: e, seal: l.sealGroup, after: l.afterGroup, overlay: &overlay{db: e.db}}
	lanes := max(1, e.identity.Lanes)
	l.cache.limit, l.kept.limit = bodyCacheSize/int64(lanes), keptLen/lanes
	l.digests.limit, l.lasts.limit, l.holders.limit = recentLen/lanes, recentLen/lanes, recentLen/lanes
	return l
}

// transition runs one transition of the lane at a moment, and hints when it
// has made the first due entry earlier.
func (l *lane) transition(ctx context.Context, at time.Time, f func(g *group, now int64) error) error {
	return l.hinted(ctx, func(g *group) error {
		t, offset := l.meta.t, l.meta.offset
		err := f(g, l.now(at))
		if err != nil {
			l.meta.t, l.meta.offset = t, offset // a refusal changes nothing
		}
		return err
	})
}

// hinted runs one transition of the lane, and hints when it has made the first due entry earlier.
func (l *lane) hinted(ctx context.Context, f func(*group) error) error {
	return l.do(ctx, func(g *group) error {
		before := l.agenda.first()
		if before != nil {
			old := *before // it may be moved by the transition
			before = &old
		}
		if err := f(g); err != nil {
			return err
		}
		if d := l.agenda.first(); d != nil && (before == nil || d.at < before.at) {
			g.hint(millrace.Hint{Kind: millrace.HintDue, Lane: l.no, In: l.agenda.until(l.meta.t)})
		}
		return nil
	})
}

// seen is what the lane's clock shows at a moment to whoever only reads.
func (l *lane) seen(at time.Time) int64 {
	ms := at.UnixMilli()
	if at.IsZero() {
		if ms = l.engine.clock().UnixMilli(); ms < l.meta.t {
			ms += l.meta.offset
		}
	}
	return max(l.meta.t, ms)
}

// now is the lane's clock: the given moment or the machine's, but never before
// the last one. A machine's clock that went back more than a second gets an
// offset that carries on from there, until it has caught up.
func (l *lane) now(given time.Time) int64 {
	ms := given.UnixMilli()
	if given.IsZero() {
		ms = l.machineNow()
	}
	if ms > l.meta.t {
		l.meta.t, l.dirty = ms, true
	}
	return l.meta.t
}

func (l *lane) machineNow() int64 {
	machine := l.engine.clock().UnixMilli()
	if machine >= l.meta.t {
		l.meta.offset = 0
		return machine
	}
	if machine+l.meta.offset < l.meta.t-1000 {
		l.meta.offset = l.meta.t - machine
		l.engine.log.Warn("the machine's clock went back; the lane's carries on", "lane", l.no, "offset", time.Duration(l.meta.offset)*time.Millisecond)
	}
	return machine + l.meta.offset
}

// sealGroup writes the lane's own record and what has changed of the counters.
func (l *lane) sealGroup(g *group) {
	if g.empty() && !l.dirty {
		return
	}
	for _, q := range l.dirtyQueues {
		q.dirty = false
		if !q.removed {
			g.key = queueKey(g.key[:0], kindCounters, l.no, q.uid)
			g.val = appendNumbers(g.val[:0], q.acked, q.spent, q.dropped)
			g.set()
			l.sealCounts(g, q)
		}
	}
	for _, t := range l.dirtyTopics {
		t.dirty = false
		if !t.forgotten {
			g.key = topicKey(g.key[:0], l.no, t.name)
			g.val = appendNumbers(g.val[:0], t.events, t.last)
			g.set()
		}
	}
	l.sealBatches(g)
	l.sealOperations(g)
	l.dirtyQueues, l.dirtyTopics, l.dirty = l.dirtyQueues[:0], l.dirtyTopics[:0], false
	g.key = laneKey(g.key[:0], kindMeta, l.no)
	g.val = l.meta.append(g.val[:0])
	g.set()
}

func (l *lane) afterGroup(g *group) {
	l.appliedSeq = max(l.appliedSeq, g.lastSeq)
	for _, f := range g.fat {
		f.trim(l.appliedSeq)
	}
	for _, x := range g.gone {
		if h, ok := x.queue.out[x.seq]; ok && h.state == stateGone && h.mark == uint32(g.no) {
			delete(x.queue.out, x.seq)
		}
	}
	l.kept.trim(l.applied)
	l.overlay.shrink(l.unapplied())
}

// unapplied is all that transitions may read back and that the disk may not have.
func (l *lane) unapplied() []*pebble.Batch {
	var list []*pebble.Batch
	for _, g := range l.flying {
		list = append(list, g.parts[partReadBack])
	}
	if l.open != nil {
		list = append(list, l.open.parts[partReadBack])
	}
	return list
}
