package embedded

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// scan calls f with each record whose key begins with prefix, in order; key
// and value are only valid during the call.
func scan(db *pebble.DB, prefix []byte, f func(key, value []byte) error) error {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			_ = it.Close()
			return fmt.Errorf("read record %q: %w", it.Key(), err)
		}
	}
	return it.Close()
}

// load rebuilds the lane's index from disk: all but the bodies is looked at,
// messages by their keys alone, those of ordered queues' keys by their whole
// records, which are as small, and batches by their headers.
func (l *lane) load(db *pebble.DB) error {
	for _, step := range []func(*pebble.DB) error{
		l.loadMeta, l.loadQueues, l.loadTenants, l.loadTopics, l.loadHeld, l.loadLeases, l.loadDelayed, l.loadDead,
		l.loadMessages, l.loadChains, l.loadCuts, l.loadSubs, l.loadCancelled, l.loadCounts, l.loadEndings,
	} {
		if err := step(db); err != nil {
			return fmt.Errorf("load lane %d: %w", l.no, err)
		}
	}
	l.endClaims()
	if err := l.loadRunning(); err != nil {
		return fmt.Errorf("load lane %d: %w", l.no, err)
	}
	l.startRings()
	l.startSubs()
	return nil
}

func (l *lane) loadMeta(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindMeta, l.no), func(_, value []byte) error { return l.meta.decode(value) })
	l.appliedSeq = uint64(l.meta.n)*uint64(l.engine.identity.Lanes) + uint64(l.no)
	return err
}

func (l *lane) loadQueues(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindSettings, l.no), func(key, value []byte) error {
		q := newQueue(keyQueue(key))
		l.queues[q.uid] = q
		var err error
		q.settings, err = decodeSettings(value)
		return err
	})
	if err != nil {
		return err
	}
	err = scan(db, laneKey(nil, kindCounters, l.no), func(key, value []byte) error {
		if q := l.queues[keyQueue(key)]; q != nil {
			return decodeNumbers(value, "a queue's counters", &q.acked, &q.spent, &q.dropped)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return scan(db, laneKey(nil, kindRemoved, l.no), func(key, value []byte) error {
		return l.loadRemoved(keyQueue(key), string(value))
	})
}

func (l *lane) loadTenants(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindTenant, l.no), func(key, value []byte) error {
		q := l.queues[keyQueue(key)]
		if q == nil {
			return nil
		}
		var weight, limit int64
		if err := decodeNumbers(value, "a tenant's settings", &weight, &limit); err != nil {
			return err
		}
		q.facet(string(key[10:])).settings = &millrace.TenantSettings{Weight: int(weight), Limit: int(limit)}
		return nil
	})
}

func (l *lane) loadTopics(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindTopic, l.no), func(key, value []byte) error {
		t := &topic{name: string(key[2:])}
		l.topics[t.name] = t
		return decodeNumbers(value, "a topic", &t.events, &t.last)
	})
}

// loadLeases notes who claims to hold what. Of two leases that name a message
// the later one holds it; whether it does, the message's own record says.
func (l *lane) loadLeases(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindLease, l.no), func(key, value []byte) error {
		q := l.queues[keyQueue(key)]
		if q == nil {
			return nil
		}
		r, err := decodeLease(value)
		if err != nil {
			return err
		}
		ls := l.newLease(q, lastNumber(key), r.token, r.deadline, r.consumer, len(r.names))
		ls.left, ls.started = 0, r.started
		for i, name := range r.names {
			ls.seqs[i] = name
			q.out[name] = held{lease: ls, state: stateLeased}
		}
		return nil
	})
}

func (l *lane) loadDelayed(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindDelayed, l.no), func(key, value []byte) error {
		q := l.queues[keyQueue(key)]
		if q == nil {
			return nil
		}
		d, err := decodeDelayed(value)
		if err != nil {
			return err
		}
		seq := lastNumber(key)
		q.out[seq] = held{due: &due{kind: dueRetry, at: d.due, queue: q, seq: seq}, state: stateDelayed}
		return nil
	})
}

