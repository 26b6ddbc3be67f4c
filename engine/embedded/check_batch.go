package embedded

import (
	"bytes"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// checkSubs compares subscriptions and their batches with the disk, and each
// batch with what its state asks for.
func (c *checker) checkSubs() error {
	l, fresh := c.lane, c.fresh
	if !slices.Equal(slices.Sorted(maps.Keys(l.subs)), slices.Sorted(maps.Keys(fresh.subs))) {
		c.add("subscriptions differ between memory and disk")
		return nil
	}
	ringed := map[*subscription]int{}
	for _, s := range l.subRing {
		ringed[s]++
	}
	for _, u := range slices.Sorted(maps.Keys(l.subs)) {
		s := l.subs[u]
		c.checkSub(s, fresh.subs[u])
		if s.inRing != (ringed[s] == 1) || ringed[s] > 1 || s.servable() && !s.inRing {
			c.add("subscription %s is %d times in the ring, and can be served is %t", u, ringed[s], s.servable())
		}
		delete(ringed, s)
	}
	if len(ringed) > 0 {
		c.add("the ring holds %d subscriptions that are not known", len(ringed))
	}
	if err := c.checkMembers(); err != nil {
		return err
	}
	return c.checkOfBatches()
}

// numbers are the counts of a subscription that memory and disk must agree in.
func (s *subscription) numbers() []int64 {
	return []int64{s.queued, s.dead, int64(s.pending), int64(s.deadBatches), int64(len(s.batches) - s.gone), int64(len(s.ready.heap))}
}

func (c *checker) checkSub(s, disk *subscription) {
	if !bytes.Equal(encodeSubscription(&s.settings), encodeSubscription(&disk.settings)) {
		c.add("subscription %s: its settings are %+v in memory and %+v on disk", s.uid, s.settings, disk.settings)
	}
	if s.subscriptionState != disk.subscriptionState {
		c.add("subscription %s: its state is %+v in memory and %+v on disk", s.uid, s.subscriptionState, disk.subscriptionState)
	}
	if a, b := s.numbers(), disk.numbers(); !slices.Equal(a, b) {
		c.add("subscription %s: events queued and dead, batches pending, dead, all and ready are %v in memory and %v on disk", s.uid, a, b)
	}
	if s.parked != s.park.at*number(s.park.pos >= 0) || s.parked > 0 && !c.lane.agenda.has(&s.park) {
		c.add("subscription %s is parked until %d and due at %d", s.uid, s.parked, s.park.at)
	}
	if !s.current.same(disk.current) || !s.blocking.same(disk.blocking) {
		c.add("subscription %s: which batch collects or blocks is otherwise on disk", s.uid)
	}
	gone, last := 0, uint64(0)
	for _, b := range s.batches {
		if b.name() <= last {
			c.add("subscription %s: batch %d is out of order", s.uid, b.name())
		}
		last = b.name()
		if b.state == batchGone {
			gone++
			continue
		}
		c.checkBatch(b, disk.named(b.name()))
	}
	if gone != s.gone {
		c.add("subscription %s: %d batches are gone and %d counted", s.uid, gone, s.gone)
	}
}

// same reports whether two batches have one name, or neither is there.
func (b *batch) same(o *batch) bool {
	if b == nil || o == nil {
		return b == o
	}
	return b.name() == o.name()
}

// has reports whether an entry is where it says.
func (a *agenda) has(d *due) bool { return d.pos >= 0 && d.pos < len(a.heap) && a.heap[d.pos] == d }

func (c *checker) checkBatch(b, disk *batch) {
	s := b.sub()
	same := disk != nil && b.batchHeader == disk.batchHeader && b.state == disk.state && b.due.at == disk.due.at
	if !same || (b.sending == nil) != (disk.sending == nil) || b.sending != nil && *b.sending != *disk.sending {
		c.add("subscription %s: batch %d is otherwise on disk", s.uid, b.name())
	}
	in := &c.lane.agenda
	if b.state == batchReady {
		in = &s.ready
	}
	if waits := b.state == batchReady || b.due.at != 0; waits != in.has(&b.due) {
		c.add("subscription %s: batch %d is %s and has no due entry, or one too many", s.uid, b.name(), b.state.word())
	}
	if b.state != batchDead && b.name() <= s.living {
		c.add("subscription %s: batch %d is passed over as dead and is %s", s.uid, b.name(), b.state.word())
	}
	if b.state == batchEarly && s.current != b && b.attempts == 0 {
		c.add("subscription %s: batch %d neither collects nor was sent", s.uid, b.name())
	}
}

// checkMembers compares the members of each batch with what its header counts.
func (c *checker) checkMembers() error {
	for _, s := range c.lane.subs {
		for _, b := range s.batches {
			if b.state == batchGone {
				continue
			}
			list, err := c.lane.members(manifest{uid: s.uid, name: b.name(), onDisk: b.chunks})
			if err != nil {
				return err
			}
			size := 0
			for _, e := range list {
				size += int(e.size)
			}
			if len(list) != int(b.count) || size != int(b.bytes) || len(list) > 0 && list[0].seq != b.name() {
				c.add("subscription %s: batch %d counts %d events of %d bytes but has %d of %d", s.uid, b.name(), b.count, b.bytes, len(list), size)
			}
			if n := len(list) - len(b.recent()); n < 0 || !slices.Equal(list[n:], b.recent()) || n > 0 && b.onDisk == 0 {
				c.add("subscription %s: batch %d has other events in memory than on disk", s.uid, b.name())
			}
		}
	}
	return nil
}

// checkOfBatches looks for records that belong to no batch or no subscription.
func (c *checker) checkOfBatches() error {
	whose := map[byte]func(s *subscription, key []byte) bool{
		kindBatch:      func(s *subscription, key []byte) bool { return s.named(lastNumber(key)) != nil },
		kindMember:     func(s *subscription, key []byte) bool { return s.named(memberBatch(key)) != nil },
		kindBatchError: func(s *subscription, key []byte) bool { b := s.named(lastNumber(key)); return b != nil && b.failed },
		kindAttempt: func(s *subscription, key []byte) bool {
			n := int64(lastNumber(key))
			return n <= s.logged && n > s.logged-millrace.MaxAttemptLog
		},
	}
	found := map[byte]int{}
	for kind, belongs := range whose {
		err := scan(c.db, laneKey(nil, kind, c.lane.no), func(key, _ []byte) error {
			s := c.lane.subs[keyQueue(key)]
			if s == nil && !c.lane.removed[keyQueue(key)] || s != nil && !belongs(s, key) {
				c.add("subscription %s: a record %q belongs to nothing", keyQueue(key), key)
			}
			found[kind] += int(number(s != nil))
			return nil
		})
		if err != nil {
			return err
		}
	}
	errors, attempts := 0, 0
	for _, s := range c.lane.subs {
		attempts += int(min(s.logged, millrace.MaxAttemptLog))
		for _, b := range s.batches {
			errors += int(number(b.state != batchGone && b.failed))
		}
	}
	if errors != found[kindBatchError] || attempts != found[kindAttempt] {
		c.add("%d errors of batches and %d attempts are stored, not %d and %d", found[kindBatchError], found[kindAttempt], errors, attempts)
	}
	return nil
}
