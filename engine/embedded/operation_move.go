package embedded

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// operationOf is the operation of a message: its number, its ticket if it has one, and its state, as of this attempt
// if it is leased.
func (w *settling) operationOf(e entry, h held) (number uint64, t *ticket, s operationState, err error) {
	l, u := w.lane, w.queue.uid
	number = e.seq
	if e.mark&markTicket != 0 {
		t, err = l.ticketOf(u, e.seq)
		if err == nil && t == nil {
			err = errIndex("a message has no ticket")
		}
		if err != nil {
			return 0, nil, s, err
		}
		if number = t.number; number != e.seq {
			s.message = e.seq
		}
	}
	if e.attempts() > 0 || h.told {
		if s, err = l.state(number); err != nil {
			return 0, nil, s, err
		}
	}
	if h.lease != nil {
		s.attempt(h)
	}
	return number, t, s, nil
}

// requeue makes the operation of a leased message wait again.
func (w *settling) requeue(seq uint64, why string) {
	if !w.queue.settings.Tracked {
		return
	}
	h := w.queue.out[seq]
	number, _, s, err := w.operationOf(h.entry(seq), h)
	if err != nil {
		w.lane.engine.fail(err)
		return
	}
	s.status, s.err = statusOpen, cut(why)
	w.lane.writeState(w.group, number, &s)
	w.lane.counting(w.group, w.queue, w.now).Retried++
	w.lane.changed(w.group, number)
}

// succeed ends the operation of a leased message that is acked.
func (w *settling) succeed(seq uint64, output []byte) {
	w.endLeased(seq, statusSuccess, func(s *operationState) { s.output = output })
}

// fail ends the operation of a leased message that becomes a dead letter, or that is to be cancelled.
func (w *settling) endFailed(seq uint64, status byte, why string) {
	w.endLeased(seq, status, func(s *operationState) { s.err = cut(why) })
}

func (w *settling) endLeased(seq uint64, status byte, with func(*operationState)) {
	if !w.queue.settings.Tracked {
		return
	}
	h := w.queue.out[seq]
	w.endOperation(h.entry(seq), h, status, with)
}

func (w *settling) endOperation(e entry, h held, status byte, with func(*operationState)) {
	number, t, s, err := w.operationOf(e, h)
	if err != nil {
		w.lane.engine.fail(err)
		return
	}
	with(&s)
	w.lane.finish(w.group, &ended{
		uid: w.queue.uid, queue: w.queue, name: e.seq, number: number, ticket: t, state: &s, status: status, now: w.now,
	})
}

// stop lets a leased message go whose operation is to be cancelled. It counts nowhere.
func (w *settling) stop(seq uint64, why string) {
	w.endFailed(seq, statusCancelled, why)
	h := w.unlease(seq)
	w.erase(seq, h.facet, h.place)
	w.release(h.entry(seq))
}

// abandon ends the operation of a message that is dropped while it waits or is delayed, unless that
// was cancelled before.
func (w *settling) abandon(e entry) {
	if !w.queue.settings.Tracked || w.unmark(e.seq) {
		return
	}
	w.endOperation(e, held{}, statusCancelled, func(*operationState) {})
}

// unmark takes away the mark of a message that waits in vain, and reports whether it had one.
func (w *settling) unmark(seq uint64) bool {
	q, g, l := w.queue, w.group, w.lane
	if q.cancelled == 0 {
		return false
	}
	key := queueSeqKey(nil, kindCancelled, l.no, q.uid, seq)
	value, err := l.overlay.get(key)
	if err != nil {
		l.engine.fail(err)
		return false
	}
	if value == nil {
		return false
	}
	g.key = append(g.key[:0], key...)
	g.del()
	q.cancelled--
	return true
}

// ended is an operation that finishes.
type ended struct {
	uid    uid
	queue  *queue // nil if it was removed
	name   uint64 // of the message
	number uint64
	ticket *ticket // of the message, nil if it has none
	state  *operationState
	status byte
	now    int64
}

// finish ends an operation for good. It is written once more, and expires some day.
func (l *lane) finish(g *group, x *ended) {
	s := x.state
	s.status, s.finished = x.status, x.now
	s.expires = x.now + wholeMilli(l.retention(x))
	l.writeState(g, x.number, s)
	l.expire(g, x.uid, s.expires/60000, x.number)
	if x.ticket != nil {
		l.dropTicket(g, x)
	}
	if x.queue != nil {
		l.countEnd(g, x)
	}
	l.changed(g, x.number)
}

func (l *lane) retention(x *ended) (keep time.Duration) {
	switch {
	case x.queue == nil:
		return l.retired[x.uid]
	case x.status == statusError:
		return x.queue.settings.ErrorRetention
	}
	return x.queue.settings.Retention
}

// dropTicket removes what is only needed while an operation is open.
func (l *lane) dropTicket(g *group, x *ended) {
	g.key = queueSeqKey(g.key[:0], kindTicket, l.no, x.uid, x.name)
	g.del()
	if x.ticket.deduped {
		g.key = dedupeKey(g.key[:0], l.no, x.ticket.dedupe)
		g.del()
	}
}

func (l *lane) countEnd(g *group, x *ended) {
	c := l.counting(g, x.queue, x.now)
	switch x.status {
	case statusSuccess:
		c.Success++
	case statusError:
		c.Error++
	default:
		c.Cancelled++
		return
	}
	c.running.add(millrace.SpanIndex(x.now-x.state.started), 1)
}

// runAll makes the operations of messages run that are leased.
func (l *lane) runAll(g *group, q *queue, now int64, picks []pick, taken []entry) (err error) {
	for i := range picks {
		picks[i].tracked = true
		if picks[i].ticket, err = l.run(g, q, now, taken[i]); err != nil {
			return err
		}
	}
	return nil
}

// operation is the id of the operation of a message that was leased.
func (p *pick) operation() millrace.OperationID {
	switch {
	case p.ticket != nil:
		return millrace.OperationID{Number: p.ticket.number, Secret: p.ticket.secret}
	case p.tracked && p.body.secret != nil:
		return millrace.OperationID{Number: p.seq, Secret: *p.body.secret}
	}
	return millrace.OperationID{}
}

// run notes, of a message that is leased for the first time, how long it was queued, and tells who
// watches its operation. It returns the ticket if the message has one.
func (l *lane) run(g *group, q *queue, now int64, e entry) (t *ticket, err error) {
	number, ready := e.seq, l.readyAt(e)
	if e.mark&markTicket != 0 {
		if t, err = l.ticketOf(q.uid, e.seq); err == nil && t == nil {
			err = errIndex("a message has no ticket")
		}
		if err != nil {
			return nil, err
		}
		number, ready = t.number, t.ready
	}
	if e.attempts() == 0 {
		l.counting(g, q, now).queued.add(millrace.SpanIndex(now-ready), 1)
	}
	l.changed(g, number)
	return t, nil
}
