package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// modelOperation is an operation, open or finished.
type modelOperation struct {
	millrace.StoredOperation
	ready   int64 // from when it could have been leased for the first time
	watched bool
	dedupe  *millrace.Digest
}

// open begins the operation of a message that is in its queue now.
func (l *modelLane) open(msg *modelMessage, number uint64, o millrace.Opening) *modelOperation {
	op := &modelOperation{ready: max(l.t, msg.due)}
	op.ID = millrace.OperationID{Number: number, Secret: o.Secret}
	op.UID, op.Message = o.Queue, msg.name
	op.Operation = millrace.Operation{
		Queue: o.Name, Tenant: msg.tenant, Type: o.Type, Subject: o.Subject, Event: o.Event, Payload: slices.Clone(o.Payload),
		Status: millrace.OperationQueued, QueuedAt: at(l.t),
	}
	msg.operation = op
	l.operations = append(l.operations, op)
	return op
}

// cancelled tells whether a message waits in vain: its operation was cancelled.
func (msg *modelMessage) cancelled() bool {
	return msg.operation != nil && msg.operation.Status == millrace.OperationCancelled
}

// unwanted tells whether a leased message's operation is to be cancelled.
func (msg *modelMessage) unwanted() bool {
	return msg.operation != nil && msg.operation.CancelRequested
}

func (msg *modelMessage) operationID() millrace.OperationID {
	if msg.operation == nil {
		return millrace.OperationID{}
	}
	return msg.operation.ID
}

// run makes the operation of a message that was leased run.
func (m *Model) run(l *modelLane, msg *modelMessage) {
	op := msg.operation
	if op == nil {
		return
	}
	if op.Attempts == 0 {
		l.counted(op, func(c *millrace.OperationCount) { add(&c.Queued, l.t-op.ready) })
	}
	op.Status, op.StartedAt, op.Progress = millrace.OperationRunning, at(l.t), nil
	op.Attempts++
	m.changed(l, op)
}

// requeue makes the operation of a message that waits again wait too.
func (m *Model) requeue(l *modelLane, msg *modelMessage, err string) {
	op := msg.operation
	if op == nil {
		return
	}
	op.Status, op.Error = millrace.OperationQueued, err
	l.counted(op, func(c *millrace.OperationCount) { c.Retried++ })
	m.changed(l, op)
}

// succeed ends the operation of a message that was acked.
func (m *Model) succeed(l *modelLane, msg *modelMessage, output []byte) {
	op := msg.operation
	if op == nil {
		return
	}
	op.Output = slices.Clone(output)
	l.counted(op, func(c *millrace.OperationCount) {
		c.Success++
		add(&c.Running, l.t-op.StartedAt.UnixMilli())
	})
	m.end(l, op, millrace.OperationSuccess)
}

// fail ends the operation of a message that is dead.
func (m *Model) fail(l *modelLane, msg *modelMessage, err string) {
	op := msg.operation
	if op == nil {
		return
	}
	op.Error = err
	l.counted(op, func(c *millrace.OperationCount) {
		c.Error++
		add(&c.Running, l.t-op.StartedAt.UnixMilli())
	})
	m.end(l, op, millrace.OperationError)
}

// stop lets a leased message go whose operation is to be cancelled.
func (m *Model) stop(l *modelLane, q *modelQueue, msg *modelMessage, err string) {
	msg.operation.Error = err
	m.cancel(l, msg)
	q.remove(msg)
	m.wait(l, q, msg.tenant)
}

// cancel ends the operation of a message that will not be leased again, if it has not finished.
func (m *Model) cancel(l *modelLane, msg *modelMessage) {
	if op := msg.operation; op != nil && !op.Status.Finished() {
		l.counted(op, func(c *millrace.OperationCount) { c.Cancelled++ })
		m.end(l, op, millrace.OperationCancelled)
	}
}

// end finishes an operation.
func (m *Model) end(l *modelLane, op *modelOperation, status millrace.OperationStatus) {
	op.Status, op.FinishedAt, op.dedupe = status, at(l.t), nil
	settings, known := l.retired[op.UID]
	if !known {
		settings = l.queues[op.UID].settings
	}
	keep := settings.Retention
	if status == millrace.OperationError {
		keep = settings.ErrorRetention
	}
	op.ExpiresAt = at(l.t + whole(keep))
	m.changed(l, op)
}

// changed sends the hint that somebody waits for.
func (m *Model) changed(l *modelLane, op *modelOperation) {
	if op.watched {
		op.watched = false
		m.hints = append(m.hints, millrace.Hint{Kind: millrace.HintOperation, Lane: int(l.lane), Operation: op.ID.Number})
	}
}

