package embedded

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// noteConsumer makes a lease findable by who took it.
func (q *queue) noteConsumer(ls *lease) {
	if ls.consumer == "" {
		return
	}
	if q.consumers == nil {
		q.consumers = map[string]map[uint64]*lease{}
	}
	if q.consumers[ls.consumer] == nil {
		q.consumers[ls.consumer] = map[uint64]*lease{}
	}
	q.consumers[ls.consumer][ls.no] = ls
}

func (q *queue) dropConsumer(ls *lease) {
	if own := q.consumers[ls.consumer]; own != nil {
		delete(own, ls.no)
		if len(own) == 0 {
			delete(q.consumers, ls.consumer)
		}
	}
}

// Release ends leases of a consumer as if their deadline had come, the oldest first.
func (e *Engine) Release(ctx context.Context, no int, r millrace.Release) (int, error) {
	ended := 0
	err := e.onQueue(ctx, no, r.Queue, r.Now, func(l *lane, q *queue, g *group, now int64) error {
		w := settling{lane: l, queue: q, group: g, now: now}
		for _, ls := range q.leasesOf(r.Consumer) {
			n, _ := w.expireUnder(ls, r.Max-ended)
			if ended += n; ended >= r.Max {
				break
			}
		}
		w.end()
		return nil
	})
	return ended, err
}

// leasesOf is a consumer's leases, group by group in the order in which the
// groups were made. Leases with one token and deadline are one group.
func (q *queue) leasesOf(consumer string) []*lease {
	type group struct {
		token millrace.Token
		at    int64
	}
	own := q.consumers[consumer]
	made := map[group]uint64{}
	list := make([]*lease, 0, len(own))
	for _, no := range slices.Sorted(maps.Keys(own)) {
		ls := own[no]
		if g := (group{ls.token, ls.due.at}); made[g] == 0 {
			made[g] = no
		}
		list = append(list, ls)
	}
	slices.SortStableFunc(list, func(a, b *lease) int {
		return cmp.Compare(made[group{a.token, a.due.at}], made[group{b.token, b.due.at}])
	})
	return list
}
