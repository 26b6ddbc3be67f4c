package enginetest

import (
	"slices"

	"github.com/millrace-dev/millrace"
)

// wait puts a tenant at the tail of the ring if it may be served and is not there.
func (m *Model) wait(l *modelLane, q *modelQueue, tenant string) {
	if slices.Contains(q.ring, tenant) || q.barred(tenant) || q.first(tenant) == nil {
		return
	}
	q.ring = append(q.ring, tenant)
	m.wake(l, q)
}

// wake sends the hint that somebody waits for.
func (m *Model) wake(l *modelLane, q *modelQueue) {
	if q.wanted && !q.settings.Paused && len(q.ring) > 0 {
		q.wanted = false
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintQueue, Lane: int(l.lane), Queue: q.settings.UID})
	}
}

// barred tells whether a tenant's weight or limit keeps it from being served.
func (q *modelQueue) barred(tenant string) bool {
	limit := q.limit(tenant)
	return q.weight(tenant) == 0 || limit > 0 && q.count(tenant, leased) >= limit
}

func (q *modelQueue) weight(tenant string) int {
	if s, set := q.tenants[tenant]; set {
		return s.Weight
	}
	return 1
}

func (q *modelQueue) limit(tenant string) int {
	if s, set := q.tenants[tenant]; set && s.Limit >= 0 {
		return s.Limit
	}
	return q.settings.TenantLimit
}

// count is how many messages of a tenant are in a state.
func (q *modelQueue) count(tenant string, state modelState) int {
	n := 0
	for _, msg := range q.messages {
		if msg.tenant == tenant && msg.state == state {
			n++
		}
	}
	return n
}

// serve takes the next messages off the ring and gives each to take, and to
// after when the ring has moved on.
func (q *modelQueue) serve(limit, bytes int, take, after func(*modelMessage)) {
	served, given, size := 0, 0, 0
	for served < limit && len(q.ring) > 0 {
		tenant := q.ring[0]
		msg := q.first(tenant)
		if msg == nil || q.barred(tenant) {
			q.ring, q.credit = q.ring[1:], 0
			continue
		}
		if !msg.cancelled() {
			size += len(msg.body)
			if size > bytes && given > 0 {
				return
			}
			given++
		}
		take(msg)
		served++
		q.turn(tenant)
		after(msg)
	}
}

// turn moves the ring on after the head was served one message.
func (q *modelQueue) turn(tenant string) {
	left := q.weight(tenant)
	if q.credit > 0 {
		left = min(left, q.credit)
	}
	q.credit = left - 1
	switch {
	case q.first(tenant) == nil || q.barred(tenant):
		q.ring, q.credit = q.ring[1:], 0
	case q.credit == 0:
		q.ring = append(q.ring[1:], tenant)
	}
}

// first is the message of a tenant that is served next, if it has one.
func (q *modelQueue) first(tenant string) *modelMessage {
	if q.settings.Ordered {
		if heads := q.heads(tenant); len(heads) > 0 {
			return heads[0]
		}
		return nil
	}
	for _, msg := range q.messages {
		if msg.tenant == tenant && msg.state == waiting {
			return msg
		}
	}
	return nil
}

// leasable are the messages of a tenant that could be leased now if nothing
// else happened, in their order.
func (q *modelQueue) leasable(tenant string) []*modelMessage {
	if q.settings.Ordered {
		return q.heads(tenant)
	}
	var all []*modelMessage
	for _, msg := range q.messages {
		if msg.tenant == tenant && msg.state == waiting {
			all = append(all, msg)
		}
	}
	return all
}

// line is a tenant's key, or a message without one.
type line struct {
	key  string
	name uint64
}

func (msg *modelMessage) line() line {
	if msg.key == "" {
		return line{name: msg.name}
	}
	return line{key: msg.key}
}

// heads are the first messages of a tenant's keys that have nothing leased or delayed, by name.
func (q *modelQueue) heads(tenant string) []*modelMessage {
	front, blocked := map[line]*modelMessage{}, map[line]bool{}
	for _, msg := range q.messages {
		if msg.tenant != tenant {
			continue
		}
		switch head := front[msg.line()]; {
		case msg.state == leased || msg.state == delayed:
			blocked[msg.line()] = true
		case msg.state == waiting && (head == nil || msg.place < head.place):
			front[msg.line()] = msg
		}
	}
	var heads []*modelMessage
	for _, msg := range q.messages {
		if front[msg.line()] == msg && !blocked[msg.line()] {
			heads = append(heads, msg)
		}
	}
	return heads
}

// back makes a message wait again, as the head of its key.
func (m *Model) back(l *modelLane, q *modelQueue, msg *modelMessage) {
	l.places++
	msg.state, msg.place = waiting, -l.places
	m.wait(l, q, msg.tenant)
}

func (q *modelQueue) remove(msg *modelMessage) {
	q.messages = slices.DeleteFunc(q.messages, func(other *modelMessage) bool { return other == msg })
}