// forget frees an operation.
func (l *modelLane) forget(gone *modelOperation) {
	l.operations = slices.DeleteFunc(l.operations, func(op *modelOperation) bool { return op == gone })
}

// operationEntries are due when the minute in which an operation expires is over.
func (l *modelLane) operationEntries() []dueEntry {
	var all []dueEntry
	for _, op := range l.operations {
		if op.Status.Finished() {
			due := (op.ExpiresAt.UnixMilli()/60_000 + 1) * 60_000
			all = append(all, dueEntry{at: due, kind: 'O', uid: op.UID, name: op.ID.Number, operation: op})
		}
	}
	return all
}

// Start puts one event into one tracked queue.
func (m *Model) Start(_ context.Context, lane int, s millrace.Start) (millrace.Started, error) {
	l, q, err := m.enterQueue(lane, s.Opening.Queue)
	if err != nil {
		return millrace.Started{}, err
	}
	defer m.leave()
	if !q.settings.Tracked {
		return millrace.Started{}, millrace.Errorf(millrace.CodeNotTracked, "the queue is not tracked")
	}
	m.tick(l, s.Now)
	if op := l.opened(s); op != nil {
		return millrace.Started{ID: op.ID, Status: op.Status, Existing: true, Due: l.due()}, nil
	}
	if limit := q.settings.MaxLength; limit > 0 && !q.settings.DropOldest && q.count(s.Tenant, waiting) >= limit {
		return millrace.Started{}, &millrace.Error{Code: millrace.CodeFull, Sink: q.settings.UID}
	}
	before := l.due()
	l.exits = nil
	op := m.enqueue(l, q, s)
	l.stats.Published++
	return millrace.Started{ID: op.ID, Status: op.Status, Dropped: l.exits, Due: m.hintDue(l, before)}, nil
}

// opened is the operation of the same dedupe that has not finished, if there is one.
func (l *modelLane) opened(s millrace.Start) *modelOperation {
	for _, op := range l.operations {
		if s.Deduped && op.dedupe != nil && *op.dedupe == s.Dedupe {
			return op
		}
	}
	return nil
}

// enqueue stores the message of a start and opens its operation.
func (m *Model) enqueue(l *modelLane, q *modelQueue, s millrace.Start) *modelOperation {
	name := l.next()
	msg := &modelMessage{name: name, seq: name, recorded: l.t, tenant: s.Tenant, key: s.Key, body: slices.Clone(s.Body)}
	if delay := whole(s.Delay); delay > 0 {
		msg.state, msg.due = delayed, l.t+delay
	}
	m.append(l, q, msg)
	op := l.open(msg, name, s.Opening)
	if s.Deduped {
		op.dedupe = &s.Dedupe
	}
	if msg.state == waiting {
		m.dropOldest(l, q, s.Tenant)
	}
	return op
}

// CancelOperation cancels an operation, or asks for it.
func (m *Model) CancelOperation(_ context.Context, lane int, now time.Time, number uint64) (millrace.StoredOperation, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	defer m.leave()
	op, err := l.shown(m.seen(l, now), number)
	if err != nil {
		return millrace.StoredOperation{}, err
	}
	if op.Status.Finished() {
		return millrace.StoredOperation{}, millrace.Errorf(millrace.CodeFinished, "it has finished")
	}
	m.tick(l, now)
	before := l.due()
	switch {
	case op.Status == millrace.OperationQueued:
		l.counted(op, func(c *millrace.OperationCount) { c.Cancelled++ })
		m.end(l, op, millrace.OperationCancelled)
	case !op.CancelRequested:
		op.CancelRequested = true
		m.changed(l, op)
	}
	m.hintDue(l, before)
	return op.copied(), nil
}

// Report tells of progress.
func (m *Model) Report(_ context.Context, lane int, p millrace.ProgressReport) error {
	l, err := m.enter(lane)
	if err != nil {
		return err
	}
	defer m.leave()
	t := m.seen(l, p.Now)
	op, err := l.shown(t, p.Number)
	if err != nil || op.Message != p.Name || l.queues[op.UID] == nil {
		return millrace.Errorf(millrace.CodeLost, "it is not of a lease")
	}
	msg := l.queues[op.UID].live(t, millrace.SettleItem{Name: p.Name, Token: p.Token})
	if msg == nil || msg.operation != op {
		return millrace.Errorf(millrace.CodeLost, "the lease is not live")
	}
	m.tick(l, p.Now)
	told := p.Progress
	if op.Progress != nil {
		told.Percent = max(told.Percent, op.Progress.Percent)
	}
	op.Progress = &told
	m.changed(l, op)
	return nil
}
