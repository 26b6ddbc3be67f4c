package embedded

import "sync"

// bodyCacheSize is how many bytes of the newest bodies are kept in memory.
const bodyCacheSize = 64 << 20

// bodyOverhead is what a cached body costs beside its bytes.
const bodyOverhead = 100

// bodies is a bounded cache of the newest bodies of a lane.
type bodies struct {
	limit int64

	mu     sync.Mutex
	bySeq  map[uint64]body
	oldest []uint64 // in the order they came; some may be gone
	at     int
	bytes  int64
}

// add keeps bodies that were just published; each seq is new. What is not
// applied to the disk yet is kept past the limit.
func (c *bodies) add(seqs []uint64, list []body, applied uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySeq == nil {
		c.bySeq = make(map[uint64]body)
	}
	for i, seq := range seqs {
		c.bySeq[seq] = list[i]
		c.oldest = append(c.oldest, seq)
		c.bytes += cost(list[i])
	}
	for c.bytes > c.limit && c.at < len(c.oldest) && c.oldest[c.at] <= applied {
		c.remove(c.oldest[c.at])
		c.at++
	}
	c.compact()
}

// find copies what it knows of picks into their bodies, unless they have one.
func (c *bodies) find(picks []pick) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range picks {
		if !picks[i].found {
			picks[i].body, picks[i].found = c.bySeq[picks[i].seq]
		}
	}
}

// drop forgets bodies that nobody holds any more.
func (c *bodies) drop(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seq := range seqs {
		c.remove(seq)
	}
	c.compact()
}

func (c *bodies) remove(seq uint64) {
	if b, ok := c.bySeq[seq]; ok {
		c.bytes -= cost(b)
		delete(c.bySeq, seq)
	}
}

// compact drops from the list what is gone, before it outgrows what is there.
func (c *bodies) compact() {
	if len(c.oldest) < 1024 || len(c.oldest) < 2*len(c.bySeq) && c.at < len(c.oldest)/2 {
		return
	}
	kept := c.oldest[:0]
	for _, seq := range c.oldest[c.at:] {
		if _, ok := c.bySeq[seq]; ok {
			kept = append(kept, seq)
		}
	}
	c.oldest, c.at = kept, 0
	if len(c.bySeq) == 0 {
		c.bySeq, c.oldest = nil, nil
	}
}

func cost(b body) int64 { return int64(len(b.blob)) + bodyOverhead }
