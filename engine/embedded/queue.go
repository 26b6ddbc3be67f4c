package embedded

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
)

// queue is the index of one queue in one lane.
type queue struct {
	uid      uid
	settings millrace.QueueSettings
	removed  bool // the lane does not know it any more

	ring   ring
	ahead  int // messages that are read ahead in lines
	credit int // what is left of the turn of the ring's first, if it has begun
	facets map[string]*facet
	peak   int             // the most facets since they were last none
	out    map[uint64]held // by seq: what is leased or delayed, and what a refill must skip
	wanted bool            // a lease found nothing
	ages   ages

	tenants   int64                        // that have something waiting
	consumers map[string]map[uint64]*lease // leases of consumers that have a name, by number
	deadDue   due                          // the dead letter whose retention ends first

	ready, leased, delayed, dead int64
	acked, spent, dropped        int64
	dirty                        bool // the counters above have changed since they were written

	cancelled int64 // of what waits or is delayed: those whose operation was cancelled
	counts    counts
}

// state is where a message is that does not wait in its facet's order.
type state byte

const (
	stateLeased   state = iota + 1
	stateDelayed        // its delay is not over
	stateReturned       // it waits in its facet's backlog
	stateGone           // it is settled, but the disk does not know yet
)

// held is a message out of its facet's order.
type held struct {
	facet *facet
	lease *lease // while leased
	due   *due   // while delayed
	place *place // in an ordered queue, of a message with a key
	mark  uint32 // of a settled one, the group that erases it
	size  uint32
	state state
	wish  bool // its operation is to be cancelled
	told  bool // its operation's state is not empty, though it is the first attempt
}

func (h held) entry(seq uint64) entry { return entry{seq: seq, size: h.size, mark: h.mark} }

func newQueue(u uid) *queue {
	q := &queue{uid: u, facets: map[string]*facet{}, out: map[uint64]held{}}
	q.deadDue = due{kind: dueDead, queue: q, pos: -1}
	return q
}

// queue is the queue of a uid, nil if the lane does not know it.
func (l *lane) queue(name string) *queue {
	u, ok := parseUID(name)
	if !ok {
		return nil
	}
	return l.queues[u]
}

func (q *queue) facet(tenant string) *facet {
	f := q.facets[tenant]
	if f == nil {
		f = &facet{tenant: tenant}
		q.facets[tenant] = f
		q.peak = max(q.peak, len(q.facets))
	}
	return f
}

// forget drops a facet that has nothing left.
func (q *queue) forget(f *facet) {
	if !f.idle() {
		return
	}
	delete(q.facets, f.tenant)
	if len(q.facets) == 0 && q.peak > roomy {
		q.relax()
	}
}

// relax gives back the room that many tenants took: a map keeps it for ever.
func (q *queue) relax() {
	out := make(map[uint64]held, len(q.out))
	for seq, h := range q.out {
		out[seq] = h
	}
	q.facets, q.out, q.ring, q.peak = map[string]*facet{}, out, ring{}, 0
}

// roomy is from how many tenants on a queue's memory is worth giving back.
const roomy = 1 << 12

// arrive counts a message that waits from now on; call it before it is added.
func (q *queue) arrive(f *facet) {
	if f.waiting() == 0 {
		q.tenants++
	}
	q.ready++
}

// depart counts a message that waits no more; call it after it was taken.
func (q *queue) depart(f *facet) {
	if f.waiting() == 0 {
		q.tenants--
	}
	q.ready--
}

// enterRing puts a facet that has something to lease into the ring, once, and
// wakes who waits for the queue.
func (l *lane) enterRing(g *group, q *queue, f *facet) {
	if f.inRing || !f.eligible(q) {
		return
	}
	f.inRing = true
	q.ring.push(f)
	l.wakeQueue(g, q)
}

// wakeQueue tells who waits for the queue that there is something.
func (l *lane) wakeQueue(g *group, q *queue) {
	if q.wanted {
		q.wanted = false
		g.hint(millrace.Hint{Kind: millrace.HintQueue, Lane: l.no, Queue: q.uid.String()})
	}
}

// change notes that a queue's counters are to be written.
func (l *lane) change(q *queue) {
	if !q.dirty {
		q.dirty = true
		l.dirtyQueues = append(l.dirtyQueues, q)
	}
}

// onQueue runs one transition of a queue.
func (e *Engine) onQueue(ctx context.Context, lane int, name string, at time.Time, f func(l *lane, q *queue, g *group, now int64) error) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.transition(ctx, at, func(g *group, now int64) error {
		q := l.queue(name)
		if q == nil {
			return millrace.Errorf(millrace.CodeNotFound, "the lane does not know this queue")
		}
		return f(l, q, g, now)
	})
}

// Wanted returns the uids of the queues that somebody waits for.
func (e *Engine) Wanted(ctx context.Context, lane int) ([]string, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	var uids []string
	err = l.do(ctx, func(*group) error {
		for _, q := range l.queues {
			if q.wanted {
				uids = append(uids, q.uid.String())
			}
		}
		return nil
	})
	return uids, err
}

// Stats counts a queue's messages in a lane.
func (e *Engine) Stats(ctx context.Context, lane int, queue string) (millrace.QueueStats, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.QueueStats{}, err
	}
	defer e.leave()
	var s millrace.QueueStats
	err = l.do(ctx, func(*group) error {
		if q := l.queue(queue); q != nil {
			s = q.stats()
		}
		return nil
	})
	return s, err
}

func (q *queue) stats() millrace.QueueStats {
	s := millrace.QueueStats{
		QueueCounts: millrace.QueueCounts{Ready: q.ready, Leased: q.leased, Delayed: q.delayed, Dead: q.dead},
		Tenants:     q.tenants, Dropped: q.dropped, Acked: q.acked, Spent: q.spent, Cancelled: q.cancelled,
	}
	if minute, ok := q.ages.oldest(); ok {
		s.Oldest = milli(minute * 60000)
	}
	return s
}
