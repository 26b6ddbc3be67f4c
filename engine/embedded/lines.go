package embedded

// lines are the keys of one tenant in an ordered queue. Each has a line of
// messages: the front, unless the line is blocked; then those that have cut in;
// then the chain, in the order they came. The fronts are in memory, and of
// short chains the rest too; the others lie on disk, counted, and are read when
// the line advances. A message without a key is in no line but in the facet itself.
type lines struct {
	keys    map[uint64]line
	fronts  heap[front] // of lines that are not blocked; some may be stale
	free    int         // lines that are not blocked
	waiting int64
	ahead   map[uint64][]entry // of some lines, what comes next in the chain
	cuts    map[uint64]cuts    // of the lines that anything has ever cut into
}

const (
	aheadLeast, aheadEach = 4, 32   // messages that are kept ahead of one line
	aheadMost             = 1 << 18 // messages that are kept ahead in one queue
	aheadLines            = 16      // lines of a tenant up to which more than the next message is read
)

// line is one key with anything waiting, leased or delayed.
type line struct {
	front      uint64 // name of the front; 0 while blocked: one of its messages is leased or delayed
	at         uint64 // where the first that waits in the chain lies, the front if it is of the chain
	last       uint64 // name of the last that joined the chain; 0 if none has
	behind     uint32 // how many wait behind the front, or behind what blocks
	mark, size uint32 // of the front
	cut        bool   // the front has cut in
}

func (n line) blocked() bool { return n.front == 0 }

func (n line) entry() entry { return entry{seq: n.front, size: n.size, mark: n.mark} }

// cuts are the messages of a line that have cut in.
type cuts struct {
	low uint64 // the lowest position that was given; that of the front if it has cut in
	n   uint32 // how many wait, but for the front
}

// before is the position before all others; the first one is the message's own name.
func (c cuts) before(name uint64) uint64 {
	if c.low == 0 {
		return name
	}
	return c.low - 1
}

// waiter is a message that waits in a line.
type waiter struct {
	entry
	place
}

// front is the first message of a line.
type front struct{ seq, key uint64 }

func (x front) name() uint64 { return x.seq }

func (f *facet) allLines() *lines {
	if f.lines == nil {
		f.lines = &lines{keys: map[uint64]line{}}
	}
	return f.lines
}

// join appends a new message to the end of its key's line. It returns its place
// and whether the index holds it, so that nobody needs to read it back.
func (s *lines) join(q *queue, key uint64, e entry) (at place, held bool) {
	n, there := s.keys[key]
	s.waiting++
	at = place{key: key, pos: chainedAfter(n.last, e.seq)}
	n.last = e.seq
	if !there {
		n.at = at.pos
		s.show(key, n, e)
		return at, true
	}
	behind := s.chained(key, n)
	if behind == 0 && (n.blocked() || n.cut) {
		n.at = at.pos
	}
	held = s.foresee(q, key, behind, e)
	n.behind++
	s.keys[key] = n
	return at, held
}

// chained is how many wait in a line's chain behind the front or what blocks.
func (s *lines) chained(key uint64, n line) int {
	if s.cuts == nil {
		return int(n.behind)
	}
	return int(n.behind - s.cuts[key].n)
}

// foresee keeps the next message of a chain of which all are kept, if there is room.
func (s *lines) foresee(q *queue, key uint64, behind int, e entry) bool {
	if behind >= s.horizon() || q.ahead >= aheadMost {
		return false
	}
	list := s.ahead[key]
	if len(list) != behind {
		return false
	}
	if s.ahead == nil {
		s.ahead = map[uint64][]entry{}
	}
	q.ahead++
	s.ahead[key] = append(list, e)
	return true
}

// horizon is how much of a chain is kept: the less the more lines there are.
func (s *lines) horizon() int { return min(aheadEach, max(aheadLeast, aheadMost/len(s.keys))) }

// besides is how many messages are read of a line that is on disk. Those of few
// lines lie beside each other; among many they do not, and an iterator that only
// seeks onward is cheaper.
func (s *lines) besides(n line) int {
	if len(s.keys) > aheadLines {
		return 1
	}
	return min(int(n.behind), s.horizon()+1)
}

// next takes what comes next in a chain, if it is kept.
func (s *lines) next(q *queue, key uint64) (e entry, ok bool) {
	list := s.ahead[key]
	if len(list) == 0 {
		return entry{}, false
	}
	q.ahead--
	if len(list) == 1 {
		delete(s.ahead, key)
	} else {
		s.ahead[key] = list[1:]
	}
	return list[0], true
}

