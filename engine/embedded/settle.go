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
				w.succeed(item.Name, item.Output)
				w.ack(item.Name)
			case millrace.Retry:
				w.retry(item.Name, item)
			case millrace.Bury:
				w.bury(item.Name, deadBuried, item.Error)
			}
		}
		w.end()
		out.Dead = w.dead
		out.Due = l.agenda.until(now)
		return nil
	})
	return out, err
}

// settling is a step that ends messages or leases.
type settling struct {
	lane  *lane
	queue *queue
	group *group
	now   int64
	freed []uint64 // bodies that nobody holds any more
	dead  int      // messages whose attempts were spent
	exits []millrace.Exit
	lines lineReader
}

// end finishes the step outside the index.
func (w *settling) end() {
	w.lines.close()
	w.lane.cache.drop(w.freed)
}

// unlease takes a message out of its lease.
func (w *settling) unlease(seq uint64) held {
	h := w.queue.out[seq]
	w.lane.leaveLease(w.group, w.queue, h.lease)
	w.queue.leased--
	h.facet.leased--
	h.lease = nil
	return h
}

func (w *settling) ack(seq uint64) {
	h := w.unlease(seq)
	w.acked(h.entry(seq), h.facet, h.place)
}

// acked lets a message go for good.
func (w *settling) acked(e entry, f *facet, at *place) {
	w.erase(e.seq, f, at)
	w.release(e)
	w.queue.acked++
	w.lane.change(w.queue)
}

// drop lets a message go that nobody has settled.
func (w *settling) drop(e entry, f *facet, at *place) {
	w.abandon(e)
	w.erase(e.seq, f, at)
	w.release(e)
	w.countDropped()
}

func (w *settling) countDropped() {
	w.queue.dropped++
	w.lane.meta.dropped++
	w.lane.dirty = true
	w.lane.change(w.queue)
}

// erase removes the record of a message that does not wait, and goes on to the
// next of its key.
func (w *settling) erase(seq uint64, f *facet, at *place) {
	q, l := w.queue, w.lane
	w.eraseRecord(seq, f, at)
	if at != nil {
		l.advance(q, f, at.key, &w.lines)
	}
	l.enterRing(w.group, q, f)
	q.forget(f)
}

// eraseRecord removes the record of a message alone.
func (w *settling) eraseRecord(seq uint64, f *facet, at *place) {
	q, g, l := w.queue, w.group, w.lane
	l.messageRecord(g, q, f, seq, at)
	g.del()
	if at == nil && seq > f.next {
		// A refill may come by before the disk knows.
		q.out[seq] = held{state: stateGone, mark: uint32(g.no)}
		g.gone = append(g.gone, goneFrom{q, seq})
	} else {
		delete(q.out, seq)
	}
	q.ages.remove(l.minute(seq))
}

// messageRecord makes the group's key that of a message's own record.
func (l *lane) messageRecord(g *group, q *queue, f *facet, seq uint64, at *place) {
	if at == nil {
		g.key = messageKey(g.key[:0], l.no, q.uid, f.tenant, seq)
	} else {
		g.key = placeKey(g.key[:0], l.no, q.uid, f.tenant, *at)
	}
}

// writeMessage writes a message's own record; floor is the last lease that does
// not hold it any more.
func (l *lane) writeMessage(g *group, q *queue, f *facet, e entry, at *place, floor uint64) {
	l.messageRecord(g, q, f, e.seq, at)
	if at == nil {
		g.val = appendFloor(e.append(g.val[:0]), floor)
	} else {
		g.val = (&lined{e, *at, floor}).append(g.val[:0])
	}
	g.set()
}

// release frees a message's body, or its share in it.
func (w *settling) release(e entry) {
	w.freed = w.lane.release(w.group, e, w.freed)
}

// release frees a message's share in its body, and appends the seq to freed if
// it was the last.
func (l *lane) release(g *group, e entry, freed []uint64) []uint64 {
	holders := uint32(1)
	if e.shared() {
		var err error
		if holders, err = l.heldBy(e.seq); err != nil {
			l.engine.fail(err)
			return freed
		}
	}
	return l.unhold(g, e.seq, holders, freed)
}

