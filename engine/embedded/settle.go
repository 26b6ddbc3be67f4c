package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// Settle ends the leases of items: each whose lease is live.
func (e *Engine) Settle(ctx context.Context, no int, s millrace.Settle) (millrace.Settled, error) {
	var out millrace.Settled
	if s.Verb != millrace.Ack && s.Verb != millrace.Retry && s.Verb != millrace.Bury {
		return out, millrace.Errorf(millrace.CodeInvalid, "a settlement must be an ack, a retry or a bury")
	}
	err := e.onQueue(ctx, no, s.Queue, s.Now, func(l *lane, q *queue, g *group, now int64) error {
		w := settling{lane: l, queue: q, group: g, now: now}
		for i, item := range s.Items {
			if !l.live(g, q, item, now) {
				out.Lost = append(out.Lost, i)
				continue
			}
			switch s.Verb {
			case millrace.Ack:
				w.ack(item.Seq)
			case millrace.Retry:
				w.retry(item.Seq, item)
			case millrace.Bury:
				w.bury(item.Seq, deadBuried, item.Error)
			}
		}
		w.end()
		out.Dead = w.dead
		out.Due = l.agenda.until(now)
		return nil
	})
	return out, err
}

// settling is a step that ends leases.
type settling struct {
	lane  *lane
	queue *queue
	group *group
	now   int64
	freed []uint64 // bodies that nobody holds any more
	dead  int      // messages whose attempts were spent
}

// end finishes the step outside the index.
func (w *settling) end() { w.lane.cache.drop(w.freed) }

// unlease takes a message out of its lease.
func (w *settling) unlease(seq uint64) held {
	h := w.queue.out[seq]
	w.lane.leaveLease(w.group, w.queue, h.lease)
	w.queue.leased--
	h.lease = nil
	return h
}

func (w *settling) ack(seq uint64) {
	h := w.unlease(seq)
	w.erase(seq, h)
	w.release(h.entry(seq))
	w.queue.acked++
	w.lane.change(w.queue)
}

// erase removes a message's record, and the message from its facet.
func (w *settling) erase(seq uint64, h held) {
	q, g, l := w.queue, w.group, w.lane
	g.key = messageKey(g.key[:0], l.no, q.uid, h.facet.tenant, seq)
	g.del()
	if seq > h.facet.next {
		// A refill may come by before the disk knows.
		q.out[seq] = held{state: stateGone}
		g.gone = append(g.gone, goneFrom{q, seq})
	} else {
		delete(q.out, seq)
	}
	q.ages.remove(l.minute(seq))
	h.facet.held--
	q.forget(h.facet)
}

// release frees a message's body, or its share in it.
func (w *settling) release(e entry) {
	w.freed = w.lane.release(w.group, e, w.freed)
}

// release frees a message's share in its body, and appends the seq to freed if
// it was the last.
func (l *lane) release(g *group, e entry, freed []uint64) []uint64 {
	if e.shared() {
		n, err := l.heldBy(e.seq)
		if err != nil {
			l.engine.fail(err)
			return freed
		}
		if n > 1 {
			l.setHolders(g, e.seq, n-1)
			return freed
		}
	}
	g.key = seqKey(g.key[:0], kindBody, l.no, e.seq)
	g.del()
	return append(freed, e.seq)
}

// retry ends an attempt: the message goes back to its facet, now or later, or
// to the dead letters when its attempts are spent.
func (w *settling) retry(seq uint64, item millrace.SettleItem) {
	if w.spent(seq) {
		w.bury(seq, deadAttempts, item.Error)
		w.dead++
		return
	}
	h := w.countAttempt(seq)
	if item.Delay <= 0 {
		w.lane.comeBack(w.group, w.queue, h, seq)
		return
	}
	q, g, l := w.queue, w.group, w.lane
	h.state = stateDelayed
	h.due = &due{at: w.now + wholeMilli(item.Delay), queue: q, seq: seq}
	q.out[seq] = h
	q.delayed++
	l.agenda.push(h.due)
	g.key = queueSeqKey(g.key[:0], kindDelayed, l.no, q.uid, seq)
	g.val = delayedRecord{due: h.due.at, tenant: h.facet.tenant}.append(g.val[:0])
	g.set()
}

// spent reports whether a leased message is on its last attempt.
func (w *settling) spent(seq uint64) bool {
	attempt := w.queue.out[seq].entry(seq).attempts() + 1
	return w.queue.maxAttempts > 0 && attempt >= w.queue.maxAttempts
}

// countAttempt takes a message out of its lease and writes that it was tried once more.
func (w *settling) countAttempt(seq uint64) held {
	h := w.unlease(seq)
	h.mark += 2
	g := w.group
	g.key = messageKey(g.key[:0], w.lane.no, w.queue.uid, h.facet.tenant, seq)
	g.val = h.entry(seq).append(g.val[:0])
	g.set()
	return h
}

// comeBack puts a message that was leased or delayed back into its facet.
func (l *lane) comeBack(g *group, q *queue, h held, seq uint64) {
	f := h.facet
	f.held--
	f.back.push(h.entry(seq))
	if seq > f.next {
		q.out[seq] = held{state: stateReturned}
	} else {
		delete(q.out, seq)
	}
	q.ready++
	l.enterRing(g, q, f)
}

// bury moves a leased message to the dead letters.
func (w *settling) bury(seq uint64, reason byte, why string) {
	h := w.unlease(seq)
	q, g := w.queue, w.group
	w.erase(seq, h)
	d := deadRecord{tenant: h.facet.tenant, mark: h.mark + 2, size: h.size, reason: reason, at: w.now, err: cut(why)}
	g.key = queueSeqKey(g.key[:0], kindDead, w.lane.no, q.uid, seq)
	g.val = d.append(g.val[:0])
	g.set()
	q.dead++
	q.spent++
	w.lane.change(q)
}

func cut(s string) string { return s[:min(len(s), millrace.MaxErrorLen)] }