// cutIn puts a message before all others of its line, after what blocks it, and
// returns its place.
func (s *lines) cutIn(q *queue, key uint64, e entry) place {
	n, there := s.keys[key]
	c := s.cuts[key]
	c.low = c.before(e.seq)
	s.waiting++
	switch {
	case !there:
		s.show(key, line{cut: true}, e)
	case n.blocked():
		n.behind++
		c.n++
		s.keys[key] = n
	default:
		c.n += uint32(number(n.cut))
		s.displace(q, key, n)
		n.behind++
		n.cut = true
		s.show(key, n, e)
	}
	s.setCuts(key, c)
	return place{key: key, pos: c.low, cut: true}
}

func (s *lines) setCuts(key uint64, c cuts) {
	if s.cuts == nil {
		s.cuts = map[uint64]cuts{}
	}
	s.cuts[key] = c
}

// displace makes a front one of those behind. One of the chain stays in memory,
// because the disk may not have it yet.
func (s *lines) displace(q *queue, key uint64, n line) {
	s.free--
	if n.cut {
		return
	}
	if s.ahead == nil {
		s.ahead = map[uint64][]entry{}
	}
	q.ahead++
	s.ahead[key] = append([]entry{n.entry()}, s.ahead[key]...)
}

// comeBack puts what blocked a line to its front again. It returns another
// place if others have cut in meanwhile, or if the chain does not go on from it
// any more, because a purge has dropped what came next.
func (s *lines) comeBack(p place, e entry) place {
	n, c := s.keys[p.key], s.cuts[p.key]
	s.waiting++
	switch {
	case p.cut && p.pos == c.low:
	case !p.cut && c.n == 0 && n.at == chainedAfter(e.seq, 0):
		n.at = p.pos
	default:
		c.low = c.before(e.seq)
		s.setCuts(p.key, c)
		p = place{key: p.key, pos: c.low, cut: true}
	}
	n.cut = p.cut
	s.show(p.key, n, e)
	return p
}

// show makes a message the front of a line that has none.
func (s *lines) show(key uint64, n line, e entry) {
	n.front, n.mark, n.size = e.seq, e.mark, e.size
	s.keys[key] = n
	s.free++
	if len(s.fronts) > 2*s.free+64 {
		s.dropStale()
	}
	s.fronts.push(front{e.seq, key})
}

// first is the key of the front with the lowest name; there must be one.
func (s *lines) first() (key uint64, n line) {
	for {
		x := s.fronts[0]
		if n, ok := s.keys[x.key]; ok && n.front == x.seq {
			return x.key, n
		}
		s.fronts.pop()
	}
}

func (s *lines) valid(x front) bool {
	n, ok := s.keys[x.key]
	return ok && n.front == x.seq
}

// take gives the first front out, which blocks its line.
func (s *lines) take() (entry, *place) {
	key, n := s.first()
	s.fronts.pop()
	p := s.block(key, n)
	return n.entry(), &p
}

// block takes the front away and returns where it lies.
func (s *lines) block(key uint64, n line) place {
	p := place{key: key, pos: n.at, cut: n.cut}
	if n.cut {
		p.pos = s.cuts[key].low
	} else {
		n.at = chainedAfter(n.front, 0)
	}
	n.front, n.cut = 0, false
	s.keys[key] = n
	s.free--
	s.waiting--
	return p
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

// advance goes on to the next message of a line without a front, when what
// blocked it is gone for good.
func (l *lane) advance(q *queue, f *facet, key uint64, r *lineReader) {
	s := f.lines
	n := s.keys[key]
	if n.behind == 0 {
		s.forget(f, key)
		return
	}
	x, err := l.nextOf(q, f, key, n, r)
	if err != nil {
		l.engine.fail(err)
		return
	}
	n.behind--
	n.cut = x.cut
	if x.cut {
		s.cuts[key] = cuts{low: x.pos, n: s.cuts[key].n}
	}
	s.show(key, n, x.entry)
}

// forget drops a line that has nothing left.
func (s *lines) forget(f *facet, key uint64) {
	delete(s.keys, key)
	if s.cuts != nil {
		delete(s.cuts, key)
	}
	if len(s.keys) == 0 {
		f.lines = nil
	}
}

// nextOf takes the next message of a line out of those behind: of the cuts if
// there are any, else of the chain.
func (l *lane) nextOf(q *queue, f *facet, key uint64, n line, r *lineReader) (waiter, error) {
	s := f.lines
	if c := s.cuts[key]; c.n > 0 {
		x, err := l.readCut(q, f, key, c.low)
		c.n--
		s.cuts[key] = c
		return x, err
	}
	x := waiter{place: place{key: key, pos: n.at}}
	var known bool
	if x.entry, known = s.next(q, key); known {
		return x, nil
	}
	list, err := r.chain(l, q, f, x.place, s.besides(n))
	if err != nil {
		return x, err
	}
	x.entry = list[0]
	for i, e := range list[1:] {
		s.foresee(q, key, i, e)
	}
	return x, nil
}
