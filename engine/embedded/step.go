package embedded

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
)

// Step does up to most of what is due in a lane by now.
func (e *Engine) Step(ctx context.Context, lane int, now time.Time, most int) (millrace.Stepped, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.Stepped{}, err
	}
	defer e.leave()
	s := stepping{lane: l, most: most}
	if err := l.transition(ctx, now, s.run); err != nil {
		return millrace.Stepped{}, err
	}
	if s.out.Events, err = l.readHeld(s.events); err != nil {
		return millrace.Stepped{}, e.readFailed(err)
	}
	return s.out, nil
}

// stepping is one step of a lane.
type stepping struct {
	lane   *lane
	group  *group
	now    int64
	most   int
	bytes  int64 // of the events
	events []*heldEvent
	parks  int // that have ended
	gone   int // events of dead batches that went
	out    millrace.Stepped
}

func (s *stepping) done() int {
	return s.out.Expired + s.out.Returned + s.out.Forgotten + s.out.Promoted + s.out.Scrubbed + s.out.Ended + s.parks + len(s.events)
}

func (s *stepping) run(g *group, now int64) error {
	s.group, s.now = g, now
	l := s.lane
	for {
		d := l.agenda.first()
		if d == nil || d.at > now {
			break
		}
		if err := l.engine.failure(); err != nil { // what could not be read is due still, and would be for ever
			return l.engine.readFailed(err)
		}
		if s.done() >= s.most || !s.one(d) {
			s.out.More = true
			break
		}
	}
	s.out.Due = l.agenda.until(now)
	return nil
}

// one does what is due first. It reports whether there was room for it.
func (s *stepping) one(d *due) bool {
	l := s.lane
	switch d.kind {
	case dueLease:
		s.expire(d.lease)
	case dueRetry:
		l.wake(s.group, d)
		s.out.Returned++
	case dueDead:
		exits := l.forgetDead(s.group, d.queue, s.now, d.at, s.most-s.done())
		s.out.Forgotten += len(exits)
		s.out.Exits = append(s.out.Exits, exits...)
	case dueEvent:
		return s.handOut(l.held[d.seq])
	case dueEnding:
		return s.endOperations(d)
	case duePark:
		l.endPark(s.group, d.sub)
		s.parks++
	default:
		return s.batch(d.kind, d.sub.named(d.seq))
	}
	return true
}

// batch does what is due of a batch. It reports whether there was room for it.
func (s *stepping) batch(kind byte, b *batch) bool {
	l := s.lane
	switch kind {
	case dueBatch:
		l.makeReady(s.group, b)
		s.out.Promoted++
	case dueSending:
		l.failBatch(s.group, b, &millrace.Outcome{Error: "lost", Jitter: millrace.NoJitter}, s.now)
		s.out.Scrubbed++
	case dueDeadBatch:
		if s.gone >= eventsAtOnce {
			return false
		}
		s.gone += int(b.count)
		l.dropBatch(s.group, b)
		s.out.Forgotten++
	}
	return true
}

// expire returns what is still leased under a lease that has ended, in the
// order it was given, as far as the step's bound allows.
func (s *stepping) expire(ls *lease) {
	w := settling{lane: s.lane, queue: ls.due.queue, group: s.group, now: s.now}
	expired, dead := w.expireUnder(ls, s.most-s.done())
	s.out.Exits = append(s.out.Exits, w.exits...)
	s.out.Expired += expired
	s.out.Dead += dead
	w.end()
}

// expireUnder ends up to most messages of a lease, in the order they joined it.
func (w *settling) expireUnder(ls *lease, most int) (expired, dead int) {
	q := w.queue
	for ls.left > 0 && expired < most {
		seq := ls.seqs[ls.done]
		ls.done++
		if h := q.out[seq]; h.state != stateLeased || h.lease != ls {
			continue
		}
		expired++
		reason := w.expire(seq)
		if reason == millrace.ReasonAttempts {
			dead++
		}
		w.exits = append(w.exits, q.exit(seq, reason))
	}
	return expired, dead
}

// wake returns a message whose delay is over.
func (l *lane) wake(g *group, d *due) {
	q := d.queue
	h := q.out[d.seq]
	l.agenda.remove(d)
	h.due = nil
	q.delayed--
	h.facet.delayed--
	g.key = queueSeqKey(g.key[:0], kindDelayed, l.no, q.uid, d.seq)
	g.del()
	l.comeBack(g, q, h, d.seq)
}
