package embedded

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
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
// messages by their keys alone.
func (l *lane) load(db *pebble.DB) error {
	for _, step := range []func(*pebble.DB) error{
		l.loadMeta, l.loadQueues, l.loadTopics, l.loadLeases, l.loadDelayed, l.loadDead, l.loadMessages,
	} {
		if err := step(db); err != nil {
			return fmt.Errorf("load lane %d: %w", l.no, err)
		}
	}
	l.startRings()
	return nil
}

func (l *lane) loadMeta(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindMeta, l.no), func(_, value []byte) error { return l.meta.decode(value) })
	l.appliedSeq = uint64(l.meta.n)*uint64(l.engine.identity.Lanes) + uint64(l.no)
	return err
}

func (l *lane) loadQueues(db *pebble.DB) error {
	err := scan(db, laneKey(nil, kindSettings, l.no), func(key, value []byte) error {
		var version, attempts int64
		if err := decodeNumbers(value, "a queue's settings", &version, &attempts); err != nil {
			return err
		}
		q := newQueue(keyQueue(key))
		q.version, q.maxAttempts = uint64(version), int(attempts)
		l.queues[q.uid] = q
		return nil
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
		l.removed[keyQueue(key)] = string(value) == unswept
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
		ls := l.newLease(q, r.token, r.deadline, len(r.items))
		ls.left, ls.no = 0, lastNumber(key)
		l.leases = max(l.leases-1, ls.no)
		for i, it := range r.items {
			ls.seqs[i] = it.seq
			q.out[it.seq] = held{lease: ls, mark: newMark(it.attempt-1, false), state: stateLeased}
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
		q.out[seq] = held{due: &due{at: d.due, queue: q, seq: seq}, state: stateDelayed}
		return nil
	})
}

func (l *lane) loadDead(db *pebble.DB) error {
	return scan(db, laneKey(nil, kindDead, l.no), func(key, _ []byte) error {
		if q := l.queues[keyQueue(key)]; q != nil {
			q.dead++
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
	if err := it.Error(); err != nil {
		return err
	}
	return l.endClaims()
}

func (l *lane) loadMessage(it *pebble.Iterator, q *queue, f *facet, seq uint64) error {
	q.ages.add(l.minute(seq))
	if len(q.out) > 0 {
		if h, ok := q.out[seq]; ok {
			e, err := entryAt(it, seq)
			if err != nil {
				return err
			}
			if l.resume(q, f, h, e) {
				return nil
			}
		}
	}
	q.ready++
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
func (l *lane) resume(q *queue, f *facet, h held, e entry) bool {
	if h.state == stateLeased && h.mark>>1 != e.mark>>1 {
		delete(q.out, e.seq)
		return false
	}
	h.facet, h.mark, h.size = f, e.mark, e.size
	f.held++
	if h.state == stateLeased {
		q.leased++
		if h.lease.left == 0 {
			l.agenda.push(&h.lease.due)
		}
		h.lease.left++
	} else {
		q.delayed++
		l.agenda.push(h.due)
	}
	q.out[e.seq] = h
	return true
}

// endClaims drops the claims on messages that are not there any more.
func (l *lane) endClaims() error {
	for _, q := range l.queues {
		for seq, h := range q.out {
			if h.facet == nil {
				delete(q.out, seq)
			}
		}
	}
	return nil
}

// startRings gives every tenant that waits its place, the one that waits
// longest first.
func (l *lane) startRings() {
	for _, q := range l.queues {
		list := make([]*facet, 0, len(q.facets))
		for _, f := range q.facets {
			if f.waiting() > 0 {
				list = append(list, f)
			}
		}
		slices.SortFunc(list, func(a, b *facet) int {
			return cmp.Or(cmp.Compare(a.head.front().seq, b.head.front().seq), cmp.Compare(a.tenant, b.tenant))
		})
		for _, f := range list {
			f.inRing = true
			q.ring.push(f)
		}
	}
}
