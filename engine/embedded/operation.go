package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// An operation lies on disk: what it begins with is one record, what has become of it another, which is not
// there while it is open and nothing has. Whether it runs, how often it was tried and since when it runs is what
// the index knows of its message anyway.

// operationRecord reads what an operation began with, nil if there is none.
func (l *lane) operationRecord(number uint64) (*operationRecord, error) {
	value, err := l.recordOf(partOperations, number, seqKey(nil, kindOperation, l.no, number))
	if err != nil || value == nil {
		return nil, err
	}
	o, err := decodeOperation(value)
	return &o, err
}

// state reads what has become of an operation.
func (l *lane) state(number uint64) (operationState, error) {
	value, err := l.recordOf(partStates, number, seqKey(nil, kindState, l.no, number))
	if err != nil {
		return operationState{}, err
	}
	return decodeState(value)
}

// recordOf reads a record of an operation, nil if it is not there. Few of them are read before they
// are applied, so those are not indexed: they are searched for in the groups that may have them.
func (l *lane) recordOf(part int, number uint64, key []byte) ([]byte, error) {
	if value, known := l.unappliedRecord(part, number, key); known {
		return value, nil
	}
	disk := overlay{db: l.engine.db}
	return disk.get(key)
}

// unappliedRecord is what a group that may not be applied makes of a record, the last first.
func (l *lane) unappliedRecord(part int, number uint64, key []byte) (value []byte, known bool) {
	if l.open != nil {
		if value, known = l.open.written(part, number, key); known {
			return value, true
		}
	}
	for _, g := range slices.Backward(l.flying) {
		if value, known = g.written(part, number, key); known {
			return value, true
		}
	}
	return nil, false
}

// written is what the group makes of a record, nil if it deletes it, and whether it does anything with it.
func (g *group) written(part int, number uint64, key []byte) (value []byte, known bool) {
	if g.parts[part] == nil || !slices.Contains(g.touched, number) {
		return nil, false
	}
	r := g.parts[part].Reader()
	for {
		kind, k, v, ok, err := r.Next()
		if err != nil {
			panic("embedded: a batch cannot be read: " + err.Error())
		}
		if !ok {
			break
		}
		if string(k) == string(key) {
			known, value = true, nil
			if kind == pebble.InternalKeyKindSet {
				value = append([]byte{}, v...)
			}
		}
	}
	return value, known
}

func (l *lane) writeState(g *group, number uint64, s *operationState) {
	g.touched = append(g.touched, number)
	g.key = seqKey(g.key[:0], kindState, l.no, number)
	g.val = s.append(g.val[:0])
	g.set()
}

// tracked is an operation as a transition finds it.
type tracked struct {
	number uint64
	record *operationRecord
	state  operationState
	held   held // its message, while that is leased
}

// find reads an operation that is shown at a moment.
func (l *lane) find(number uint64, now int64) (*tracked, error) {
	o, err := l.operationRecord(number)
	if err != nil {
		return nil, l.engine.readFailed(err)
	}
	if o == nil {
		return nil, errNoOperation()
	}
	t := &tracked{number: number, record: o}
	if t.state, err = l.state(number); err != nil {
		return nil, l.engine.readFailed(err)
	}
	if t.state.ended() && t.state.expires <= now {
		return nil, errNoOperation()
	}
	t.held = l.leasedBy(o.uid, number, &t.state)
	return t, nil
}

func errNoOperation() error {
	return millrace.Errorf(millrace.CodeNotFound, "there is no such operation, or it has expired")
}

// leasedBy is the message of an operation while it is leased, and makes the state that of this attempt.
func (l *lane) leasedBy(u uid, number uint64, s *operationState) held {
	q := l.queues[u]
	if q == nil || s.ended() {
		return held{}
	}
	h := q.out[s.messageOf(number)]
	if h.state != stateLeased {
		return held{}
	}
	s.attempt(h)
	return h
}

// attempt makes the state of an operation whose message is leased that of this attempt.
func (s *operationState) attempt(h held) {
	s.status = statusRunning
	if n := int64(attemptsOf(h.mark)) + 1; s.attempts != n {
		s.attempts, s.told, s.percent, s.note = n, false, 0, ""
	}
	s.started = h.lease.started
}

// answer is the operation as it is told.
func (t *tracked) answer() millrace.StoredOperation {
	o, s := t.record, &t.state
	out := millrace.StoredOperation{
		ID: millrace.OperationID{Number: t.number, Secret: o.secret}, UID: o.uid.String(), Message: s.messageOf(t.number),
		Operation: millrace.Operation{
			Queue: o.queue, Tenant: o.tenant, Type: o.kind, Subject: o.subject, Event: o.event, Payload: someBytes(o.payload),
			Status: s.shown(), Attempts: int(s.attempts), QueuedAt: milli(o.queued), StartedAt: moment(s.started), ExpiresAt: moment(s.expires),
			FinishedAt: moment(s.finished), Output: someBytes(s.output), Error: s.err, CancelRequested: s.wish,
		},
	}
	if s.told {
		out.Progress = &millrace.Progress{Percent: int(s.percent), Note: s.note}
	}
	return out
}

