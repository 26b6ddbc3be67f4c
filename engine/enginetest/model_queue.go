package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// whole is a duration in milliseconds, rounded up.
func whole(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}

// queue finds a queue for a transition in a lane.
func (l *modelLane) queue(uid string) (*modelQueue, error) {
	if q := l.queues[uid]; q != nil {
		return q, nil
	}
	return nil, millrace.Errorf(millrace.CodeNotFound, "no such queue")
}

// Lease serves the ring, one message a turn.
func (m *Model) Lease(_ context.Context, lane int, o millrace.Lease) (millrace.Leased, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Leased{}, err
	}
	defer m.leave()
	q, err := l.queue(o.Queue)
	if err != nil {
		return millrace.Leased{}, err
	}
	m.tick(l, o.Now)
	before := l.due()
	until := l.t + whole(o.For)
	done := millrace.Leased{Until: at(until)}
	for _, msg := range q.serve(o.Max, o.MaxBytes) {
		l.join(msg, o.Token, until)
		msg.attempts++
		done.Messages = append(done.Messages, millrace.LeasedMessage{
			Seq: msg.seq, Prev: msg.prev, RecordedAt: at(msg.recorded), Tenant: msg.tenant,
			Attempt: msg.attempts, Body: slices.Clone(msg.body),
		})
	}
	q.wanted = len(q.ring) == 0
	done.Tenants = len(q.ring)
	done.Due = m.hintDue(l, before)
	return done, nil
}

// join puts a message into the lease group of a token and a deadline.
func (l *modelLane) join(msg *modelMessage, token millrace.Token, until int64) {
	l.joined++
	msg.state, msg.token, msg.due, msg.joined = leased, token, until, l.joined
}

// serve takes the next messages off the ring: each turn the head's lowest seq.
func (q *modelQueue) serve(limit, bytes int) []*modelMessage {
	var served []*modelMessage
	size := 0
	for len(served) < limit && len(q.ring) > 0 {
		tenant := q.ring[0]
		msg := q.first(tenant)
		size += len(msg.body)
		if size > bytes && len(served) > 0 {
			break
		}
		msg.state = leased
		served = append(served, msg)
		q.ring = q.ring[1:]
		if q.first(tenant) != nil {
			q.ring = append(q.ring, tenant)
		}
	}
	return served
}

// first is a tenant's waiting message with the lowest seq.
func (q *modelQueue) first(tenant string) *modelMessage {
	for _, msg := range q.messages {
		if msg.tenant == tenant && msg.state == waiting {
			return msg
		}
	}
	return nil
}

// hintDue says when the lane's next entry is due, and hints if that is earlier than before.
func (m *Model) hintDue(l *modelLane, before time.Duration) time.Duration {
	due := l.due()
	if due >= 0 && (before < 0 || due < before) {
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintDue, Lane: int(l.lane), In: due})
	}
	return due
}

// live finds the message that an item's lease holds, if it has not ended.
func (q *modelQueue) live(t int64, item millrace.SettleItem) *modelMessage {
	for _, msg := range q.messages {
		if msg.seq == item.Seq && msg.state == leased && msg.token == item.Token && t < msg.due {
			return msg
		}
	}
	return nil
}

// Settle ends leases.
func (m *Model) Settle(_ context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Settled{}, err
	}
	defer m.leave()
	q, err := l.queue(s.Queue)
	if err != nil {
		return millrace.Settled{}, err
	}
	m.tick(l, s.Now)
	before := l.due()
	var done millrace.Settled
	for i, item := range s.Items {
		msg := q.live(l.t, item)
		if msg == nil {
			done.Lost = append(done.Lost, i)
			continue
		}
		m.settleOne(l, q, msg, s.Verb, item.Delay, &done)
	}
	done.Due = m.hintDue(l, before)
	return done, nil
}

func (m *Model) settleOne(l *modelLane, q *modelQueue, msg *modelMessage, verb millrace.Verb, delay time.Duration, done *millrace.Settled) {
	switch {
	case verb == millrace.Ack:
		q.acked++
		q.messages = slices.DeleteFunc(q.messages, func(other *modelMessage) bool { return other == msg })
	case verb == millrace.Bury:
		q.bury(msg)
	case q.exhausted(msg):
		done.Dead++
		q.bury(msg)
	case delay > 0:
		msg.state, msg.due = delayed, l.t+whole(delay)
	default:
		msg.state = waiting
		m.wait(l, q, msg.tenant)
	}
}

func (q *modelQueue) exhausted(msg *modelMessage) bool {
	return q.settings.MaxAttempts > 0 && msg.attempts >= q.settings.MaxAttempts
}

func (q *modelQueue) bury(msg *modelMessage) {
	msg.state = dead
	q.spent++
}

// Extend prolongs leases.
func (m *Model) Extend(_ context.Context, lane int, e millrace.Extend) (millrace.Extended, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Extended{}, err
	}
	defer m.leave()
	q, err := l.queue(e.Queue)
	if err != nil {
		return millrace.Extended{}, err
	}
	m.tick(l, e.Now)
	before := l.due()
	done := millrace.Extended{Until: at(l.t + whole(e.For))}
	for i, item := range e.Items {
		if msg := q.live(l.t, item); msg != nil {
			l.join(msg, item.Token, l.t+whole(e.For))
		} else {
			done.Lost = append(done.Lost, i)
		}
	}
	done.Due = m.hintDue(l, before)
	return done, nil
}

// Stats counts a queue's messages.
func (m *Model) Stats(_ context.Context, lane int, uid string) (millrace.QueueStats, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.QueueStats{}, err
	}
	defer m.leave()
	q := l.queues[uid]
	if q == nil {
		return millrace.QueueStats{}, nil
	}
	s := millrace.QueueStats{Tenants: int64(len(q.ring)), Acked: q.acked, Spent: q.spent}
	oldest := uint64(0)
	for _, msg := range q.messages {
		*[]*int64{&s.Ready, &s.Leased, &s.Delayed, &s.Dead}[msg.state]++
		if msg.state != dead && (oldest == 0 || msg.seq < oldest) {
			oldest = msg.seq
		}
	}
	if oldest > 0 {
		s.Oldest = time.Unix(60*millrace.MinuteOfSeq(oldest, int(l.lanes)), 0).UTC()
	}
	return s, nil
}
