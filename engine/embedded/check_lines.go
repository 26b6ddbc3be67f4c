package embedded

// lineID names a line in a lane.
type lineID struct {
	queue  uid
	tenant string
	key    uint64
}

// diskLine is the messages of a line that wait, as the disk has them.
type diskLine struct {
	chain []lined
	cuts  int
}

// readLines reads the messages of all lines that wait.
func (c *checker) readLines() (map[lineID]*diskLine, error) {
	all := map[lineID]*diskLine{}
	for _, kind := range []byte{kindChain, kindLine} {
		err := scan(c.db, laneKey(nil, kind, c.lane.no), func(key, value []byte) error {
			u, tenant, _ := splitLineKey(key)
			e, err := decodeLined(key, value)
			q := c.fresh.queues[u]
			if q == nil {
				if !c.lane.removed[u] {
					c.add("message %d lies in the queue %s, which is neither known nor removed", e.seq, u)
				}
				return err
			}
			if _, out := q.out[e.seq]; out {
				return err
			}
			id := lineID{u, string(tenant), e.key}
			if all[id] == nil {
				all[id] = &diskLine{}
			}
			if e.cut {
				all[id].cuts++
			} else {
				all[id].chain = append(all[id].chain, e)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkAllLines compares what is kept of each line with the messages on disk.
func (c *checker) checkAllLines() error {
	all, err := c.readLines()
	if err != nil {
		return err
	}
	for _, q := range c.lane.queues {
		ahead := 0
		for _, f := range q.facets {
			if f.lines == nil {
				continue
			}
			for key, n := range f.lines.keys {
				disk := all[lineID{q.uid, f.tenant, key}]
				if disk == nil {
					disk = &diskLine{}
				}
				c.checkChain(q, f, key, n, disk)
				ahead += len(f.lines.ahead[key])
			}
			for key := range f.lines.ahead {
				if _, ok := f.lines.keys[key]; !ok {
					c.add("queue %s: tenant %s: messages are kept ahead of the line %x, which is none", q.uid, f.tenant, key)
				}
			}
		}
		if ahead != q.ahead {
			c.add("queue %s: %d messages are kept ahead, counted are %d", q.uid, ahead, q.ahead)
		}
	}
	return nil
}

// checkChain compares one line with its messages on disk: each is found from
// the one before, and what is kept ahead is what comes next.
func (c *checker) checkChain(q *queue, f *facet, key uint64, n line, disk *diskLine) {
	wrong := func(what string) {
		c.add("queue %s: tenant %s: line %x: %s: %+v, on disk %+v", q.uid, f.tenant, key, what, n, *disk)
	}
	chain, s := disk.chain, f.lines
	front := 0
	if !n.blocked() && !n.cut {
		front = 1
	}
	if len(chain) != s.chained(key, n)+front || disk.cuts != int(s.cuts[key].n)+int(number(n.cut)) {
		wrong("has other messages on disk")
		return
	}
	if len(chain) > 0 && (chain[0].pos != n.at || chain[len(chain)-1].seq != n.last) {
		wrong("begins or ends elsewhere")
	}
	for i, e := range s.ahead[key] {
		if front+i >= len(chain) || chain[front+i].entry != e {
			wrong("does not go on as it is kept ahead")
		}
	}
	for i := range chain {
		if i > 0 && chain[i].pos != chainedAfter(chain[i-1].seq, 0) {
			wrong("is broken")
		}
	}
}

// checkLines compares the lines of a facet: each key is ready with a front, or
// blocked by exactly one message that is leased or delayed.
func (c *checker) checkLines(q *queue, f, disk *facet) {
	if f.lines == nil || disk.lines == nil {
		if f.lines != disk.lines {
			c.add("queue %s: tenant %s has lines in memory or on disk only", q.uid, f.tenant)
		}
		return
	}
	a, b := f.lines, disk.lines
	if m, d := a.counts(), b.counts(); m != d {
		c.add("queue %s: tenant %s has %v lines, lines that are free, waiting messages; on disk %v", q.uid, f.tenant, m, d)
	}
	blocks, shown := q.blocksOf(f), a.shown()
	for key, n := range a.keys {
		if m := b.keys[key]; !n.same(m) {
			c.add("queue %s: tenant %s: line %x is %+v in memory and %+v on disk", q.uid, f.tenant, key, n, m)
		}
		by := blocks[key]
		if n.blocked() != (len(by) == 1) || len(by) > 1 || shown[key] == n.blocked() || n.lost(by) {
			c.add("queue %s: tenant %s: line %x is blocked by %d, %+v, shown %t", q.uid, f.tenant, key, len(by), n, shown[key])
		}
		if low, disk := a.cuts[key].low, b.cuts[key].low; n.cut && low != disk || low > disk && disk > 0 {
			c.add("queue %s: tenant %s: line %x has positions from %d on, on disk from %d", q.uid, f.tenant, key, low, disk)
		}
	}
}

func (s *lines) counts() [3]int64 { return [3]int64{int64(len(s.keys)), int64(s.free), s.waiting} }

// lost reports whether a message that joins the line would not be found from
// the last one of the chain, which blocks it.
func (n line) lost(by []blocking) bool {
	return len(by) == 1 && !by[0].place.cut && n.last == by[0].seq && n.at != chainedAfter(n.last, 0)
}

// same compares a line with what the disk has of it.
func (n line) same(disk line) bool {
	return n.behind == disk.behind && n.front == disk.front && (n.blocked() || n.entry() == disk.entry() && n.cut == disk.cut)
}

// blocking is a message in flight that blocks a line.
type blocking struct {
	seq   uint64
	place place
}

// blocksOf finds what is leased or delayed of each line.
func (q *queue) blocksOf(f *facet) map[uint64][]blocking {
	blocks := map[uint64][]blocking{}
	for seq, h := range q.out {
		if h.facet == f && h.place != nil {
			blocks[h.place.key] = append(blocks[h.place.key], blocking{seq, *h.place})
		}
	}
	return blocks
}

// shown is the lines whose front can be found.
func (s *lines) shown() map[uint64]bool {
	shown := map[uint64]bool{}
	for _, x := range s.fronts {
		shown[x.key] = shown[x.key] || s.valid(x)
	}
	return shown
}