func (l *lane) loadDead(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindDead, l.no), func(key, value []byte) error {
		q := l.queues[keyQueue(key)]
		if q == nil {
			return nil
		}
		d, err := decodeDead(value)
		q.facet(d.tenant).dead++
		q.dead++
		return err
	})
	if err != nil {
		return err
	}
	return scan(db, laneKey(nil, kindDeadDue, l.no), func(key, _ []byte) error {
		if q := l.queues[keyQueue(key)]; q != nil && q.deadDue.pos < 0 { // the first is the earliest
			l.agenda.move(&q.deadDue, dueOf(key))
		}
		return nil
	})
}

// loadMessages reads the keys of all messages, facet by facet.
func (l *lane) loadMessages(db *pebble.DB) error {
	prefix := laneKey(nil, kindMessage, l.no)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	var q *queue
	var f *facet
	var in []byte // the part of the key that names the facet
	for valid := it.First(); valid; {
		key := it.Key()
		if len(key) < 8 || string(key[:len(key)-8]) != string(in) {
			u, tenant, _, ok := splitMessageKey(key)
			if !ok {
				return errIndex("a message's key is malformed")
			}
			in = append(in[:0], key[:len(key)-8]...)
			if q = l.queues[u]; q == nil { // swept some day
				valid = it.SeekGE(after(queueKey(nil, kindMessage, l.no, u)))
				in = in[:0]
				continue
			}
			f = q.facet(string(tenant))
		}
		if err := l.loadMessage(it, q, f, lastNumber(key)); err != nil {
			return err
		}
		valid = it.Next()
	}
	return it.Error()
}

func (l *lane) loadMessage(it *pebble.Iterator, q *queue, f *facet, seq uint64) error {
	q.ages.add(l.minute(seq))
	if len(q.out) > 0 {
		if h, ok := q.out[seq]; ok {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			e, floor, err := decodeFloor(seq, value)
			if err != nil {
				return err
			}
			if l.resume(q, f, h, lined{entry: e, floor: floor}, nil) {
				return nil
			}
		}
	}
	q.arrive(f)
	if f.gap > 0 || f.head.len() == headLen {
		f.gap++
		return nil
	}
	e, err := entryAt(it, seq)
	if err != nil {
		return err
	}
	f.head.push(e)
	f.next = seq
	return nil
}

// resume takes up a lease or a delay of a message, unless it is over.
func (l *lane) resume(q *queue, f *facet, h held, e lined, at *place) bool {
	if h.state == stateLeased && h.lease.no <= e.floor {
		delete(q.out, e.seq)
		return false
	}
	h.facet, h.place, h.mark, h.size = f, at, e.mark, e.size
	if h.state == stateLeased {
		q.leased++
		f.leased++
		if h.lease.left == 0 {
			l.agenda.push(&h.lease.due)
			q.noteConsumer(h.lease)
		}
		h.lease.left++
	} else {
		q.delayed++
		f.delayed++
		l.agenda.push(h.due)
	}
	q.out[e.seq] = h
	return true
}

// endClaims drops the claims on messages that are not there any more.
func (l *lane) endClaims() {
	for _, q := range l.queues {
		for seq, h := range q.out {
			if h.facet == nil {
				delete(q.out, seq)
			}
		}
	}
}

// lowest is the lowest name that a facet with a full head can give out.
func (f *facet) lowest() uint64 {
	least := uint64(math.MaxUint64)
	if f.head.len() > 0 {
		least = f.head.front().seq
	}
	if f.lines != nil && f.lines.free > 0 {
		_, n := f.lines.first()
		least = min(least, n.front)
	}
	return least
}

// startRings gives every tenant that waits its place, the one that waits
// longest first.
func (l *lane) startRings() {
	for _, q := range l.queues {
		list := make([]*facet, 0, len(q.facets))
		for _, f := range q.facets {
			if f.eligible(q) {
				list = append(list, f)
			}
		}
		slices.SortFunc(list, func(a, b *facet) int {
			return cmp.Or(cmp.Compare(a.lowest(), b.lowest()), cmp.Compare(a.tenant, b.tenant))
		})
		for _, f := range list {
			f.inRing = true
			q.ring.push(f)
		}
	}
}
