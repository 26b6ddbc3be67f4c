package broker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slowScan is how often everything is looked at that hints should have told of.
const slowScan = 30 * time.Second

// waitingRoom is where leases wait for messages. It knows, for each queue, the
// lanes that were found empty and not hinted at since: those need no look.
type waitingRoom struct {
	lanes int

	mu     sync.Mutex
	closed bool
	hints  uint64                   // how many there were, of any kind
	queues map[string]*waitingQueue // by uid
}

// waitingQueue is what the room knows of one queue.
type waitingQueue struct {
	lanes   []laneState
	waiters []*waiter // first come, first woken
	polls   int       // leases that did not wait
}

// laneState is what is known of one queue in one lane.
type laneState struct {
	hints   uint64  // the room's count at the last one: an answer older than that proves nothing
	empty   bool    // nothing was there, and the engine will hint
	tenants int     // that wait there, when last heard of
	served  float64 // turns given so far, over the tenants waiting: the smallest is next
}

// waiter is one lease that waits. Its channel holds at most one wake-up.
type waiter struct {
	woken  chan struct{}
	queues []string // uids it waits for
}

func newWaitingRoom(lanes int) *waitingRoom {
	return &waitingRoom{lanes: lanes, queues: map[string]*waitingQueue{}}
}

// queue returns the room's state of a queue; the lock is held.
func (r *waitingRoom) queue(uid string) *waitingQueue {
	q, ok := r.queues[uid]
	if !ok {
		q = &waitingQueue{lanes: make([]laneState, r.lanes)}
		r.queues[uid] = q
		for lane := range q.lanes {
			r.mark(q, lane)
		}
	}
	return q
}

// enter adds a waiter for some queues. It must enter before it looks, so that
// no hint falls between.
func (r *waitingRoom) enter(uids ...string) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &waiter{woken: make(chan struct{}, 1), queues: uids}
	for _, uid := range uids {
		q := r.queue(uid)
		q.waiters = append(q.waiters, w)
	}
	if r.closed {
		w.wake()
	}
	return w
}

// leave removes a waiter; a wake-up that it did not use, or a sign that there is
// more, goes to the next of each queue.
func (r *waitingRoom) leave(w *waiter, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.woken:
		more = true
	default:
	}
	for _, uid := range w.queues {
		q := r.queue(uid)
		q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
		if more {
			q.wakeOne()
		}
	}
}

// pass wakes the next waiter, because there is more than the caller took.
func (r *waitingRoom) pass(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q, ok := r.queues[uid]; ok {
		q.wakeOne()
	}
}

func (w *waiter) wake() bool {
	select {
	case w.woken <- struct{}{}:
		return true
	default:
		return false
	}
}

// wakeOne wakes the first waiter that is not awake already.
func (q *waitingQueue) wakeOne() {
	for _, w := range q.waiters {
		if w.wake() {
			return
		}
	}
}

// hint says that a queue may have messages in a lane.
func (r *waitingRoom) hint(uid string, lane int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue(uid)
	r.mark(q, lane)
	q.wakeOne()
}

// mark notes that a queue may have messages in a lane. A lane that was empty
// neither catches up on the turns it did not need nor waits for others to reach it.
func (r *waitingRoom) mark(q *waitingQueue, lane int) {
	r.hints++
	s := &q.lanes[lane]
	s.hints = r.hints
	if s.empty {
		s.served = q.leastTurns(lane)
	}
	s.empty = false
}

// hintAll says that any queue may have messages anywhere.
func (r *waitingRoom) hintAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queues {
		for lane := range q.lanes {
			r.mark(q, lane)
		}
		q.wakeOne()
	}
}

// run makes up for hints that were lost, and forgets queues that nobody waits for.
// wanted asks a lane of which queues a hint will tell.
func (r *waitingRoom) run(ctx context.Context, wanted func(ctx context.Context, lane int) ([]string, error)) {
	tick := time.NewTicker(slowScan)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.forgetIdle()
			for lane := 0; lane < r.lanes && r.occupied(); lane++ {
				uids, err := wanted(ctx, lane)
				if err != nil {
					uids = nil // who looks finds out what is wrong
				}
				r.makeUp(lane, uids)
			}
		}
	}
}

