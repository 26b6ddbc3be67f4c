package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// maxViolations is how many violations of a lane are named; the others are counted.
const maxViolations = 50

// Check verifies the invariants of index and disk, and that the index is what
// an opening would rebuild from the disk.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.enterStore(ctx); err != nil {
		return err
	}
	defer e.leave()
	var all []error
	for _, l := range e.lanes {
		err := l.do(ctx, func(g *group) error { l.sealGroup(g); return nil })
		if err != nil {
			return err
		}
		all = append(all, l.check(ctx))
	}
	return errors.Join(append(all, e.registry.check(ctx))...)
}

// checker gathers the violations of one lane.
type checker struct {
	lane  *lane
	fresh *lane // what an opening would rebuild
	db    *pebble.DB
	list  []error
	more  int
}

func (c *checker) add(format string, args ...any) {
	if len(c.list) >= maxViolations {
		c.more++
		return
	}
	c.list = append(c.list, fmt.Errorf("lane %d: "+format, append([]any{c.lane.no}, args...)...))
}

func (l *lane) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "the caller has given up")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &checker{lane: l, fresh: newLane(l.engine, l.no), db: l.engine.db}
	if err := c.fresh.load(c.db); err != nil {
		return l.engine.readFailed(err)
	}
	c.compareLane()
	for _, u := range slices.Sorted(maps.Keys(l.queues)) {
		c.checkQueue(l.queues[u])
	}
	if err := errors.Join(c.checkFacets(), c.checkAllLines(), c.checkClaims(), c.checkDead(), c.checkHeldEvents(), c.checkSubs(), c.checkBodies(), c.checkOperations()); err != nil {
		return l.engine.readFailed(err)
	}
	if c.more > 0 {
		c.list = append(c.list, fmt.Errorf("lane %d: and %d more", l.no, c.more))
	}
	return errors.Join(c.list...)
}

// compareLane compares what does not belong to a queue.
func (c *checker) compareLane() {
	l, f := c.lane, c.fresh
	if l.meta != f.meta {
		c.add("its record is %+v in memory and %+v on disk", l.meta, f.meta)
	}
	if !maps.Equal(l.removed, f.removed) {
		c.add("removed queues differ between memory and disk")
	}
	if !slices.Equal(slices.Sorted(maps.Keys(l.queues)), slices.Sorted(maps.Keys(f.queues))) {
		c.add("queues differ between memory and disk")
	}
	for name, t := range l.topics {
		if g := f.topics[name]; g == nil || g.events != t.events || g.last != t.last {
			c.add("topic %s differs between memory and disk", name)
		}
	}
	if len(l.topics) != len(f.topics) {
		c.add("%d topics in memory, %d on disk", len(l.topics), len(f.topics))
	}
	c.checkAgenda()
}

// checkAgenda looks at the order of the due index.
func (c *checker) checkAgenda() {
	l := c.lane
	for i, d := range l.agenda.heap {
		if d.pos != i || i > 0 && l.agenda.less(i, (i-1)/2) {
			c.add("the due index is out of order at %d", i)
		}
		if d.queue != nil && d.queue.removed {
			c.add("the due index names the removed queue %s", d.queue.uid)
		}
		if d.sub != nil && d.sub.removed {
			c.add("the due index names the removed subscription %s", d.sub.uid)
		}
	}
}

// numbers are the counts and settings of a queue that memory and disk must agree in.
func (q *queue) numbers() []int64 {
	return []int64{
		q.ready, q.leased, q.delayed, q.dead, q.acked, q.spent, q.dropped, q.tenants, q.deadDue.at * number(q.deadDue.pos >= 0), q.cancelled,
	}
}

func (c *checker) checkQueue(q *queue) {
	f := c.fresh.queues[q.uid]
	if f == nil {
		return // said already
	}
	if a, b := q.numbers(), f.numbers(); !slices.Equal(a, b) {
		c.add("queue %s: ready, leased, delayed, dead, acked, spent, dropped, tenants, next forgotten, cancelled are %v in memory and %v on disk", q.uid, a, b)
	}
	if q.settings != f.settings {
		c.add("queue %s: its settings are %+v in memory and %+v on disk", q.uid, q.settings, f.settings)
	}
	if !slices.Equal(q.ages.full(), f.ages.full()) {
		c.add("queue %s: ages differ between memory and disk", q.uid)
	}
	c.checkRing(q)
	c.checkHeld(q, f)
	c.checkTenants(q, f)
}

func (a *ages) full() []age {
	return slices.DeleteFunc(slices.Clone(a.slots), func(s age) bool { return s.n == 0 })
}

