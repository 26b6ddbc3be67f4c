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
	var out millrace.Stepped
	err = l.transition(ctx, now, func(g *group, now int64) error {
		out = l.step(g, now, most)
		return nil
	})
	return out, err
}

func (l *lane) step(g *group, now int64, most int) millrace.Stepped {
	var out millrace.Stepped
	for {
		d := l.agenda.first()
		if d == nil || d.at > now {
			break
		}
		if out.Expired+out.Returned >= most {
			out.More = true
			break
		}
		if d.lease != nil {
			l.expire(g, d.lease, now, most, &out)
		} else {
			l.wake(g, d)
			out.Returned++
		}
	}
	out.Due = l.agenda.until(now)
	return out
}

// expire returns what is still leased under a lease that has ended, in the
// order it was given, as far as the step's bound allows.
func (l *lane) expire(g *group, ls *lease, now int64, most int, out *millrace.Stepped) {
	q := ls.due.queue
	w := settling{lane: l, queue: q, group: g, now: now}
	for ls.left > 0 && out.Expired+out.Returned < most {
		seq := ls.seqs[ls.done]
		ls.done++
		if h := q.out[seq]; h.state != stateLeased || h.lease != ls {
			continue
		}
		out.Expired++
		if w.spent(seq) {
			w.bury(seq, deadAttempts, "the lease ended")
			out.Dead++
			continue
		}
		l.comeBack(g, q, w.countAttempt(seq), seq)
	}
	w.end()
}

// wake returns a message whose delay is over.
func (l *lane) wake(g *group, d *due) {
	q := d.queue
	h := q.out[d.seq]
	l.agenda.remove(d)
	h.due = nil
	q.delayed--
	g.key = queueSeqKey(g.key[:0], kindDelayed, l.no, q.uid, d.seq)
	g.del()
	l.comeBack(g, q, h, d.seq)
}
