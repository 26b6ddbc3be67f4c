package embedded

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// keyWindow is how long a generation of keys' last seqs lasts.
const keyWindow = 30 * 24 * time.Hour

// remembered is a value and the generation it was written in.
type remembered[V any] struct {
	val V
	gen uint32
}

// recalled is what the disk knows of a commit's ids and keys.
type recalled struct {
	digests, lasts uint64 // what the recent memories had dropped when the disk was read
	events         []recalledEvent
}

type recalledEvent struct {
	name      string // tenant, zero byte, key
	digest    remembered[stamp]
	last      remembered[uint64]
	hasDigest bool
	hasLast   bool
	absent    bool // the filters know that the id is new
	skip      bool // the recent memories know it, or the filters
}

// recall looks ids and keys up on disk, without the lane's lock but for a
// moment at the start. What changes meanwhile is in the recent memories.
func (l *lane) recall(c *millrace.Commit) (recalled, error) {
	var r recalled
	if !needsMemory(c) {
		return r, nil
	}
	r.events = make([]recalledEvent, len(c.Events))
	gens := l.peekRecent(&r, c)
	return r, l.readAll(&r, c, gens)
}

// readAll looks up what the recent memories do not know.
func (l *lane) readAll(r *recalled, c *millrace.Commit, now gens) error {
	reader := memoryReader{lane: l, now: now}
	defer reader.close()
	for i := range c.Events {
		if r.events[i].skip {
			continue
		}
		if err := reader.read(&r.events[i], &c.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

func needsMemory(c *millrace.Commit) bool {
	for i := range c.Events {
		if c.Events[i].Remembered || c.Events[i].Key != "" {
			return true
		}
	}
	return false
}

// gens are the generations that are being written.
type gens struct{ digests, lasts uint32 }

func (l *lane) peekRecent(r *recalled, c *millrace.Commit) gens {
	for i := range c.Events {
		if ev := &c.Events[i]; ev.Key != "" {
			r.events[i].name = ev.Tenant + "\x00" + ev.Key
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.digests, r.lasts = l.digests.dropped, l.lasts.dropped
	for i := range c.Events {
		ev, k := &c.Events[i], &r.events[i]
		known := true
		if ev.Remembered {
			_, known = l.digests.get(ev.Digest)
			k.absent = !known && l.filters.absent(l.meta.digests.no, ev.Digest)
			known = known || k.absent
		}
		if known && ev.Key != "" {
			_, known = l.lasts.get(k.name)
		}
		k.skip = known
	}
	return gens{l.meta.digests.no, l.meta.lasts.no}
}

// recheck repeats, under the lock, what a recent memory may have dropped since
// the disk was read.
func (l *lane) recheck(r *recalled, c *millrace.Commit) error {
	if r.events == nil || r.digests == l.digests.dropped && r.lasts == l.lasts.dropped {
		return nil
	}
	for i := range r.events {
		r.events[i].skip, r.events[i].absent = false, false
	}
	return l.readAll(r, c, gens{l.meta.digests.no, l.meta.lasts.no})
}

// memoryReader looks ids and keys up on disk. It uses one iterator for all,
// because a Get does not ask the filters of the lowest level, and most ids are new.
type memoryReader struct {
	lane *lane
	now  gens
	iter *pebble.Iterator
	key  []byte
}

func (m *memoryReader) close() {
	if m.iter != nil {
		_ = m.iter.Close()
	}
}

func (m *memoryReader) read(k *recalledEvent, ev *millrace.CommitEvent) (err error) {
	if ev.Remembered && !k.absent {
		k.digest, k.hasDigest, err = recallOne(m, m.now.digests, decodeStamp, func(b []byte, gen uint32) []byte {
			return digestKey(b, m.lane.no, gen, ev.Digest)
		})
		if err != nil {
			return err
		}
	}
	if ev.Key != "" {
		k.last, k.hasLast, err = recallOne(m, m.now.lasts, decodeUint, func(b []byte, gen uint32) []byte {
			return lastKey(b, m.lane.no, gen, k.name)
		})
	}
	return err
}

// find returns the value of a key, nil if it is not there.
func (m *memoryReader) find() ([]byte, error) {
	if m.iter == nil {
		it, err := m.lane.engine.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			return nil, err
		}
		m.iter = it
	}
	if !m.iter.SeekPrefixGE(m.key) {
		return nil, m.iter.Error()
	}
	return m.iter.ValueAndErr()
}

func decodeUint(b []byte) (uint64, error) {
	r := reader{rest: b}
	return r.uvarint(), r.err("a number")
}

// recallOne looks one name up in the current generation, then in the one before.
func recallOne[V any](m *memoryReader, now uint32, decode func([]byte) (V, error), key func([]byte, uint32) []byte) (r remembered[V], ok bool, err error) {
	for gen := now; gen+1 >= now && gen > 0; gen-- {
		m.key = key(m.key[:0], gen)
		value, err := m.find()
		if err != nil {
			return r, false, err
		}
		if value != nil {
			r.gen = gen
			r.val, err = decode(value)
			return r, err == nil, err
		}
	}
	return r, false, nil
}

// rotate begins a new generation when the current one is over, and drops
// whole what is older than the one before.
func (l *lane) rotate(g *group, gen *generation, kind byte, now, window int64) {
	next := gen.next(now, window)
	if next == *gen {
		return
	}
	*gen = next
	if gen.no > 1 {
		g.delRange(generationKey(nil, kind, l.no, 0), generationKey(nil, kind, l.no, gen.no-1))
	}
	if kind == kindDigest {
		l.filters.begin(gen.no, filterBytes/l.engine.identity.Lanes)
	}
}

// next is the generation that is written at now.
func (gen generation) next(now, window int64) generation {
	switch {
	case gen.no > 0 && now < gen.until:
		return gen
	case gen.no > 0 && now >= gen.until+window:
		gen.no++ // nothing of the last one is young enough either
	}
	return generation{no: gen.no + 1, until: now + window}
}

// heldBy is how many queues hold a shared body.
func (l *lane) heldBy(seq uint64) (uint32, error) {
	if n, ok := l.holders.get(seq); ok {
		return n, nil
	}
	value, closer, err := l.engine.db.Get(seqKey(nil, kindHolders, l.no, seq))
	if errors.Is(err, pebble.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	n, _ := binary.Uvarint(value)
	return uint32(n), nil
}