func (c *checker) checkRing(q *queue) {
	seen := map[*facet]bool{}
	for _, f := range q.ring.all() {
		if seen[f] {
			c.add("queue %s: tenant %s is twice in the ring", q.uid, f.tenant)
		}
		seen[f] = true
		if q.facets[f.tenant] != f {
			c.add("queue %s: the ring holds a forgotten facet of tenant %s", q.uid, f.tenant)
		}
	}
	var ready, tenants int64
	for _, f := range q.facets {
		ready += f.waiting()
		tenants += number(f.waiting() > 0)
		if f.inRing != seen[f] || f.eligible(q) && !f.inRing {
			c.add("queue %s: tenant %s has %d waiting but in the ring is %t", q.uid, f.tenant, f.waiting(), seen[f])
		}
		if f.idle() {
			c.add("queue %s: tenant %s costs memory for nothing", q.uid, f.tenant)
		}
	}
	if ready != q.ready || tenants != q.tenants {
		c.add("queue %s: counts %d ready of %d tenants but its facets hold %d of %d", q.uid, q.ready, q.tenants, ready, tenants)
	}
}

// checkHeld compares leases and delays with what the disk says of them.
func (c *checker) checkHeld(q, fresh *queue) {
	var leased, delayed int64
	left, byFacet := map[*lease]int{}, map[*facet]int{}
	for seq, h := range q.out {
		switch h.state {
		case stateLeased:
			leased++
			left[h.lease]++
			byFacet[h.facet]++
			c.checkDue(q, seq, &h.lease.due)
		case stateDelayed:
			delayed++
			byFacet[h.facet]++
			c.checkDue(q, seq, h.due)
		case stateGone:
			c.add("queue %s: message %d is remembered as settled", q.uid, seq)
		}
		c.compareHeld(q, seq, h, fresh.out[seq])
	}
	for ls, n := range left {
		if ls.left != n {
			c.add("queue %s: lease %d counts %d messages but has %d", q.uid, ls.no, ls.left, n)
		}
	}
	for _, f := range q.facets {
		if f.leased+f.delayed != byFacet[f] {
			c.add("queue %s: tenant %s counts %d in flight but has %d", q.uid, f.tenant, f.leased+f.delayed, byFacet[f])
		}
	}
	if leased != q.leased || delayed != q.delayed {
		c.add("queue %s: counts %d leased, %d delayed but has %d, %d", q.uid, q.leased, q.delayed, leased, delayed)
	}
}

// compareHeld compares what memory and disk say of a message in flight.
func (c *checker) compareHeld(q *queue, seq uint64, h, disk held) {
	if h.state != stateLeased && h.state != stateDelayed {
		return
	}
	same := h.state == disk.state && h.mark == disk.mark && h.wish == disk.wish && h.told == disk.told && (h.place == nil) == (disk.place == nil)
	if same && h.place != nil {
		same = *h.place == *disk.place
	}
	if same && h.state == stateLeased {
		same = disk.lease.token == h.lease.token && disk.lease.due.at == h.lease.due.at && disk.lease.started == h.lease.started
	}
	if same && h.state == stateDelayed {
		same = disk.due.at == h.due.at
	}
	if !same {
		c.add("queue %s: message %d is in flight otherwise than the disk says", q.uid, seq)
	}
}

func (c *checker) checkDue(q *queue, seq uint64, d *due) {
	if d.pos < 0 || d.pos >= len(c.lane.agenda.heap) || c.lane.agenda.heap[d.pos] != d {
		c.add("queue %s: message %d is in flight without a due entry", q.uid, seq)
	}
}

// checkFacets compares each facet's head, gap, tail and backlog with the
// messages on disk that neither a lease nor a delay holds.
func (c *checker) checkFacets() error {
	type place struct {
		queue  uid
		tenant string
	}
	onDisk := map[place]map[uint64]entry{}
	err := scan(c.db, laneKey(nil, kindMessage, c.lane.no), func(key, value []byte) error {
		u, tenant, seq, _ := splitMessageKey(key)
		q := c.fresh.queues[u]
		if q == nil {
			if !c.lane.removed[u] {
				c.add("message %d lies in the queue %s, which is neither known nor removed", seq, u)
			}
			return nil
		}
		if _, out := q.out[seq]; out {
			return nil
		}
		at := place{u, string(tenant)}
		if onDisk[at] == nil {
			onDisk[at] = map[uint64]entry{}
		}
		e, err := decodeEntry(seq, value)
		onDisk[at][seq] = e
		return err
	})
	if err != nil {
		return err
	}
	for _, q := range c.lane.queues {
		for _, f := range q.facets {
			at := place{q.uid, f.tenant}
			c.checkFacet(q, f, onDisk[at])
			delete(onDisk, at)
		}
	}
	for at, list := range onDisk {
		c.add("queue %s: tenant %s has %d messages on disk and is not in memory", at.queue, at.tenant, len(list))
	}
	return nil
}

