package embedded

import (
	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// lines are the keys of one tenant in an ordered queue. Each has a line of
// messages. Of a line that is not blocked the front is in memory; the others
// lie on disk, counted, and are read when the line advances. A message without
// a key is in no line but in the facet itself.
type lines struct {
	keys    map[uint64]line
	fronts  heap[front] // of lines that are not blocked; some may be stale
	free    int         // lines that are not blocked
	waiting int64
	ahead   map[uint64][]waiter // of some lines, what comes next behind the front or what blocks
}

const (
	aheadLeast, aheadEach = 4, 32   // messages that are read ahead of one line
	aheadMost             = 1 << 18 // messages that are read ahead in one queue
)

// waiter is a message that waits in a line.
type waiter struct {
	entry
	place
}

// line is one key with anything waiting, leased or delayed.
type line struct {
	front  uint64 // name of the front; 0 while blocked: one of its messages is leased or delayed
	low    uint64 // the lowest position of all that is in the line or leased or delayed
	behind uint32 // how many wait behind the front, or behind what blocks
	mark   uint32 // of the front
}

func (n line) blocked() bool { return n.front == 0 }

// front is the first message of a line.
type front struct {
	entry
	key uint64
}

// hashKey is the key of a line, never 0.
func hashKey(key string) uint64 { return max(1, xxhash.Sum64String(key)) }

func (f *facet) allLines() *lines {
	if f.lines == nil {
		f.lines = &lines{keys: map[uint64]line{}}
	}
	return f.lines
}

// join appends a new message to the end of its key's line and returns its place.
func (s *lines) join(q *queue, key uint64, e entry) place {
	n, there := s.keys[key]
	s.waiting++
	if there {
		if known := len(s.ahead[key]); known == int(n.behind) && known < s.horizon() {
			s.foresee(q, key, waiter{e, place{key, e.seq}})
		}
		n.behind++
		s.keys[key] = n
	} else {
		s.show(key, line{low: e.seq}, e)
	}
	return place{key, e.seq}
}

// horizon is how far ahead a line is read: the less the more lines there are.
func (s *lines) horizon() int { return min(aheadEach, max(aheadLeast, aheadMost/len(s.keys))) }

// foresee keeps what comes next in a line, if there is room.
func (s *lines) foresee(q *queue, key uint64, list ...waiter) {
	if q.ahead+len(list) > aheadMost {
		return
	}
	if s.ahead == nil {
		s.ahead = map[uint64][]waiter{}
	}
	q.ahead += len(list)
	s.ahead[key] = append(s.ahead[key], list...)
}

// next takes what comes next in a line, if it is known.
func (s *lines) next(q *queue, key uint64) (w waiter, ok bool) {
	list := s.ahead[key]
	if len(list) == 0 {
		return waiter{}, false
	}
	q.ahead--
	if len(list) == 1 {
		delete(s.ahead, key)
	} else {
		s.ahead[key] = list[1:]
	}
	return list[0], true
}

// unforesee forgets what comes next in a line, because something else does.
func (s *lines) unforesee(q *queue, key uint64) {
	q.ahead -= len(s.ahead[key])
	delete(s.ahead, key)
}

// cutIn puts a message before all others of its line, after what blocks it, and
// returns its place.
func (s *lines) cutIn(q *queue, key uint64, e entry) place {
	s.unforesee(q, key)
	n, there := s.keys[key]
	s.waiting++
	if !there {
		s.show(key, line{low: e.seq}, e)
		return place{key, e.seq}
	}
	n.low--
	n.behind++
	if n.blocked() {
		s.keys[key] = n
	} else {
		s.free--
		s.show(key, n, e)
	}
	return place{key, n.low}
}

// comeBack puts what blocked a line to its front again. It returns another
// place if others have cut in meanwhile.
func (s *lines) comeBack(p place, e entry) place {
	n := s.keys[p.key]
	if p.pos > n.low {
		n.low--
		p.pos = n.low
	}
	s.waiting++
	s.show(p.key, n, e)
	return p
}

// show makes a message the front of a line that is not blocked.
func (s *lines) show(key uint64, n line, e entry) {
	n.front, n.mark = e.seq, e.mark
	s.keys[key] = n
	s.free++
	if len(s.fronts) > 2*s.free+64 {
		s.dropStale()
	}
	s.fronts.push(front{e, key})
}

// first is the front with the lowest name; there must be one.
func (s *lines) first() front {
	for !s.valid(s.fronts[0]) {
		s.fronts.pop()
	}
	return s.fronts[0]
}

func (s *lines) valid(x front) bool {
	n, ok := s.keys[x.key]
	return ok && n.front == x.seq && n.mark == x.mark
}

// take gives the first front out, which blocks its line.
func (s *lines) take() (entry, *place) {
	x := s.first()
	s.fronts.pop()
	n := s.keys[x.key]
	n.front = 0
	s.keys[x.key] = n
	s.free--
	s.waiting--
	return x.entry, &place{x.key, n.low}
}

// dropStale forgets fronts that are none any more.
func (s *lines) dropStale() {
	seen := make(map[uint64]bool, s.free)
	var kept heap[front]
	for _, x := range s.fronts {
		if s.valid(x) && !seen[x.key] {
			seen[x.key] = true
			kept.push(x)
		}
	}
	s.fronts = kept
}

// advance goes on to the next message of a line whose front, or what blocked
// it, is gone for good.
func (l *lane) advance(q *queue, f *facet, p place, next *lineReader) {
	s := f.lines
	n := s.keys[p.key]
	if n.behind == 0 {
		delete(s.keys, p.key)
		if len(s.keys) == 0 {
			f.lines = nil
		}
		return
	}
	x, known := s.next(q, p.key)
	if !known {
		list, err := next.after(l, q, f, p, n)
		if err != nil {
			l.engine.fail(err)
			return
		}
		x = list[0]
		s.foresee(q, p.key, list[1:]...)
	}
	n.low = x.pos
	n.behind--
	s.show(p.key, n, x.entry)
}

// lineReader reads what waits behind the fronts of lines. It sees what was
// written before its first use: a step reads no line twice.
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

// after is the first messages in a line but for the one at p, which is gone.
// What was erased before is not looked at again: it lies before p, unless
// others have cut in.
func (r *lineReader) after(l *lane, q *queue, f *facet, p place, n line) ([]waiter, error) {
	if r.iter == nil {
		it, err := l.overlay.prefixed(queueKey(nil, kindLine, l.no, q.uid))
		if err != nil {
			return nil, err
		}
		r.iter = it
	}
	r.key = lineKey(r.key[:0], l.no, q.uid, f.tenant, place{p.key, min(n.low, p.pos)})
	list := make([]waiter, 0, min(int(n.behind), f.lines.horizon()+1))
	it, prefix := r.iter, len(r.key)-8
	for valid := it.SeekGE(r.key); valid && len(list) < cap(list); valid = it.Next() {
		key := it.Key()
		if len(key) != prefix+8 || string(key[:prefix]) != string(r.key[:prefix]) {
			break
		}
		if lastNumber(key) == p.pos {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		e, err := decodeLined(value)
		if err != nil {
			return nil, err
		}
		list = append(list, waiter{e.entry, place{p.key, lastNumber(key)}})
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errIndex("a line has fewer messages on disk than counted")
	}
	return list, nil
}