// shown is the status as it is told.
func (s *operationState) shown() millrace.OperationStatus {
	switch s.status {
	case statusRunning:
		return millrace.OperationRunning
	case statusSuccess:
		return millrace.OperationSuccess
	case statusError:
		return millrace.OperationError
	case statusCancelled:
		return millrace.OperationCancelled
	}
	return millrace.OperationQueued
}

func someBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Operation returns one operation, and with Watch marks it so that its next change is told.
func (e *Engine) Operation(ctx context.Context, lane int, r millrace.ReadOperation) (millrace.StoredOperation, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	defer e.leave()
	var out millrace.StoredOperation
	err = l.do(ctx, func(*group) error {
		t, err := l.find(r.Number, l.seen(r.Now))
		if err != nil {
			return err
		}
		if r.Watch && !t.state.ended() {
			l.watched[r.Number] = true
		}
		out = t.answer()
		return nil
	})
	return out, err
}

// changed tells of a change that somebody waits for.
func (l *lane) changed(g *group, number uint64) {
	if len(l.watched) > 0 && l.watched[number] {
		delete(l.watched, number)
		g.hint(millrace.Hint{Kind: millrace.HintOperation, Lane: l.no, Operation: number})
	}
}

// CancelOperation cancels an operation that is queued, and asks for the end of one that is running.
func (e *Engine) CancelOperation(ctx context.Context, lane int, at time.Time, number uint64) (millrace.StoredOperation, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	defer e.leave()
	var out millrace.StoredOperation
	err = l.transition(ctx, at, func(g *group, now int64) error {
		t, err := l.find(number, now)
		if err != nil {
			return err
		}
		if t.state.ended() {
			return millrace.Errorf(millrace.CodeFinished, "the operation has finished")
		}
		if err := l.cancel(g, t, now); err != nil {
			return e.readFailed(err)
		}
		out = t.answer()
		return nil
	})
	return out, err
}

// cancel ends an operation that waits; its message keeps its place. One that runs is marked.
func (l *lane) cancel(g *group, t *tracked, now int64) error {
	o := t.record
	q, name := l.queues[o.uid], t.state.messageOf(t.number)
	if t.state.status == statusRunning {
		if !t.state.wish {
			l.wish(g, q, t)
		}
		return nil
	}
	known, err := l.ticketOf(o.uid, name)
	if err != nil {
		return err
	}
	l.finish(g, &ended{uid: o.uid, queue: q, name: name, number: t.number, ticket: known, state: &t.state, status: statusCancelled, now: now})
	if q != nil {
		g.key, g.val = queueSeqKey(g.key[:0], kindCancelled, l.no, o.uid, name), g.val[:0]
		g.set()
		q.cancelled++
	}
	return nil
}

// wish marks a running operation.
func (l *lane) wish(g *group, q *queue, t *tracked) {
	t.state.wish = true
	kept := t.state
	if q != nil {
		kept.status = statusOpen
		h := t.held
		h.wish, h.told = true, true
		q.out[t.state.messageOf(t.number)] = h
	}
	l.writeState(g, t.number, &kept)
	l.changed(g, t.number)
}

// Report tells how far a leased message's work has come.
func (e *Engine) Report(ctx context.Context, lane int, p millrace.ProgressReport) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.transition(ctx, p.Now, func(g *group, now int64) error {
		t, err := l.find(p.Number, now)
		if errors.Is(err, millrace.ErrNotFound) {
			return errNotLeased()
		}
		if err != nil {
			return err
		}
		h := t.held
		if t.state.messageOf(p.Number) != p.Name || h.lease == nil || h.lease.token != p.Token || now >= h.lease.due.at {
			return errNotLeased()
		}
		l.report(g, t, p.Progress)
		return nil
	})
}

func errNotLeased() error {
	return millrace.Errorf(millrace.CodeLost, "the message of this operation is not leased under this receipt")
}

func (l *lane) report(g *group, t *tracked, p millrace.Progress) {
	s, h := &t.state, t.held
	s.status = statusOpen
	s.told, s.percent, s.note = true, max(s.percent, int64(p.Percent)), p.Note
	h.told = true
	l.queues[t.record.uid].out[t.state.messageOf(t.number)] = h
	l.writeState(g, t.number, s)
	l.changed(g, t.number)
}