func (c *checker) checkFacet(q *queue, f *facet, disk map[uint64]entry) {
	inMemory := slices.Concat(f.head.all(), f.tail.all(), f.back)
	for _, e := range inMemory {
		if d, ok := disk[e.seq]; !ok || d != e {
			c.add("queue %s: tenant %s: message %d waits in memory as %+v but on disk %t as %+v", q.uid, f.tenant, e.seq, e, ok, d)
		}
		delete(disk, e.seq)
	}
	if int64(len(disk)) != f.gap {
		c.add("queue %s: tenant %s counts %d messages on disk only but there are %d", q.uid, f.tenant, f.gap, len(disk))
	}
	for seq := range disk {
		if seq <= f.next || f.tail.len() > 0 && seq >= f.tail.front().seq {
			c.add("queue %s: tenant %s: message %d on disk is out of a refill's reach", q.uid, f.tenant, seq)
		}
	}
	bySeq := func(a, b entry) int { return int(int64(a.seq - b.seq)) }
	if !slices.IsSortedFunc(slices.Concat(f.head.all(), f.tail.all()), bySeq) {
		c.add("queue %s: tenant %s: its window is out of order", q.uid, f.tenant)
	}
}

// checkClaims looks for leases and delays that hold nothing.
func (c *checker) checkClaims() error {
	live := map[uint64]bool{}
	for _, q := range c.fresh.queues {
		for _, h := range q.out {
			if h.lease != nil {
				live[h.lease.no] = true
			}
		}
	}
	err := scan(c.db, laneKey(nil, kindLease, c.lane.no), func(key, _ []byte) error {
		if c.fresh.queues[keyQueue(key)] != nil && !live[lastNumber(key)] {
			c.add("queue %s: the lease %d on disk holds nothing", keyQueue(key), lastNumber(key))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return scan(c.db, laneKey(nil, kindDelayed, c.lane.no), func(key, _ []byte) error {
		q := c.fresh.queues[keyQueue(key)]
		if q != nil && q.out[lastNumber(key)].state != stateDelayed {
			c.add("queue %s: the delay of message %d on disk holds nothing", keyQueue(key), lastNumber(key))
		}
		return nil
	})
}

// checkBodies counts who holds each body.
func (c *checker) checkBodies() error {
	held, marked := map[uint64]uint32{}, map[uint64]uint32{}
	hold := func(key, _ []byte) error { held[lastNumber(key)]++; return nil }
	for _, kind := range []byte{kindMessage, kindDead} {
		if err := scan(c.db, laneKey(nil, kind, c.lane.no), hold); err != nil {
			return err
		}
	}
	for _, kind := range []byte{kindChain, kindLine} {
		err := scan(c.db, laneKey(nil, kind, c.lane.no), func(key, value []byte) error {
			e, err := decodeLined(key, value)
			held[e.seq]++
			return err
		})
		if err != nil {
			return err
		}
	}
	err := scan(c.db, laneKey(nil, kindMember, c.lane.no), func(key, value []byte) error {
		members, err := decodeMembers(nil, memberBatch(key), value)
		for _, e := range members {
			held[e.seq]++
		}
		return err
	})
	if err != nil {
		return err
	}
	err = scan(c.db, laneKey(nil, kindHolders, c.lane.no), func(key, value []byte) error {
		n, _ := binary.Uvarint(value)
		marked[lastNumber(key)] = uint32(n)
		return nil
	})
	if err != nil {
		return err
	}
	err = scan(c.db, laneKey(nil, kindBody, c.lane.no), func(key, _ []byte) error {
		seq := lastNumber(key)
		n, mark := held[seq], marked[seq]
		if n == 0 || mark != n && (mark != 0 || n != 1) {
			c.add("body %d is held by %d sinks and marked with %d", seq, n, mark)
		}
		delete(held, seq)
		delete(marked, seq)
		return nil
	})
	for seq := range held {
		c.add("event %d has no body", seq)
	}
	for seq := range marked {
		c.add("holders of body %d are counted but it is not there", seq)
	}
	return err
}

// check compares the registry with what an opening would load.
func (r *registry) check(ctx context.Context) error {
	if err := r.do(ctx, func(*group) error { return nil }); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := newRegistry(r.engine)
	if err := fresh.load(r.engine.db); err != nil {
		return r.engine.readFailed(err)
	}
	if r.version != fresh.version || r.floor != fresh.floor || !reflect.DeepEqual(r.all(), fresh.all()) {
		return errors.New("the registry differs between memory and disk")
	}
	return nil
}
