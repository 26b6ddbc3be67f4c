package embedded

// recentLen is how many entries one half of the recent memories of all lanes has.
const recentLen = 16 << 10

// recent is a bounded memory of values that were just written or read: it holds
// at least all that are not applied to the disk yet. Entries are dropped by
// halves; dropped counts how often, so that whoever looked at the disk without
// the lock can tell whether it may have missed something.
type recent[K comparable, V any] struct {
	limit            int // of one half
	young, old       map[K]V
	youngEnd, oldEnd uint64 // the last group that wrote into each
	dropped          uint64
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.young[k]
	if !ok {
		v, ok = r.old[k]
	}
	return v, ok
}

// put remembers a value that the given group writes.
func (r *recent[K, V]) put(k K, v V, group, applied uint64) {
	if len(r.young) >= r.limit && r.oldEnd <= applied {
		if len(r.old) > 0 {
			r.dropped++
		}
		clear(r.old)
		r.young, r.old = r.old, r.young
		r.oldEnd = r.youngEnd
	}
	if r.young == nil {
		r.young = make(map[K]V)
	}
	r.young[k] = v
	r.youngEnd = group
}
