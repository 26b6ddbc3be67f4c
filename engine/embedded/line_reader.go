package embedded

import "github.com/cockroachdb/pebble/v2"

// lineReader reads what waits in the chains of lines. It sees what was written
// before its first use, which is enough: what a step appends it does not read.
type lineReader struct {
	iter *pebble.Iterator
	key  []byte
}

func (r *lineReader) close() {
	if r.iter != nil {
		_ = r.iter.Close()
		r.iter = nil
	}
}

// chain is the message of a chain at a place, and up to most in all if those
// after it lie beside it, as they do where one key has many.
func (r *lineReader) chain(l *lane, q *queue, f *facet, p place, most int) ([]entry, error) {
	if err := r.open(l, q); err != nil {
		return nil, err
	}
	var list []entry
	r.key = placeKey(r.key[:0], l.no, q.uid, f.tenant, p)
	for valid := r.iter.SeekGE(r.key); valid && string(r.iter.Key()) == string(r.key); valid = r.iter.Next() {
		e, err := linedAt(r.iter)
		if err != nil {
			return nil, err
		}
		if e.key != p.key {
			break
		}
		if list = append(list, e.entry); len(list) >= most {
			break
		}
		r.key = placeKey(r.key[:0], l.no, q.uid, f.tenant, place{key: p.key, pos: chainedAfter(e.seq, 0)})
	}
	if err := r.iter.Error(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errIndex("a line has fewer messages on disk than counted")
	}
	return list, nil
}

func (r *lineReader) open(l *lane, q *queue) error {
	if r.iter != nil {
		return nil
	}
	it, err := l.overlay.prefixed(queueKey(nil, kindChain, l.no, q.uid))
	r.iter = it
	return err
}

// linedAt decodes the message in a line that an iterator is at.
func linedAt(it *pebble.Iterator) (lined, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return lined{}, err
	}
	return decodeLined(it.Key(), value)
}

// readCut is the first that waits of a line's cuts.
func (l *lane) readCut(q *queue, f *facet, key, low uint64) (waiter, error) {
	prefix := lineOf(nil, l.no, q.uid, f.tenant, key)
	from := placeKey(nil, l.no, q.uid, f.tenant, place{key: key, pos: low, cut: true})
	it, err := l.overlay.reader().NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return waiter{}, err
	}
	defer it.Close()
	for valid := it.First(); valid; valid = it.Next() {
		e, err := linedAt(it)
		if err != nil {
			return waiter{}, err
		}
		if _, out := q.out[e.seq]; !out {
			return waiter{e.entry, place{key: key, pos: lastNumber(it.Key()), cut: true}}, nil
		}
	}
	if err := it.Error(); err != nil {
		return waiter{}, err
	}
	return waiter{}, errIndex("a line has fewer messages on disk than have cut in")
}
