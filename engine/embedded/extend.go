package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// Extend moves the deadline of each live item, under the same token.
func (e *Engine) Extend(ctx context.Context, no int, x millrace.Extend) (millrace.Extended, error) {
	var out millrace.Extended
	err := e.onQueue(ctx, no, x.Queue, x.Now, func(l *lane, q *queue, g *group, now int64) error {
		until := now + wholeMilli(x.For)
		out = millrace.Extended{Until: milli(until)}
		seen := make(map[uint64]bool, len(x.Items))
		byToken := map[millrace.Token][]uint64{}
		var tokens []millrace.Token
		for i, item := range x.Items {
			if !l.live(g, q, item, now) {
				out.Lost = append(out.Lost, i)
				continue
			}
			if q.out[item.Name].wish {
				out.Cancelled = append(out.Cancelled, i)
			}
			if seen[item.Name] {
				continue
			}
			seen[item.Name] = true
			if byToken[item.Token] == nil {
				tokens = append(tokens, item.Token)
			}
			byToken[item.Token] = append(byToken[item.Token], item.Name)
		}
		for _, token := range tokens {
			l.extend(g, q, token, until, byToken[token])
		}
		out.Due = l.agenda.until(now)
		return nil
	})
	return out, err
}

// extend moves leased messages into a lease of their own with another deadline.
func (l *lane) extend(g *group, q *queue, token millrace.Token, until int64, seqs []uint64) {
	before := q.out[seqs[0]].lease // one token, one call, one consumer
	ls := l.newLease(q, l.nextLease(), token, until, before.consumer, len(seqs))
	ls.started = before.started
	copy(ls.seqs, seqs)
	record := leaseRecord{deadline: until, token: token, consumer: ls.consumer, names: ls.seqs, started: ls.started}
	for _, seq := range seqs {
		h := q.out[seq]
		l.leaveLease(g, q, h.lease)
		h.lease = ls
		q.out[seq] = h
	}
	l.writeLease(g, q, ls, &record)
}

// live reports whether an item's lease has neither ended nor been settled.
func (l *lane) live(g *group, q *queue, item millrace.SettleItem, now int64) bool {
	h, ok := q.out[item.Name]
	if !ok || h.state != stateLeased || h.lease.token != item.Token {
		return false
	}
	if now >= h.lease.due.at {
		l.writeMeta(g) // what is lost stays lost: the clock must not go back behind the deadline
		return false
	}
	return true
}
