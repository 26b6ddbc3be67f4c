package embedded

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// parkAfter is how many failures in a row park a subscription.
const parkAfter = 3

// SettleBatches ends pending batches: each that is pending under its token.
func (e *Engine) SettleBatches(ctx context.Context, no int, o millrace.Outcomes) (millrace.SettledBatches, error) {
	l, err := e.enter(ctx, no)
	if err != nil {
		return millrace.SettledBatches{}, err
	}
	defer e.leave()
	var out millrace.SettledBatches
	err = l.transition(ctx, o.Now, func(g *group, now int64) error {
		out.Items = make([]millrace.SettledBatch, len(o.Items))
		for i := range o.Items {
			out.Items[i] = l.settleBatch(g, &o.Items[i], now)
		}
		out.Due = l.agenda.until(now)
		return nil
	})
	return out, err
}

func (l *lane) settleBatch(g *group, item *millrace.Outcome, now int64) (done millrace.SettledBatch) {
	s := l.subscription(item.Subscription)
	if s == nil {
		return millrace.SettledBatch{Lost: true}
	}
	l.logAttempt(g, s, item.Log)
	b := s.named(item.Name)
	switch {
	case b == nil || b.state != batchPending || b.sending.token != item.Token || b.due.at <= now:
		done.Lost = true
	case item.OK:
		l.succeed(g, b)
	default:
		done.Dead = l.failBatch(g, b, item, now)
	}
	done.FailingSince = moment(s.failingSince)
	return done
}

// logAttempt keeps what is logged of an attempt as the newest.
func (l *lane) logAttempt(g *group, s *subscription, log []byte) {
	if len(log) == 0 {
		return
	}
	s.logged++
	g.key = queueSeqKey(g.key[:0], kindAttempt, l.no, s.uid, uint64(s.logged))
	g.val = append(g.val[:0], log...)
	g.set()
	if old := s.logged - millrace.MaxAttemptLog; old > 0 {
		g.key = queueSeqKey(g.key[:0], kindAttempt, l.no, s.uid, uint64(old))
		g.del()
	}
	l.changeSub(s)
}

// succeed lets a batch go that was sent. It ends all backing off.
func (l *lane) succeed(g *group, b *batch) {
	s := b.sub()
	l.removeBatch(g, b)
	s.sent += int64(b.count)
	s.fails, s.round, s.parked, s.probing, s.reason, s.failingSince = 0, 0, 0, false, "", 0
	l.agenda.remove(&s.park)
	l.changeSub(s)
	l.admit(g, s)
}

// failBatch says that the sending of a batch failed, and reports whether it is dead.
func (l *lane) failBatch(g *group, b *batch, why *millrace.Outcome, now int64) (dead bool) {
	s := b.sub()
	s.failed++
	s.reason = why.Error
	if s.failingSince == 0 {
		s.failingSince = now
	}
	l.setError(g, b, why.Error)
	l.takeOut(b)
	dead = int(b.attempts) > len(s.settings.Schedule)
	if dead {
		l.put(b, batchDead, l.retainedUntil(s, now))
	} else {
		l.put(b, batchEarly, now+s.wait(int(b.attempts)-1, why))
		if s.settings.Ordered {
			s.blocking = b
		}
	}
	l.touch(g, b)
	l.countFailure(s, why, now)
	l.admit(g, s)
	return dead
}

// retainedUntil is when a batch that is dead from now on goes; 0 for never.
func (l *lane) retainedUntil(s *subscription, now int64) int64 {
	if s.settings.Retention <= 0 {
		return 0
	}
	return now + wholeMilli(s.settings.Retention)
}

// wait is how long something waits after a failure: what the receiver asked
// for, else the n-th wait of the schedule, or the last.
func (s *subscription) wait(n int, why *millrace.Outcome) int64 {
	if why.After > 0 {
		return wholeMilli(why.After)
	}
	waits := s.settings.Schedule
	return why.Jitter.Spread(waits[min(n, len(waits)-1)]).Milliseconds()
}

// countFailure counts a failure of a subscription, and parks it when it is enough.
func (l *lane) countFailure(s *subscription, why *millrace.Outcome, now int64) {
	l.changeSub(s)
	if s.parked > 0 || len(s.settings.Schedule) == 0 {
		return
	}
	if s.fails++; s.fails < parkAfter && !s.probing {
		return
	}
	s.parked, s.probing = now+s.wait(int(s.round), why), true
	s.round++
	l.agenda.move(&s.park, s.parked)
}

// endPark ends a park that is over: the subscription is probed.
func (l *lane) endPark(g *group, s *subscription) {
	l.agenda.remove(&s.park)
	s.parked = 0
	g.writes++ // the state is written with the group
	l.changeSub(s)
	l.admit(g, s)
}

// AttemptLog returns what was logged of a subscription's attempts, newest first.
func (e *Engine) AttemptLog(ctx context.Context, no int, uid string) ([][]byte, error) {
	var log [][]byte
	err := e.lookSub(ctx, no, uid, func(l *lane, s *subscription, _ *group) error {
		it, err := l.overlay.prefixed(queueKey(nil, kindAttempt, l.no, s.uid))
		if err != nil {
			return e.readFailed(err)
		}
		for valid := it.Last(); valid; valid = it.Prev() {
			log = append(log, slices.Clone(it.Value()))
		}
		if err := it.Close(); err != nil {
			return e.readFailed(err)
		}
		return nil
	})
	return log, err
}
