package enginetest

import (
	"cmp"
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

// enterQueue locks the model for a transition of a queue in a lane; leave ends it.
func (m *Model) enterQueue(lane int, uid string) (*modelLane, *modelQueue, error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, nil, err
	}
	q, err := l.queue(uid)
	if err != nil {
		m.leave()
		return nil, nil, err
	}
	return l, q, nil
}

// Lease serves the ring.
func (m *Model) Lease(_ context.Context, lane int, o millrace.Lease) (millrace.Leased, error) {
	l, q, err := m.enterQueue(lane, o.Queue)
	if err != nil {
		return millrace.Leased{}, err
	}
	defer m.leave()
	if q.settings.Tracked && o.For == 0 {
		return millrace.Leased{}, millrace.Errorf(millrace.CodeInvalid, "what is tracked is leased for some time")
	}
	m.tick(l, o.Now)
	before := l.due()
	done := millrace.Leased{Until: at(l.t + whole(o.For))}
	if q.settings.Paused {
		q.wanted = true
		done.Due = before
		return done, nil
	}
	give := func(msg *modelMessage) {
		if msg.cancelled() {
			q.remove(msg)
			return
		}
		l.give(q, msg, o)
		m.run(l, msg)
		done.Messages = append(done.Messages, millrace.LeasedMessage{
			Name: msg.name, Seq: msg.seq, Prev: msg.prev, RecordedAt: at(msg.recorded), Tenant: msg.tenant,
			Attempt: msg.attempts, Body: slices.Clone(msg.body), Operation: msg.operationID(),
		})
	}
	q.serve(o.Max, o.MaxBytes, give, func(msg *modelMessage) {
		if m.served != nil {
			m.served(q, msg)
		}
	})
	q.wanted = len(q.ring) == 0
	done.Tenants = len(q.ring)
	done.Due = m.hintDue(l, before)
	return done, nil
}

// give leases a message out, or lets it go if it is given at most once.
func (l *modelLane) give(q *modelQueue, msg *modelMessage, o millrace.Lease) {
	msg.attempts++
	if o.For == 0 {
		q.acked++
		q.remove(msg)
		return
	}
	msg.consumer = o.Consumer
	l.join(q, msg, o.Token, l.t+whole(o.For))
}

// join puts a message into the lease group of a token and a deadline.
func (l *modelLane) join(q *modelQueue, msg *modelMessage, token millrace.Token, until int64) {
	l.joined++
	group := l.joined
	for _, other := range q.messages {
		if other.state == leased && other.token == token && other.due == until {
			group = other.group
		}
	}
	msg.state, msg.token, msg.due, msg.joined, msg.group = leased, token, until, l.joined, group
}

// live finds the message that an item's lease holds, if it has not ended.
func (q *modelQueue) live(t int64, item millrace.SettleItem) *modelMessage {
	for _, msg := range q.messages {
		if msg.name == item.Name && msg.state == leased && msg.token == item.Token && t < msg.due {
			return msg
		}
	}
	return nil
}

// Settle ends leases.
func (m *Model) Settle(_ context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	l, q, err := m.enterQueue(lane, s.Queue)
	if err != nil {
		return millrace.Settled{}, err
	}
	defer m.leave()
	m.tick(l, s.Now)
	before := l.due()
	var done millrace.Settled
	for i, item := range s.Items {
		msg := q.live(l.t, item)
		if msg == nil {
			done.Lost = append(done.Lost, i)
			continue
		}
		m.settleOne(l, q, msg, s.Verb, item, &done)
	}
	done.Due = m.hintDue(l, before)
	return done, nil
}

func (m *Model) settleOne(l *modelLane, q *modelQueue, msg *modelMessage, verb millrace.Verb, item millrace.SettleItem, done *millrace.Settled) {
	switch {
	case verb == millrace.Ack:
		q.acked++
		q.remove(msg)
		m.succeed(l, msg, item.Output)
		m.wait(l, q, msg.tenant)
	case verb == millrace.Bury:
		m.bury(l, q, msg, millrace.ReasonBuried, item.Error)
	case msg.unwanted():
		m.stop(l, q, msg, item.Error)
	case q.exhausted(msg) && !q.settings.Block:
		done.Dead++
		m.bury(l, q, msg, millrace.ReasonAttempts, item.Error)
	default:
		m.again(l, q, msg, whole(item.Delay), item.Error)
	}
}

// Extend prolongs leases.
func (m *Model) Extend(_ context.Context, lane int, e millrace.Extend) (millrace.Extended, error) {
	l, q, err := m.enterQueue(lane, e.Queue)
	if err != nil {
		return millrace.Extended{}, err
	}
	defer m.leave()
	m.tick(l, e.Now)
	before := l.due()
	done := millrace.Extended{Until: at(l.t + whole(e.For))}
	for i, item := range e.Items {
		if msg := q.live(l.t, item); msg != nil {
			l.join(q, msg, item.Token, l.t+whole(e.For))
			if msg.unwanted() {
				done.Cancelled = append(done.Cancelled, i)
			}
		} else {
			done.Lost = append(done.Lost, i)
		}
	}
	done.Due = m.hintDue(l, before)
	return done, nil
}

// Release ends the leases of a consumer, the oldest group first.
func (m *Model) Release(_ context.Context, lane int, r millrace.Release) (int, error) {
	l, q, err := m.enterQueue(lane, r.Queue)
	if err != nil {
		return 0, err
	}
	defer m.leave()
	m.tick(l, r.Now)
	before := l.due()
	var out []*modelMessage
	for _, msg := range q.messages {
		if msg.state == leased && msg.consumer == r.Consumer {
			out = append(out, msg)
		}
	}
	slices.SortFunc(out, func(a, b *modelMessage) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.joined, b.joined))
	})
	out = out[:min(len(out), r.Max)]
	for _, msg := range out {
		m.expire(l, q, msg)
	}
	m.hintDue(l, before)
	return len(out), nil
}

// Wanted names the queues that somebody waits for.
func (m *Model) Wanted(_ context.Context, lane int) ([]string, error) {
	l, err := m.enter(lane)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var uids []string
	for uid, q := range l.queues {
		if q.wanted {
			uids = append(uids, uid)
		}
	}
	return uids, nil
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
	s := millrace.QueueStats{Acked: q.acked, Spent: q.spent, Dropped: q.dropped}
	var oldest uint64
	wait := map[string]bool{}
	for _, msg := range q.messages {
		msg.countIn(&s.QueueCounts)
		if msg.state == waiting {
			wait[msg.tenant] = true
		}
		if msg.cancelled() {
			s.Cancelled++
		}
		if msg.state != dead && (oldest == 0 || msg.name < oldest) {
			oldest = msg.name
		}
	}
	s.Tenants, s.Oldest = int64(len(wait)), l.minute(oldest)
	return s, nil
}

func (msg *modelMessage) countIn(c *millrace.QueueCounts) {
	*[]*int64{&c.Ready, &c.Leased, &c.Delayed, &c.Dead}[msg.state]++
}

// minute is the minute of a name; the zero time if there is none.
func (l *modelLane) minute(name uint64) time.Time {
	if name == 0 {
		return time.Time{}
	}
	return time.Unix(60*millrace.MinuteOfSeq(name, int(l.lanes)), 0).UTC()
}
