package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// modelHeld is a delayed event that waits in its lane.
type modelHeld struct {
	name       uint64
	tenant, id string
	body       []byte
	due        int64
	next       int64 // when it is handed out, for the first time or again
}

// handedAgain is how long a delayed event that was handed out is not handed out again.
const handedAgain = 10 * time.Second

// Publish commits events to a lane.
func (m *Model) Publish(_ context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Committed{}, err
	}
	defer m.leave()
	if l.stale(c) {
		return millrace.Committed{}, &millrace.Error{Code: millrace.CodeStale, CurrentVersion: l.stats.Version}
	}
	m.tick(l, c.Now)
	if uid := m.full(l, c); uid != "" {
		return millrace.Committed{}, &millrace.Error{Code: millrace.CodeFull, Sink: uid}
	}
	before := l.due()
	l.stats.Version = max(l.stats.Version, c.Version)
	l.exits = nil
	done := millrace.Committed{RecordedAt: at(l.t)}
	for _, e := range c.Events {
		done.Stamps = append(done.Stamps, m.take(l, e))
	}
	done.Due, done.Dropped = m.hintDue(l, before), l.exits
	return done, nil
}

func (l *modelLane) stale(c millrace.Commit) bool {
	if c.Version < l.stats.Version {
		return true
	}
	for _, e := range c.Events {
		for _, uid := range e.Queues {
			if l.queues[uid] == nil {
				return true
			}
		}
		for _, uid := range e.Batches {
			if l.subs[uid] == nil {
				return true
			}
		}
	}
	return false
}

// full names the first queue that refuses an event of a commit, if there is one.
func (m *Model) full(l *modelLane, c millrace.Commit) string {
	type facet struct{ uid, tenant string }
	more := map[facet]int{}
	for _, e := range m.fresh(l, c.Events) {
		for _, uid := range e.Queues {
			q, f := l.queues[uid], facet{uid, e.Tenant}
			more[f]++
			limit := q.settings.MaxLength
			if limit > 0 && !q.settings.DropOldest && q.count(e.Tenant, waiting)+more[f] > limit {
				return uid
			}
		}
	}
	return ""
}