// unhold takes one holder from a body, and the body if it was the last.
func (l *lane) unhold(g *group, seq uint64, holders uint32, freed []uint64) []uint64 {
	if holders > 1 {
		l.setHolders(g, seq, holders-1)
		return freed
	}
	g.key = seqKey(g.key[:0], kindBody, l.no, seq)
	g.del()
	return append(freed, seq)
}

// retry ends an attempt: the message goes back to its facet, now or later, or
// to the dead letters when its attempts are spent.
func (w *settling) retry(seq uint64, item millrace.SettleItem) {
	switch {
	case w.queue.out[seq].wish:
		w.stop(seq, item.Error)
	case w.spent(seq) && !w.queue.settings.Block:
		w.bury(seq, deadAttempts, item.Error)
		w.dead++
	default:
		w.goBack(seq, wholeMilli(item.Delay), item.Error)
	}
}

// expire ends an attempt whose lease has ended, and says what became of the message.
func (w *settling) expire(seq uint64) (reason string) {
	s := &w.queue.settings
	switch spent := w.spent(seq); {
	case w.queue.out[seq].wish:
		w.stop(seq, millrace.ErrorLeaseEnded)
		return millrace.ReasonCancelled
	case spent && !s.Block:
		w.bury(seq, deadAttempts, millrace.ErrorLeaseEnded)
		return millrace.ReasonAttempts
	case spent:
		w.goBack(seq, s.BlockDelay.Milliseconds(), millrace.ErrorLeaseEnded)
	default:
		w.goBack(seq, 0, millrace.ErrorLeaseEnded)
	}
	return millrace.ReasonLeaseEnded
}

// goBack returns a leased message to its facet, at once or after a delay.
func (w *settling) goBack(seq uint64, delay int64, why string) {
	w.requeue(seq, why)
	h := w.countAttempt(seq)
	q, g, l := w.queue, w.group, w.lane
	if delay <= 0 {
		l.comeBack(g, q, h, seq)
		return
	}
	l.delay(g, q, seq, h, w.now+delay)
	l.enterRing(g, q, h.facet) // it may have been at its limit
}

// delay makes a message wait for its time.
func (l *lane) delay(g *group, q *queue, seq uint64, h held, until int64) {
	h.state = stateDelayed
	h.due = &due{kind: dueRetry, at: until, queue: q, seq: seq}
	q.out[seq] = h
	q.delayed++
	h.facet.delayed++
	l.agenda.push(h.due)
	g.key = queueSeqKey(g.key[:0], kindDelayed, l.no, q.uid, seq)
	g.val = delayedRecord{due: until, tenant: h.facet.tenant}.append(g.val[:0])
	g.set()
}

// spent reports whether a leased message is on its last attempt.
func (w *settling) spent(seq uint64) bool {
	attempt := w.queue.out[seq].entry(seq).attempts() + 1
	most := w.queue.settings.MaxAttempts
	return most > 0 && attempt >= most
}

// countAttempt takes a message out of its lease and writes that it was tried once more.
func (w *settling) countAttempt(seq uint64) held {
	floor := w.queue.out[seq].lease.no
	h := w.unlease(seq)
	h.mark, h.told = tried(h.mark), false
	w.lane.writeMessage(w.group, w.queue, h.facet, h.entry(seq), h.place, floor)
	return h
}

// comeBack puts a message that was leased or delayed back into its facet.
func (l *lane) comeBack(g *group, q *queue, h held, seq uint64) {
	f := h.facet
	q.arrive(f)
	if h.place != nil {
		l.backToLine(g, q, h, seq)
	} else {
		l.backToFacet(q, f, h.entry(seq))
	}
	l.enterRing(g, q, f)
}

// backToFacet puts a message back to its old place in the facet.
func (l *lane) backToFacet(q *queue, f *facet, e entry) {
	f.back.push(e)
	if e.seq > f.next {
		q.out[e.seq] = held{state: stateReturned}
	} else {
		delete(q.out, e.seq)
	}
}

// backToLine puts what blocked its key to the front again.
func (l *lane) backToLine(g *group, q *queue, h held, seq uint64) {
	delete(q.out, seq)
	at := h.facet.lines.comeBack(*h.place, h.entry(seq))
	if at != *h.place {
		l.messageRecord(g, q, h.facet, seq, h.place)
		g.del()
		l.writeMessage(g, q, h.facet, h.entry(seq), &at, uint64(l.meta.leases))
	}
}
