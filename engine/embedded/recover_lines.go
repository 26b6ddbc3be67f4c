package embedded

import "github.com/cockroachdb/pebble/v2"

// loadChains rebuilds the lines of ordered queues: of each key the front and a
// count. Chains lie in their order, so the first that is met is the first.
func (l *lane) loadChains(db *pebble.DB) error {
	return l.loadLined(db, kindChain, (*lines).loadChained)
}

// loadCuts adds to the lines, by their positions, the messages that have cut in.
func (l *lane) loadCuts(db *pebble.DB) error { return l.loadLined(db, kindLine, (*lines).loadCut) }

// loadLined reads the messages of lines of one kind, and hands them on with
// whether they are in flight.
func (l *lane) loadLined(db *pebble.DB, kind byte, add func(s *lines, e *lined, out bool)) error {
	var f *facet
	var q *queue
	return scan(db, laneKey(nil, kind, l.no), func(key, value []byte) error {
		u, tenant, ok := splitLineKey(key)
		if !ok {
			return errIndex("the key of a message in a line is malformed")
		}
		if q == nil || q.uid != u {
			q, f = l.queues[u], nil
		}
		if q == nil {
			return nil // swept some day
		}
		if f == nil || f.tenant != string(tenant) {
			f = q.facet(string(tenant))
		}
		e, err := decodeLined(key, value)
		if err != nil {
			return err
		}
		q.ages.add(l.minute(e.seq))
		h, out := q.out[e.seq]
		out = out && l.resume(q, f, h, e, &e.place)
		if !out {
			q.arrive(f)
		}
		add(f.allLines(), &e, out)
		return nil
	})
}

// loadChained adds the next message of a line's chain.
func (s *lines) loadChained(e *lined, out bool) {
	n, there := s.keys[e.key]
	n.last = e.seq
	switch {
	case out:
		n.at = chainedAfter(e.seq, 0)
		s.keys[e.key] = n
		return
	case !there:
		n.at = e.pos
		s.show(e.key, n, e.entry)
	default:
		if n.blocked() && n.behind == 0 {
			n.at = e.pos
		}
		n.behind++
		s.keys[e.key] = n
	}
	s.waiting++
}

// loadCut adds the next of those that have cut into a line. What is in flight
// may come after others that have cut in before it.
func (s *lines) loadCut(e *lined, out bool) {
	n, there := s.keys[e.key]
	c := s.cuts[e.key]
	if c.low == 0 {
		c.low = e.pos
	}
	waits := there && !n.blocked()
	switch {
	case out || !there || waits && !n.cut: // what was the front so far, if anything, is behind
		if waits {
			s.free--
			n.behind++
			c.n += uint32(number(n.cut))
		}
		n.front, n.cut = 0, !out
	default:
		n.behind++
		c.n++
	}
	s.setCuts(e.key, c)
	s.keys[e.key] = n
	if out {
		return
	}
	s.waiting++
	if n.cut && n.blocked() {
		s.show(e.key, n, e.entry)
	}
}
