package embedded

import (
	"slices"

	"github.com/millrace-dev/millrace"
)

// batchState is where a batch stands.
type batchState byte

const (
	batchEarly batchState = iota + 1
	batchReady
	batchPending
	batchDead
	batchGone
)

func (s batchState) word() millrace.BatchState {
	return [...]millrace.BatchState{batchEarly: millrace.BatchEarly, batchReady: millrace.BatchReady,
		batchPending: millrace.BatchPending, batchDead: millrace.BatchDead, batchGone: ""}[s]
}

// batch is the header of a batch. Its due entry lies in the lane's due index
// while it is early, pending or dead, if it ends some time, and among the
// subscription's ready ones while it is ready. A backlog has many: keep it small.
type batch struct {
	due due
	batchHeader
	sending *sending // pending
	fresh   *fresh   // its newest members, if memory holds them
	onDisk  int32    // chunks of members that it does not hold
	state   batchState
	dirty   bool // it has changed since it was written
	kept    bool // it counts among those whose members are kept
}

// batchHeader is what is stored of a batch in any state, beside its members.
type batchHeader struct {
	created      int64
	format       string
	count, bytes int32
	chunks       int32 // records of members
	attempts     int32
	failed       bool // the error of its last failure is stored
}

// sending is who sends a pending batch.
type sending struct {
	token millrace.Token
	node  string
}

func newBatch(s *subscription, name uint64, h batchHeader) *batch {
	return &batch{due: due{sub: s, seq: name, pos: -1}, batchHeader: h}
}

func (b *batch) name() uint64       { return b.due.seq }
func (b *batch) sub() *subscription { return b.due.sub }

// touch notes that a batch is to be written with the group.
func (l *lane) touch(g *group, b *batch) {
	g.writes++
	if !b.dirty {
		b.dirty = true
		l.dirtyBatches = append(l.dirtyBatches, b)
	}
}

// takeOut takes a batch out of its state: whoever does it puts it into the next.
func (l *lane) takeOut(b *batch) {
	s := b.sub()
	switch b.state {
	case batchReady:
		s.ready.remove(&b.due)
	case batchPending:
		s.pending--
		b.sending = nil
	case batchDead:
		s.deadBatches--
		s.dead -= int64(b.count)
		s.queued += int64(b.count)
		s.living = min(s.living, b.name()-1)
	}
	if b.state != batchReady {
		l.agenda.remove(&b.due)
	}
	if s.current == b {
		s.current = nil
		l.kept.add(b)
	}
	if s.blocking == b {
		s.blocking = nil
	}
	b.due.at = 0
}

// put puts a batch that was taken out into a state, due at a time or never.
func (l *lane) put(b *batch, state batchState, at int64) {
	s := b.sub()
	b.state, b.due.at = state, at
	switch state {
	case batchEarly:
		b.due.kind = dueBatch
	case batchReady:
		b.due.kind = dueBatch
		s.ready.push(&b.due)
	case batchPending:
		b.due.kind = dueSending
		s.pending++
	case batchDead:
		b.due.kind = dueDeadBatch
		s.deadBatches++
		s.dead += int64(b.count)
		s.queued -= int64(b.count)
	case batchGone:
		s.queued -= int64(b.count)
		s.gone++
	}
	if at != 0 {
		l.agenda.push(&b.due)
	}
}

// makeReady makes a batch ready, wherever it waited.
func (l *lane) makeReady(g *group, b *batch) {
	l.takeOut(b)
	l.put(b, batchReady, 0)
	l.touch(g, b)
	l.admit(g, b.sub())
}

// removeBatch lets a batch go, and with it its share in the bodies.
func (l *lane) removeBatch(g *group, b *batch) {
	members, err := l.members(b.manifest())
	if err == nil && len(members) != int(b.count) {
		err = errIndex("a batch has other members on disk than counted")
	}
	var holders []uint32
	if err == nil {
		holders, err = l.holdersOf(members)
	}
	if err != nil {
		l.engine.fail(err)
		return
	}
	for i, e := range members {
		l.freed = l.unhold(g, e.seq, holders[i], l.freed)
	}
	l.dropFreed()
	l.setError(g, b, "")
	l.takeOut(b)
	l.put(b, batchGone, 0)
	l.kept.forget(b)
	l.touch(g, b)
	b.sub().compact()
}

// dropBatch removes a batch and counts its events as dropped.
func (l *lane) dropBatch(g *group, b *batch) {
	s := b.sub()
	l.removeBatch(g, b)
	s.dropped += int64(b.count)
	l.meta.dropped += int64(b.count)
	l.dirty = true
	l.changeSub(s)
	l.admit(g, s)
}

// setError stores why the last attempt of a batch failed.
func (l *lane) setError(g *group, b *batch, why string) {
	if why == "" && !b.failed {
		return
	}
	b.failed = why != ""
	g.key = queueSeqKey(g.key[:0], kindBatchError, l.no, b.sub().uid, b.name())
	if !b.failed {
		g.del()
		return
	}
	g.val = append(g.val[:0], why...)
	g.set()
}

// lastErrors is why the last attempt of each of some batches of a subscription
// failed.
func (l *lane) lastErrors(s *subscription, list []*batch) ([]string, error) {
	errors := make([]string, len(list))
	if !slices.ContainsFunc(list, func(b *batch) bool { return b.failed }) {
		return errors, nil
	}
	it, err := l.overlay.prefixed(queueKey(nil, kindBatchError, l.no, s.uid))
	if err != nil {
		return nil, err
	}
	for i, b := range list {
		if b.failed && it.SeekGE(queueSeqKey(nil, kindBatchError, l.no, s.uid, b.name())) && lastNumber(it.Key()) == b.name() {
			errors[i] = string(it.Value())
		}
	}
	return errors, it.Close()
}