// occupied reports whether anybody waits.
func (r *waitingRoom) occupied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queues) > 0
}

// makeUp hints at every queue in a lane of which no hint will tell, for that one
// was sent and is lost, or on its way. One too many does no harm.
func (r *waitingRoom) makeUp(lane int, wanted []string) {
	will := make(map[string]bool, len(wanted))
	for _, uid := range wanted {
		will[uid] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, q := range r.queues {
		if q.lanes[lane].empty && will[uid] {
			continue
		}
		r.mark(q, lane)
		q.wakeOne()
	}
}

func (r *waitingRoom) forgetIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, q := range r.queues {
		if len(q.waiters) == 0 {
			delete(r.queues, uid)
		}
	}
}

// close wakes everybody for good.
func (r *waitingRoom) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, q := range r.queues {
		for _, w := range q.waiters {
			w.wake()
		}
	}
}

// visit is a plan to lease up to max messages of one lane.
type visit struct {
	lane, max int
	hints     uint64
	booked    int // turns charged for it
}

// plan shares max messages out over the lanes that may have some, in proportion
// to the tenants waiting in each; what does not divide goes to the lanes that
// have had the fewest turns. No lane: there is nothing to look at.
func (r *waitingRoom) plan(uid string, max int) []visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue(uid)
	var visits []visit
	total := 0
	for lane := range q.lanes {
		if s := &q.lanes[lane]; !s.empty {
			visits = append(visits, visit{lane: lane, hints: s.hints})
			total += s.weight()
		}
	}
	left := max
	for i := range visits {
		visits[i].max = max * q.lanes[visits[i].lane].weight() / total
		left -= visits[i].max
	}
	for ; left > 0 && len(visits) > 0; left-- {
		v := &visits[q.leastServed(visits)]
		v.max++
	}
	return q.charge(visits)
}

// emptyLanes are visits to the lanes that plan would leave out, from a
// different one each time.
func (r *waitingRoom) emptyLanes(uid string, max int) []visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue(uid)
	q.polls++
	var visits []visit
	for i := range q.lanes {
		lane := (q.polls + i) % r.lanes
		if s := &q.lanes[lane]; s.empty {
			visits = append(visits, visit{lane: lane, max: max, hints: s.hints})
		}
	}
	return visits
}

func (s *laneState) weight() int { return max(s.tenants, 1) }

// leastServed is the visit whose lane would have had the fewest turns for its tenants.
func (q *waitingQueue) leastServed(visits []visit) int {
	best, least := 0, 0.0
	for i, v := range visits {
		s := &q.lanes[v.lane]
		if turns := s.served + float64(v.max)/float64(s.weight()); i == 0 || turns < least {
			best, least = i, turns
		}
	}
	return best
}

// charge books the planned turns and leaves out the visits that got none.
func (q *waitingQueue) charge(visits []visit) []visit {
	kept := visits[:0]
	for _, v := range visits {
		if v.max > 0 {
			q.lanes[v.lane].served += float64(v.max) / float64(q.lanes[v.lane].weight())
			v.booked = v.max
			kept = append(kept, v)
		}
	}
	return kept
}

// learn takes in what a visit found.
func (r *waitingRoom) learn(uid string, v visit, got, tenants int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queue(uid)
	s := &q.lanes[v.lane]
	s.served -= float64(v.booked-got) / float64(s.weight()) // turns booked but not taken
	s.tenants = tenants
	if tenants == 0 && s.hints == v.hints {
		s.empty = true
	}
}

// leastTurns is the fewest turns that any other lane with messages has had.
func (q *waitingQueue) leastTurns(but int) float64 {
	least, found := 0.0, false
	for lane := range q.lanes {
		if s := &q.lanes[lane]; lane != but && !s.empty && (!found || s.served < least) {
			least, found = s.served, true
		}
	}
	return least
}
