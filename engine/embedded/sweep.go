package embedded

import (
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// sweeper remembers where the sweep of a lane has got to: it never seeks from
// the start of what it has deleted.
type sweeper struct {
	mu   sync.Mutex
	uid  uid
	from []byte // the next key to look at; nil at the start of a queue
}

// swept is a message of a removed queue, or an event of a removed subscription's
// batch.
type swept struct {
	key   []byte
	entry entry
	part  bool   // more of its record follow
	rest  []byte // what its record has then, of one that is not swept whole
}

// Sweep frees up to most entries of what removed sinks left in a lane.
func (e *Engine) Sweep(ctx context.Context, lane int, most int) (int, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return 0, err
	}
	defer e.leave()
	l.sweep.mu.Lock()
	defer l.sweep.mu.Unlock()
	freed := 0
	for freed < most {
		n, more, err := l.sweepSome(ctx, most-freed)
		freed += n
		if err != nil || !more {
			return freed, err
		}
	}
	return freed, nil
}

// sweepSome frees some entries of one removed sink, and reports whether
// there may be more.
func (l *lane) sweepSome(ctx context.Context, most int) (n int, more bool, err error) {
	// Wait for what was written before the removal, then read without the lock:
	// nobody else touches what a removed sink left.
	var u uid
	err = l.do(ctx, func(*group) error {
		u, more = l.nextTrash()
		return nil
	})
	if err != nil || !more {
		return 0, false, err
	}
	list, from, err := l.readSwept(u, most)
	if err != nil {
		return 0, false, l.engine.readFailed(err)
	}
	err = l.hinted(ctx, func(g *group) error {
		if err := l.sweepOperations(g, u, list); err != nil {
			return l.engine.readFailed(err)
		}
		l.erase(g, list)
		l.sweep.from = from
		if len(list) < most {
			l.endTrash(g, u)
		}
		return nil
	})
	return len(list), err == nil, err
}

// nextTrash is the removed sink that is being swept.
func (l *lane) nextTrash() (uid, bool) {
	if l.removed[l.sweep.uid] {
		return l.sweep.uid, true
	}
	for u, waits := range l.removed {
		if waits {
			l.sweep.uid, l.sweep.from = u, nil
			return u, true
		}
	}
	return 0, false
}

// sweptKinds are the records of messages, in the order they are swept in.
var sweptKinds = []byte{kindMessage, kindChain, kindLine, kindDead, kindMember}

// readSwept reads up to most entries of a removed sink: messages, then dead
// letters; or events of batches. It returns where to go on when they are erased.
func (l *lane) readSwept(u uid, most int) (list []swept, from []byte, err error) {
	s := &l.sweep
	for i, kind := range sweptKinds {
		prefix := queueKey(nil, kind, l.no, u)
		if s.from != nil && slices.Index(sweptKinds, s.from[0]) > i {
			continue
		}
		lower := prefix
		if s.from != nil && s.from[0] == kind {
			lower = s.from
		}
		if len(list) >= most {
			break
		}
		it, err := l.engine.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: after(prefix)})
		if err != nil {
			return nil, nil, err
		}
		for valid := it.First(); valid && len(list) < most; valid = it.Next() {
			some, err := sweptAt(it, kind, most-len(list))
			if err != nil {
				_ = it.Close()
				return nil, nil, err
			}
			list = append(list, some...)
		}
		if err := it.Close(); err != nil {
			return nil, nil, err
		}
	}
	from = s.from
	if n := len(list); n > 0 {
		from = slices.Clone(list[n-1].key)
		if list[n-1].rest == nil {
			from = append(from, 0)
		}
	}
	return list, from, nil
}

// sweptAt is the entries of one record, at most so many.
func sweptAt(it *pebble.Iterator, kind byte, most int) ([]swept, error) {
	x := swept{key: slices.Clone(it.Key())}
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindMember:
		return sweptMembers(x.key, value, most)
	case kindMessage:
		x.entry, err = decodeEntry(lastNumber(x.key), value)
	case kindChain, kindLine:
		var e lined
		e, err = decodeLined(x.key, value)
		x.entry = e.entry
	default:
		var d deadRecord
		d, err = decodeDead(value)
		x.entry = entry{seq: lastNumber(x.key), size: d.size, mark: d.mark}
	}
	return []swept{x}, err
}

// sweptMembers is the first events of a chunk of a batch.
func sweptMembers(key, value []byte, most int) ([]swept, error) {
	name := memberBatch(key)
	members, err := decodeMembers(nil, name, value)
	if err != nil {
		return nil, err
	}
	n := min(most, len(members))
	list := make([]swept, n)
	for i, e := range members[:n] {
		list[i] = swept{key: key, entry: e, part: i < n-1}
	}
	if n < len(members) {
		list[n-1].rest = appendMembers(nil, name, members[n:])
	}
	return list, nil
}

// erase deletes entries of a removed sink and frees their bodies.
func (l *lane) erase(g *group, list []swept) {
	var freed []uint64
	for _, x := range list {
		g.key = append(g.key[:0], x.key...)
		switch {
		case x.part:
		case x.rest != nil:
			g.val = append(g.val[:0], x.rest...)
			g.set()
		default:
			g.del()
		}
		freed = l.release(g, x.entry, freed)
	}
	l.meta.dropped += int64(len(list))
	l.dirty = true
	l.cache.drop(freed)
}

// endTrash removes the rest of a sink of which no entry is left.
func (l *lane) endTrash(g *group, u uid) {
	for _, kind := range []byte{kindLease, kindDelayed, kindTenant, kindDeadOf, kindDeadDue, kindBatch, kindBatchError, kindAttempt, kindTicket, kindCancelled} {
		prefix := queueKey(nil, kind, l.no, u)
		g.delRange(prefix, after(prefix))
	}
	delete(l.retired, u)
	l.noteRemoved(g, u, false)
	l.sweep.from = nil
}
