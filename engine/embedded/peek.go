package embedded

import (
	"cmp"
	"context"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// peekTenants is how many tenants of the ring are looked at.
const peekTenants = 1000

// look chooses messages of a queue in a lane and hands each to f with its body
// when all is durable. A message that is gone by then is left out.
func (e *Engine) look(ctx context.Context, no int, name string, choose func(*lane, *queue) ([]pick, error), f func(i int, m millrace.QueuedMessage)) error {
	l, err := e.enter(ctx, no)
	if err != nil {
		return err
	}
	defer e.leave()
	var picks []pick
	err = l.do(ctx, func(*group) error {
		q := l.queue(name)
		if q == nil {
			return millrace.Errorf(millrace.CodeNotFound, "the lane does not know this queue")
		}
		var err error
		if picks, err = choose(l, q); err != nil {
			return e.readFailed(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.findBodies(picks); err != nil {
		return e.readFailed(err)
	}
	for i := range picks {
		if p := &picks[i]; p.found {
			f(i, millrace.QueuedMessage{
				Name: p.seq, Seq: p.body.seqOf(p.seq), Prev: p.body.prev, RecordedAt: milli(p.body.recorded),
				Tenant: p.tenant, Attempts: p.attempt, Body: p.body.blob,
			})
		}
	}
	return nil
}

// Peek shows waiting messages in the order in which they would be served.
func (e *Engine) Peek(ctx context.Context, no int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
	var list []millrace.QueuedMessage
	limit := min(p.Limit, millrace.MaxLeaseCount)
	err := e.look(ctx, no, p.Queue, func(l *lane, q *queue) ([]pick, error) {
		if q.cancelled == 0 {
			return l.peek(q, p.Tenant, limit)
		}
		picks, err := l.peek(q, p.Tenant, millrace.MaxLeaseCount)
		if err != nil {
			return nil, err
		}
		return l.withoutCancelled(q, picks, limit)
	}, func(_ int, m millrace.QueuedMessage) { list = append(list, m) })
	return list, err
}

// peek is up to limit messages of a tenant, or of all.
func (l *lane) peek(q *queue, tenant string, limit int) ([]pick, error) {
	if tenant == "" {
		return l.peekRing(q, limit)
	}
	f := q.facets[tenant]
	if f == nil {
		return nil, nil
	}
	entries, err := l.peekFacet(q, f, limit)
	return picksOf(f, entries), err
}

// withoutCancelled is up to limit of the messages, without those that wait in vain.
func (l *lane) withoutCancelled(q *queue, picks []pick, limit int) ([]pick, error) {
	var kept []pick
	for i := range picks {
		if len(kept) == limit {
			break
		}
		value, err := l.overlay.get(queueSeqKey(nil, kindCancelled, l.no, q.uid, picks[i].seq))
		if err != nil {
			return nil, err
		}
		if value == nil {
			kept = append(kept, picks[i])
		}
	}
	return kept, nil
}

func picksOf(f *facet, entries []entry) []pick {
	picks := make([]pick, len(entries))
	for i, e := range entries {
		picks[i] = pick{tenant: f.tenant, seq: e.seq, attempt: e.attempts()}
	}
	return picks
}

// peekRing is the first messages of the ring's tenants, by turns of one.
func (l *lane) peekRing(q *queue, limit int) ([]pick, error) {
	tenants := q.ring.all()
	tenants = tenants[:min(len(tenants), peekTenants)]
	known, asked := make([][]entry, len(tenants)), make([]int, len(tenants))
	var picks []pick
	for round := 0; len(tenants) > 0 && len(picks) < limit; round++ {
		before := len(picks)
		for i, f := range tenants {
			if len(picks) == limit {
				break
			}
			if len(known[i]) <= round && len(known[i]) == asked[i] {
				var err error
				asked[i] = 2*round + 1
				if known[i], err = l.peekFacet(q, f, asked[i]); err != nil {
					return nil, err
				}
			}
			if round < len(known[i]) {
				picks = append(picks, picksOf(f, known[i][round:round+1])...)
			}
		}
		if len(picks) == before {
			break
		}
	}
	return picks, nil
}

// peekFacet is up to limit leasable messages of a facet, by name.
func (l *lane) peekFacet(q *queue, f *facet, limit int) ([]entry, error) {
	list := slices.Clone(f.head.all())
	if f.gap > 0 && len(list) < limit {
		more, err := l.peekGap(q, f, limit-len(list))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	if f.gap == 0 || int64(len(list)) >= int64(f.head.len())+f.gap {
		list = append(list, f.tail.all()...)
	}
	list = append(list[:min(len(list), limit)], f.back...)
	if f.lines != nil {
		list = append(list, f.lines.lowest(limit)...)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return list[:min(len(list), limit)], nil
}

// peekGap reads what lies behind a facet's head, on disk.
func (l *lane) peekGap(q *queue, f *facet, limit int) ([]entry, error) {
	prefix := facetKey(nil, l.no, q.uid, f.tenant)
	from := messageKey(nil, l.no, q.uid, f.tenant, f.next+1)
	it, err := l.engine.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	var list []entry
	want := int(min(f.gap, int64(limit)))
	for valid := it.First(); valid && len(list) < want; valid = it.Next() {
		seq := lastNumber(it.Key())
		if _, out := q.out[seq]; out {
			continue
		}
		e, err := entryAt(it, seq)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, it.Error()
}

// lowest is up to limit fronts, by name: a walk down the heap.
func (s *lines) lowest(limit int) []entry {
	var list []entry
	seen := map[uint64]bool{}
	var open heap[entry] // of places in the heap: the name, and in size where
	look := func(i int) {
		if i < len(s.fronts) {
			open.push(entry{seq: s.fronts[i].seq, size: uint32(i)})
		}
	}
	look(0)
	for len(open) > 0 && len(list) < limit {
		i := int(open.pop().size)
		if x := s.fronts[i]; s.valid(x) && !seen[x.key] {
			seen[x.key] = true
			list = append(list, s.keys[x.key].entry())
		}
		look(2*i + 1)
		look(2*i + 2)
	}
	return list
}
