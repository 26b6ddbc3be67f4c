package embedded

import (
	"slices"

	"github.com/millrace-dev/millrace"
)

const (
	headLen   = 64          // entries of a facet's window, read ahead from disk
	headMost  = 4 * headLen // the same where facets are few
	headsMost = 1 << 18     // entries of all windows of a store up to which facets are few
	tailLen   = 128         // newest entries of a facet that are kept in memory
)

// facet is one tenant's waiting messages in one queue. In memory are the
// oldest (head), the newest (tail: all that are not applied to the disk yet,
// and some more) and those that came back; between head and tail lie the
// others, only counted, on disk.
type facet struct {
	tenant string
	head   run
	gap    int64  // how many lie between head and tail, on disk only
	next   uint64 // the seq after which the gap begins
	tail   run
	back   heap[entry] // came back from a lease or a delay
	lines  *lines      // keys of an ordered queue
	inRing bool

	leased, delayed, dead int
	settings              *millrace.TenantSettings // nil: the queue's
	fatIn                 uint64                   // number of the last group that will trim the tail
}

// waiting is how many messages wait, leasable or behind a blocked key.
func (f *facet) waiting() int64 {
	if f.lines != nil {
		return f.plain() + f.lines.waiting
	}
	return f.plain()
}

// plain is how many messages wait that are in no line.
func (f *facet) plain() int64 {
	return int64(f.head.len()) + f.gap + int64(f.tail.len()) + int64(len(f.back))
}

// leasable reports whether some message may be given out.
func (f *facet) leasable() bool { return f.plain() > 0 || f.lines != nil && f.lines.free > 0 }

// idle reports whether the facet may be forgotten.
func (f *facet) idle() bool {
	return !f.inRing && f.leased+f.delayed+f.dead == 0 && f.settings == nil && f.waiting() == 0
}

// weight is how many messages a turn has.
func (f *facet) weight() int {
	if f.settings == nil {
		return 1
	}
	return f.settings.Weight
}

// full reports whether the tenant has as many messages leased as it may have.
func (f *facet) full(q *queue) bool {
	limit := q.settings.TenantLimit
	if f.settings != nil && f.settings.Limit >= 0 {
		limit = f.settings.Limit
	}
	return limit > 0 && f.leased >= limit
}

// eligible reports whether the tenant belongs into the ring.
func (f *facet) eligible(q *queue) bool { return f.leasable() && f.weight() > 0 && !f.full(q) }

// trim shortens the tail: what the disk has by now need not be in memory.
func (f *facet) trim(applied uint64) {
	for f.tail.len() > tailLen && f.tail.front().seq <= applied {
		e := f.tail.pop()
		if f.gap == 0 && f.head.len() < headLen {
			f.head.push(e)
			f.next = e.seq
		} else {
			f.gap++
		}
	}
	f.tail.shrink()
}

// window is how many entries of a facet are read ahead: more where facets are
// few, because a search costs as much as many entries.
func (l *lane) window(q *queue) int64 {
	facets := l.engine.identity.Lanes * len(l.queues) * len(q.facets)
	return int64(min(headMost, max(headLen, l.engine.windows/max(1, facets))))
}

// needsDisk reports whether the next message lies on disk.
func (f *facet) needsDisk() bool {
	return f.head.len() == 0 && f.gap > 0 && (len(f.back) == 0 || f.back[0].seq > f.next)
}

// source is where the next message comes from, nil if it is the backlog. The
// facet must have something waiting, and not on disk.
func (f *facet) source() *run {
	r := &f.head
	if r.len() == 0 && f.gap == 0 {
		r = &f.tail
	}
	if len(f.back) > 0 && (r.len() == 0 || f.back[0].seq < r.front().seq) {
		return nil
	}
	return r
}

// first is the waiting message with the lowest seq.
func (f *facet) first() entry {
	if r := f.source(); r != nil {
		return r.front()
	}
	return f.back[0]
}

// take removes the first message.
func (f *facet) take() entry {
	r := f.source()
	if r == nil {
		return f.back.pop()
	}
	e := r.pop()
	f.next = max(f.next, e.seq)
	return e
}

// run is a queue of entries in one slice.
type run struct {
	buf []entry
	at  int
}

func (r *run) len() int     { return len(r.buf) - r.at }
func (r *run) front() entry { return r.buf[r.at] }
func (r *run) all() []entry { return r.buf[r.at:] }

func (r *run) push(e entry) {
	if len(r.buf) == cap(r.buf) && r.at > len(r.buf)/2 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.at:])]
		r.at = 0
	}
	r.buf = append(r.buf, e)
}

func (r *run) pop() entry {
	e := r.buf[r.at]
	r.at++
	if r.at == len(r.buf) {
		r.buf, r.at = r.buf[:0], 0
	}
	return e
}

// shrink gives back the room that a burst has taken.
func (r *run) shrink() {
	if n := r.len(); cap(r.buf) > 4*tailLen && cap(r.buf) > 4*n {
		r.buf, r.at = slices.Clone(r.buf[r.at:]), 0
	}
}

// ring is the order in which the facets of a queue have their turns.
type ring struct {
	buf  []*facet // a circle whose length is a power of two
	at   int
	size int
}

func (r *ring) push(f *facet) {
	if r.size == len(r.buf) {
		r.grow()
	}
	r.buf[(r.at+r.size)&(len(r.buf)-1)] = f
	r.size++
}

func (r *ring) pop() {
	r.buf[r.at] = nil
	r.at = (r.at + 1) & (len(r.buf) - 1)
	r.size--
}

func (r *ring) front() *facet { return r.buf[r.at] }

func (r *ring) grow() {
	buf := make([]*facet, max(4, 2*len(r.buf)))
	for i := range r.size {
		buf[i] = r.buf[(r.at+i)&(len(r.buf)-1)]
	}
	r.buf, r.at = buf, 0
}

// all is the ring in order.
func (r *ring) all() []*facet {
	list := make([]*facet, r.size)
	for i := range list {
		list[i] = r.buf[(r.at+i)&(len(r.buf)-1)]
	}
	return list
}

// ages counts what is unsettled by the minute it was published in.
type ages struct {
	slots []age
}

type age struct{ minute, n int64 }

func (a *ages) add(minute int64) {
	if n := len(a.slots); n > 0 && a.slots[n-1].minute == minute {
		a.slots[n-1].n++
		return
	}
	i, found := a.find(minute)
	if !found {
		a.slots = slices.Insert(a.slots, i, age{minute: minute})
	}
	a.slots[i].n++
}

func (a *ages) remove(minute int64) {
	if i, found := a.find(minute); found {
		a.slots[i].n--
	}
	empty := 0
	for empty < len(a.slots) && a.slots[empty].n == 0 {
		empty++
	}
	if empty > 0 {
		a.slots = slices.Delete(a.slots, 0, empty)
	}
}

func (a *ages) find(minute int64) (int, bool) {
	return slices.BinarySearchFunc(a.slots, minute, func(s age, m int64) int { return int(s.minute - m) })
}

// oldest is the oldest minute that has anything.
func (a *ages) oldest() (minute int64, ok bool) {
	if len(a.slots) == 0 {
		return 0, false
	}
	return a.slots[0].minute, true
}
