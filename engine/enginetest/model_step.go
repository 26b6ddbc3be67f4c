package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// dueEntry is something that happens at a time: B a batch is ready, D a retry
// returns, E a delayed event is handed out, K a park ends, L a lease ends, O an
// operation is forgotten, T a batch was pending too long, X a dead letter and Y a dead batch is forgotten.
type dueEntry struct {
	at    int64
	kind  byte
	uid   string
	name  uint64
	msg   *modelMessage
	queue *modelQueue
	held  *modelHeld
	sub   *modelSub
	batch *modelBatch

	operation *modelOperation
}

// entries are all of a lane's, in the order of Step.
func (l *modelLane) entries() []dueEntry {
	var all []dueEntry
	for uid, q := range l.queues {
		for _, msg := range q.messages {
			if msg.due > 0 {
				all = append(all, dueEntry{at: msg.due, kind: " LDX"[msg.state], uid: uid, name: msg.name, msg: msg, queue: q})
			}
		}
	}
	for _, h := range l.held {
		all = append(all, dueEntry{at: h.next, kind: 'E', name: h.name, held: h})
	}
	all = append(all, l.batchEntries()...)
	all = append(all, l.operationEntries()...)
	slices.SortFunc(all, dueEntry.compare)
	return all
}

func (e dueEntry) compare(o dueEntry) int {
	order := cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.kind, o.kind), cmp.Compare(e.uid, o.uid))
	if order != 0 || e.kind != 'L' {
		return cmp.Or(order, cmp.Compare(e.name, o.name))
	}
	return cmp.Or(bytes.Compare(e.msg.token[:], o.msg.token[:]), cmp.Compare(e.msg.joined, o.msg.joined))
}

// due is the time until the lane's next entry.
func (l *modelLane) due() time.Duration {
	next := int64(-1)
	earlier := func(at int64) {
		if next < 0 || at < next {
			next = at
		}
	}
	for _, q := range l.queues {
		for _, msg := range q.messages {
			if msg.due > 0 {
				earlier(msg.due)
			}
		}
	}
	for _, h := range l.held {
		earlier(h.next)
	}
	for _, e := range append(l.batchEntries(), l.operationEntries()...) {
		earlier(e.at)
	}
	if next < 0 {
		return -1
	}
	return time.Duration(max(0, next-l.t)) * time.Millisecond
}

// hintDue says when the lane's next entry is due, and hints if that is earlier than before.
func (m *Model) hintDue(l *modelLane, before time.Duration) time.Duration {
	due := l.due()
	if due >= 0 && (before < 0 || due < before) {
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintDue, Lane: int(l.lane), In: due})
	}
	return due
}

// Step does what is due, in its order.
func (m *Model) Step(_ context.Context, lane int, now time.Time, limit int) (millrace.Stepped, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Stepped{}, err
	}
	defer m.leave()
	m.tick(l, now)
	var done millrace.Stepped
	entries := l.entries()
	due := slices.IndexFunc(entries, func(e dueEntry) bool { return e.at > l.t })
	if due >= 0 {
		entries = entries[:due]
	}
	for _, e := range entries[:min(limit, len(entries))] {
		m.stepOne(l, e, &done)
	}
	done.More = len(entries) > limit
	done.Due = l.due()
	return done, nil
}

func (m *Model) stepOne(l *modelLane, e dueEntry, done *millrace.Stepped) {
	switch e.kind {
	case 'D':
		done.Returned++
		e.msg.due = 0
		m.back(l, e.queue, e.msg)
	case 'E':
		done.Events = append(done.Events, e.held.event())
		e.held.next = l.t + whole(handedAgain)
	case 'L':
		done.Expired++
		reason := m.expire(l, e.queue, e.msg)
		if reason == millrace.ReasonAttempts {
			done.Dead++
		}
		done.Exits = append(done.Exits, millrace.Exit{Queue: e.uid, Name: e.name, Reason: reason})
	case 'X':
		done.Forgotten++
		done.Exits = append(done.Exits, millrace.Exit{Queue: e.uid, Name: e.name, Reason: millrace.ReasonRetention})
		l.drop(e.queue, e.msg)
	case 'O':
		done.Ended++
		l.forget(e.operation)
	default:
		m.stepBatch(l, e, done)
	}
}

// expire ends the lease of a message that was not settled, and tells what became of it.
func (m *Model) expire(l *modelLane, q *modelQueue, msg *modelMessage) (reason string) {
	var delay int64
	switch {
	case msg.unwanted():
		m.stop(l, q, msg, millrace.ErrorLeaseEnded)
		return millrace.ReasonCancelled
	case q.exhausted(msg) && !q.settings.Block:
		m.bury(l, q, msg, millrace.ReasonAttempts, millrace.ErrorLeaseEnded)
		return millrace.ReasonAttempts
	case q.exhausted(msg):
		delay = whole(q.settings.BlockDelay)
	}
	m.again(l, q, msg, delay, millrace.ErrorLeaseEnded)
	return millrace.ReasonLeaseEnded
}

// again makes a message that was leased wait, at once or after a delay.
func (m *Model) again(l *modelLane, q *modelQueue, msg *modelMessage, delay int64, err string) {
	m.requeue(l, msg, err)
	if delay > 0 {
		msg.state, msg.due = delayed, l.t+delay
		m.wait(l, q, msg.tenant) // it is under its limit now
		return
	}
	msg.due = 0
	m.back(l, q, msg)
}

func (q *modelQueue) exhausted(msg *modelMessage) bool {
	return q.settings.MaxAttempts > 0 && msg.attempts >= q.settings.MaxAttempts
}

// bury makes a leased message dead.
func (m *Model) bury(l *modelLane, q *modelQueue, msg *modelMessage, reason, err string) {
	msg.state, msg.due = dead, 0
	msg.reason, msg.err, msg.died = reason, err, l.t
	if keep := whole(q.settings.DeadRetention); keep > 0 {
		msg.due = l.t + keep
	}
	q.spent++
	m.fail(l, msg, err)
	m.wait(l, q, msg.tenant)
}