// fresh are the events that a commit would append to their queues.
func (m *Model) fresh(l *modelLane, events []millrace.CommitEvent) []millrace.CommitEvent {
	var fresh []millrace.CommitEvent
	seen, from := map[millrace.Digest]bool{}, map[uint64]bool{}
	for _, e := range events {
		_, known := m.first(l, e)
		switch {
		case known, e.From == 0 && e.Remembered && seen[e.Digest]:
		case e.From != 0 && (from[e.From] || l.heldBy(e.From) == nil):
		default:
			seen[e.Digest] = seen[e.Digest] || e.Remembered
			from[e.From] = true
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// first is the stamp that an event's id had before, if it is known.
func (m *Model) first(l *modelLane, e millrace.CommitEvent) (millrace.Stamp, bool) {
	if !e.Remembered || e.From != 0 {
		return millrace.Stamp{}, false
	}
	s, known := l.digests[e.Digest]
	return s.Stamp, known && m.remembers(l, s)
}

// take stores one event of a commit, or holds it, or says why not.
func (m *Model) take(l *modelLane, e millrace.CommitEvent) millrace.Stamp {
	if s, known := m.first(l, e); known {
		l.stats.Duplicates++
		s.Duplicate = true
		return s
	}
	if e.From != 0 {
		h := l.heldBy(e.From)
		if h == nil {
			return millrace.Stamp{Gone: true}
		}
		l.unhold(h)
	}
	if e.Delay > 0 {
		return l.hold(e)
	}
	return m.stamp(l, e)
}

// next is the lane's next number.
func (l *modelLane) next() uint64 {
	l.n = max(l.n+1, uint64(l.t-millrace.SeqEpoch)*millrace.SeqPerMilli)
	return l.n*l.lanes + l.lane
}

func (l *modelLane) hold(e millrace.CommitEvent) millrace.Stamp {
	due := l.t + whole(e.Delay)
	l.held = append(l.held, &modelHeld{
		name: l.next(), tenant: e.Tenant, id: e.ID, body: slices.Clone(e.Body), due: due, next: due,
	})
	s := millrace.Stamp{DueAt: at(due)}
	if e.Remembered {
		l.digests[e.Digest] = modelStamp{s, due}
	}
	return s
}

func (l *modelLane) heldBy(name uint64) *modelHeld {
	for _, h := range l.held {
		if h.name == name {
			return h
		}
	}
	return nil
}

func (l *modelLane) unhold(gone *modelHeld) {
	l.held = slices.DeleteFunc(l.held, func(h *modelHeld) bool { return h == gone })
}

func (m *Model) stamp(l *modelLane, e millrace.CommitEvent) millrace.Stamp {
	s := millrace.Stamp{Seq: l.next(), Sinks: len(e.Queues)}
	for _, uid := range e.Batches {
		if !l.subs[uid].settings.Disabled {
			s.Sinks++
		}
	}
	if e.Key != "" {
		s.Prev = l.last[[2]string{e.Tenant, e.Key}]
		l.last[[2]string{e.Tenant, e.Key}] = s.Seq
	}
	if e.Remembered {
		l.digests[e.Digest] = modelStamp{s, l.t}
	}
	l.count(e, s.Sinks)
	m.show(l, e, s)
	for _, uid := range e.Batches {
		m.collect(l, uid, s.Seq, modelEvent{seq: s.Seq, prev: s.Prev, recorded: l.t, body: slices.Clone(e.Body)})
	}
	for _, uid := range e.Queues {
		msg := &modelMessage{
			name: s.Seq, seq: s.Seq, prev: s.Prev, recorded: l.t, tenant: e.Tenant, key: e.Key, body: slices.Clone(e.Body),
		}
		m.append(l, l.queues[uid], msg)
		l.openFor(msg, uid, e.Operations)
		m.dropOldest(l, l.queues[uid], e.Tenant)
	}
	return s
}

// openFor opens the operation of a published message, if its queue is tracked: the first
// of an event under the seq, each further one under the lane's next number.
func (l *modelLane) openFor(msg *modelMessage, uid string, openings []millrace.Opening) {
	i := slices.IndexFunc(openings, func(o millrace.Opening) bool { return o.Queue == uid })
	switch {
	case i == 0:
		l.open(msg, msg.name, openings[0])
	case i > 0:
		l.open(msg, l.next(), openings[i])
	}
}

// append puts a message into a queue, the last of its tenant and of its key.
func (m *Model) append(l *modelLane, q *modelQueue, msg *modelMessage) {
	l.places++
	msg.place = l.places
	q.messages = append(q.messages, msg)
	m.wait(l, q, msg.tenant)
}

// dropOldest drops one message of a tenant that has more than the queue allows.
func (m *Model) dropOldest(l *modelLane, q *modelQueue, tenant string) {
	s := q.settings
	if !s.DropOldest || s.MaxLength == 0 || q.count(tenant, waiting) <= s.MaxLength {
		return
	}
	for _, msg := range q.messages {
		if msg.tenant == tenant && msg.state == waiting {
			m.cancel(l, msg)
			l.drop(q, msg)
			l.exits = append(l.exits, millrace.Exit{Queue: s.UID, Name: msg.name, Reason: millrace.ReasonMaxLength})
			return
		}
	}
}

// drop removes a message and counts it.
func (l *modelLane) drop(q *modelQueue, msg *modelMessage) {
	q.remove(msg)
	q.dropped++
	l.stats.Dropped++
}

func (l *modelLane) count(e millrace.CommitEvent, sinks int) {
	l.stats.Published++
	if sinks == 0 {
		l.stats.Unrouted++
	}
	topic := l.topics[e.Topic]
	l.topics[e.Topic] = millrace.TopicStats{Name: e.Topic, Events: topic.Events + 1, LastEventAt: at(l.t)}
}

// Held finds a delayed event: of several, the one held last.
func (m *Model) Held(_ context.Context, lane int, tenant, id string) (millrace.HeldEvent, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.HeldEvent{}, err
	}
	defer m.leave()
	h := l.find(tenant, id)
	if h == nil {
		return millrace.HeldEvent{}, millrace.Errorf(millrace.CodeNotFound, "no such event")
	}
	return h.event(), nil
}

func (h *modelHeld) event() millrace.HeldEvent {
	return millrace.HeldEvent{Name: h.name, DueAt: at(h.due), Body: slices.Clone(h.body)}
}

func (l *modelLane) find(tenant, id string) *modelHeld {
	for _, h := range slices.Backward(l.held) {
		if h.tenant == tenant && h.id == id {
			return h
		}
	}
	return nil
}

// CancelHeld takes back the delayed event that Held finds.
func (m *Model) CancelHeld(_ context.Context, lane int, tenant, id string) error {
	l, err := m.enter(lane)
	if err != nil {
		return err
	}
	defer m.leave()
	h := l.find(tenant, id)
	if h == nil {
		return millrace.Errorf(millrace.CodeNotFound, "no such event")
	}
	l.unhold(h)
	return nil
}

// Inject puts events into one queue, under names of the lane.
func (m *Model) Inject(_ context.Context, lane int, in millrace.Inject) error {
	l, err := m.enter(lane)
	if err != nil {
		return err
	}
	defer m.leave()
	if in.Subscription != "" {
		return m.injectBatch(l, in)
	}
	q, err := l.queue(in.Queue)
	if err != nil {
		return err
	}
	m.tick(l, in.Now)
	for _, e := range in.Events {
		msg := &modelMessage{
			name: l.next(), seq: e.Seq, prev: e.Prev, recorded: e.RecordedAt.UnixMilli(),
			tenant: e.Tenant, key: e.Key, body: slices.Clone(e.Body),
		}
		m.append(l, q, msg)
		if e.Opening != nil {
			l.open(msg, msg.name, *e.Opening)
		}
	}
	return nil
}
