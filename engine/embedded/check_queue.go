package embedded

import (
	"maps"
	"slices"
)

// checkTenants compares what memory and disk know of a queue's tenants.
func (c *checker) checkTenants(q, fresh *queue) {
	for name, f := range q.facets {
		disk := fresh.facets[name]
		if disk == nil {
			if !f.empty() {
				c.add("queue %s: tenant %s is not on disk", q.uid, name)
			}
			continue
		}
		if f.leased != disk.leased || f.delayed != disk.delayed || f.dead != disk.dead || f.waiting() != disk.waiting() {
			c.add("queue %s: tenant %s counts other messages than the disk", q.uid, name)
		}
		if (f.settings == nil) != (disk.settings == nil) || f.settings != nil && *f.settings != *disk.settings {
			c.add("queue %s: tenant %s has other settings on disk", q.uid, name)
		}
		c.checkLines(q, f, disk)
	}
	for name := range fresh.facets {
		if q.facets[name] == nil {
			c.add("queue %s: tenant %s is on disk only", q.uid, name)
		}
	}
	if len(q.consumers) != len(fresh.consumers) {
		c.add("queue %s: %d consumers hold leases, on disk %d", q.uid, len(q.consumers), len(fresh.consumers))
	}
	for name, own := range q.consumers {
		if !slices.Equal(slices.Sorted(maps.Keys(own)), slices.Sorted(maps.Keys(fresh.consumers[name]))) {
			c.add("queue %s: consumer %q has other leases on disk", q.uid, name)
		}
	}
}

// checkDead compares the dead letters with what finds them.
func (c *checker) checkDead() error {
	type letter struct {
		queue uid
		seq   uint64
	}
	all := map[letter]deadRecord{}
	err := scan(c.db, laneKey(nil, kindDead, c.lane.no), func(key, value []byte) error {
		d, err := decodeDead(value)
		all[letter{keyQueue(key), lastNumber(key)}] = d
		return err
	})
	if err != nil {
		return err
	}
	byTenant, byDue := 0, 0
	err = scan(c.db, laneKey(nil, kindDeadOf, c.lane.no), func(key, _ []byte) error {
		d, ok := all[letter{keyQueue(key), lastNumber(key)}]
		if swept := c.lane.queues[keyQueue(key)] == nil; swept && !ok {
			return nil // swept in the end
		}
		if byTenant++; !ok || d.tenant != string(key[10:len(key)-9]) {
			c.add("queue %s: a tenant's dead letter %d is not there", keyQueue(key), lastNumber(key))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = scan(c.db, laneKey(nil, kindDeadDue, c.lane.no), func(key, _ []byte) error {
		d, ok := all[letter{keyQueue(key), lastNumber(key)}]
		if swept := c.lane.queues[keyQueue(key)] == nil; swept && !ok {
			return nil
		}
		if byDue++; !ok || d.due != dueOf(key) {
			c.add("queue %s: the retention of a dead letter %d ends that is not there", keyQueue(key), lastNumber(key))
		}
		return nil
	})
	for _, d := range all {
		byTenant--
		byDue -= int(number(d.due != 0))
	}
	if byTenant != 0 || byDue != 0 {
		c.add("dead letters are missing in the lists by tenant (%d) and by retention (%d)", byTenant, byDue)
	}
	return err
}

// checkHeldEvents compares the delayed events with the due index and the disk.
func (c *checker) checkHeldEvents() error {
	l, fresh := c.lane, c.fresh
	if len(l.held) != len(fresh.held) || len(l.heldDigests) != len(fresh.heldDigests) {
		c.add("%d delayed events in memory, %d on disk", len(l.held), len(fresh.held))
	}
	for name, h := range l.held {
		disk := fresh.held[name]
		if disk == nil || disk.dueAt != h.dueAt || disk.due.at != h.due.at || disk.digest != h.digest || disk.size != h.size {
			c.add("delayed event %d is otherwise on disk", name)
		}
		if d := &h.due; d.pos < 0 || d.pos >= len(l.agenda.heap) || l.agenda.heap[d.pos] != d {
			c.add("delayed event %d has no due entry", name)
		}
	}
	for kind, what := range map[byte]string{kindHeldBody: "body", kindHeldID: "id"} {
		n := 0
		err := scan(c.db, laneKey(nil, kind, l.no), func(key, _ []byte) error {
			if n++; l.held[lastNumber(key)] == nil {
				c.add("the %s of delayed event %d is there without it", what, lastNumber(key))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n != len(l.held) {
			c.add("%d delayed events have %d %ss", len(l.held), n, what)
		}
	}
	return nil
}
