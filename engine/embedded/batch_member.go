package embedded

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// fresh is the newest members of a batch: all there are, or those since the
// store was opened.
type fresh struct {
	entries []entry
	written int    // how many of them are
	group   uint64 // the last one that wrote some
}

// recent is the members that memory holds.
func (b *batch) recent() []entry {
	if b.fresh == nil {
		return nil
	}
	return b.fresh.entries
}

// writeBatch writes a batch's header and the members that came since it was
// written last, or erases what is left of one that is gone.
func (l *lane) writeBatch(g *group, b *batch) {
	if b.state == batchGone {
		l.eraseBatch(g, b)
		return
	}
	if f := b.fresh; f != nil && f.written < len(f.entries) {
		b.chunks++
		g.key = memberKey(g.key[:0], l.no, b.sub().uid, b.name(), b.chunks)
		g.val = appendMembers(g.val[:0], b.name(), f.entries[f.written:])
		g.set()
		f.written, f.group = len(f.entries), g.no
	}
	g.key = queueSeqKey(g.key[:0], kindBatch, l.no, b.sub().uid, b.name())
	g.val = batchRecord{b.batchHeader, b.state, b.due.at, b.sending}.append(g.val[:0])
	g.set()
}

func (l *lane) eraseBatch(g *group, b *batch) {
	if b.chunks == 0 {
		return // it came and went within the group
	}
	g.key = queueSeqKey(g.key[:0], kindBatch, l.no, b.sub().uid, b.name())
	g.del()
	for chunk := int32(1); chunk <= b.chunks; chunk++ {
		g.key = memberKey(g.key[:0], l.no, b.sub().uid, b.name(), chunk)
		g.del()
	}
}

// manifest says where the members of a batch are. It stays true without the
// lock: members are only appended.
type manifest struct {
	uid    uid
	name   uint64
	count  int
	onDisk int32
	recent []entry
}

func (b *batch) manifest() manifest {
	return manifest{uid: b.sub().uid, name: b.name(), count: int(b.count), onDisk: b.onDisk, recent: b.recent()}
}

// members are the members of a batch, in the order they were appended. What
// lies on disk is durable already.
func (l *lane) members(m manifest) ([]entry, error) {
	if m.onDisk == 0 {
		return m.recent, nil
	}
	it, err := l.engine.db.NewIter(&pebble.IterOptions{
		LowerBound: memberKey(nil, l.no, m.uid, m.name, 0), UpperBound: memberKey(nil, l.no, m.uid, m.name, m.onDisk+1),
	})
	if err != nil {
		return nil, err
	}
	var list []entry
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			list, err = decodeMembers(list, m.name, value)
		}
		if err != nil {
			_ = it.Close()
			return nil, err
		}
	}
	return append(list, m.recent...), it.Close()
}

// holdersOf is how many sinks hold each of the bodies of a batch. What memory
// does not know is read in one go, in the order in which it lies on disk.
func (l *lane) holdersOf(members []entry) ([]uint32, error) {
	holders := make([]uint32, len(members))
	var unknown []int
	for i, e := range members {
		holders[i] = 1
		if !e.shared() {
			continue
		}
		if n, ok := l.holders.get(e.seq); ok {
			holders[i] = n
		} else {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return holders, nil
	}
	it, err := l.engine.db.NewIter(&pebble.IterOptions{
		LowerBound: seqKey(nil, kindHolders, l.no, members[0].seq),
		UpperBound: seqKey(nil, kindHolders, l.no, members[len(members)-1].seq+1),
	})
	if err != nil {
		return nil, err
	}
	var key []byte
	for _, i := range unknown {
		key = seqKey(key[:0], kindHolders, l.no, members[i].seq)
		if it.SeekGE(key) && lastNumber(it.Key()) == members[i].seq {
			n, _ := binary.Uvarint(it.Value())
			holders[i] = uint32(n)
		}
	}
	return holders, it.Close()
}

// keptLen is how many members of batches that collect no more are kept in
// memory, of all lanes.
const keptLen = 128 << 10

// kept is the batches whose members are kept in memory, the newest: most are
// sent while they are. Those of current batches are kept beside.
type kept struct {
	limit   int
	list    []*batch // in the order they came; some may be forgotten
	live    int      // of the list
	members int
}

func (k *kept) add(b *batch) {
	if b.kept || b.fresh == nil {
		return
	}
	b.kept = true
	k.list = append(k.list, b)
	k.live++
	k.members += len(b.fresh.entries)
}

// forget lets go of a batch's members.
func (k *kept) forget(b *batch) {
	if b.kept {
		b.kept = false
		k.live--
		k.members -= len(b.fresh.entries)
	}
	b.fresh, b.onDisk = nil, b.chunks
}

// trim forgets the oldest that are too many, if the disk has them.
func (k *kept) trim(applied uint64) {
	for len(k.list) > 0 {
		b := k.list[0]
		if b.kept && (k.members <= k.limit || b.fresh.written < len(b.fresh.entries) || b.fresh.group > applied) {
			break
		}
		if b.kept {
			k.forget(b)
		}
		k.list[0] = nil
		k.list = k.list[1:]
	}
	if len(k.list) > 1024 && len(k.list) > 2*k.live {
		k.list = slices.DeleteFunc(k.list, func(b *batch) bool { return !b.kept })
	}
}
