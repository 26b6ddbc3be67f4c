package enginetest

import (
	"encoding/binary"
	"time"

	"github.com/millrace-dev/millrace"
)

// How long the tracked queues of a test keep what has finished, unless it says otherwise.
const (
	retention      = time.Hour
	errorRetention = 3 * time.Hour
)

// tracked makes a tracked queue known to every lane and returns its uid.
func (r *rig) tracked(s millrace.QueueSettings) string {
	r.Helper()
	s.Tracked = true
	if s.Retention == 0 {
		s.Retention, s.ErrorRetention = retention, errorRetention
	}
	return r.queueOf(s)
}

// opening begins an operation of its own: about the tenant's link, with the name in its payload.
func (r *rig) opening(uid, tenant, name string) millrace.Opening {
	r.secrets++
	o := millrace.Opening{
		Queue: uid, Name: "queue-" + uid, Type: "sync", Subject: "link:" + tenant, Event: "event-" + name,
		Payload: []byte(`{"name":"` + name + `"}`),
	}
	binary.BigEndian.PutUint64(o.Secret[:], r.secrets)
	return o
}

// tracking gives the events of a commit an opening for each tracked queue, where they have none.
func (r *rig) tracking(events []millrace.CommitEvent) []millrace.CommitEvent {
	all := make([]millrace.CommitEvent, len(events))
	for i, e := range events {
		for _, uid := range e.Queues {
			if r.queues[uid].Tracked && len(events[i].Operations) == 0 {
				e.Operations = append(e.Operations, r.opening(uid, e.Tenant, string(e.Body)))
			}
		}
		all[i] = e
	}
	return all
}

// begun is an operation as it begins now.
func (r *rig) begun(o millrace.Opening, number, message uint64, tenant string) millrace.StoredOperation {
	return millrace.StoredOperation{
		ID: millrace.OperationID{Number: number, Secret: o.Secret}, UID: o.Queue, Message: message,
		Operation: millrace.Operation{
			Queue: o.Name, Tenant: tenant, Type: o.Type, Subject: o.Subject, Event: o.Event, Payload: o.Payload,
			Status: millrace.OperationQueued, QueuedAt: r.now,
		},
	}
}

// starting is the request for an operation; the tenant is the name's first letter, and the body its name.
func (r *rig) starting(q, name string) millrace.Start {
	return millrace.Start{Now: r.now, Tenant: name[:1], Body: []byte(name), Opening: r.opening(q, name[:1], name)}
}

// start begins an operation.
func (r *rig) start(lane int, s millrace.Start) millrace.Started {
	r.Helper()
	done, err := r.Start(r.ctx(), lane, s)
	r.ok(err)
	return done
}

// starts begins one operation per name and returns their numbers.
func (r *rig) starts(lane int, q string, names ...string) []uint64 {
	r.Helper()
	var numbers []uint64
	for _, name := range names {
		numbers = append(numbers, r.start(lane, r.starting(q, name)).ID.Number)
	}
	return numbers
}

// deduped makes a start one that is not to be open twice.
func deduped(s millrace.Start, what string) millrace.Start {
	s.Deduped = true
	s.Dedupe = millrace.DigestOf(&millrace.Event{ID: what})
	return s
}

// operation reads an operation.
func (r *rig) operation(lane int, number uint64) millrace.StoredOperation {
	r.Helper()
	op, err := r.Operation(r.ctx(), lane, millrace.ReadOperation{Now: r.now, Number: number})
	r.ok(err)
	return op
}

// forgotten fails unless an operation is found no more.
func (r *rig) forgotten(lane int, number uint64) {
	r.Helper()
	_, err := r.Operation(r.ctx(), lane, millrace.ReadOperation{Now: r.now, Number: number})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.CancelOperation(r.ctx(), lane, r.now, number)
	r.refused(err, millrace.CodeNotFound)
}

// is fails unless operations have a status.
func (r *rig) is(lane int, status millrace.OperationStatus, numbers ...uint64) {
	r.Helper()
	for _, number := range numbers {
		if got := r.operation(lane, number).Status; got != status {
			r.Errorf("operation %d is %s, want %s", number, got, status)
		}
	}
}

// moved fails unless an operation is as it was but for a change, and returns it.
func (r *rig) moved(lane int, was millrace.StoredOperation, change func(*millrace.StoredOperation)) millrace.StoredOperation {
	r.Helper()
	if was.Progress != nil {
		told := *was.Progress
		was.Progress = &told
	}
	change(&was)
	got := r.operation(lane, was.ID.Number)
	r.same("operation", got, was)
	return got
}

// ended is how an operation ends now.
func (r *rig) ended(status millrace.OperationStatus, keep time.Duration) func(*millrace.StoredOperation) {
	return func(op *millrace.StoredOperation) {
		op.Status, op.FinishedAt, op.ExpiresAt = status, r.now, r.now.Add(keep)
	}
}

// running is how an operation's attempt begins now.
func (r *rig) running(attempt int) func(*millrace.StoredOperation) {
	return func(op *millrace.StoredOperation) {
		op.Status, op.Attempts, op.StartedAt, op.Progress = millrace.OperationRunning, attempt, r.now, nil
	}
}

// again is how an operation waits for another attempt.
func again(err string) func(*millrace.StoredOperation) {
	return func(op *millrace.StoredOperation) { op.Status, op.Error = millrace.OperationQueued, err }
}

// cancel cancels operations, or asks for it, and returns the last of them.
func (r *rig) cancel(lane int, numbers ...uint64) (last millrace.StoredOperation) {
	r.Helper()
	for _, number := range numbers {
		op, err := r.CancelOperation(r.ctx(), lane, r.now, number)
		r.ok(err)
		r.same("what a cancel answers", op, r.operation(lane, number))
		last = op
	}
	return last
}

// reports tells of the progress of the i-th message of a lease.
func (r *rig) reports(lane int, h held, i, percent int, note string) error {
	m := h.Messages[i]
	return r.Report(r.ctx(), lane, millrace.ProgressReport{
		Now: r.now, Number: m.Operation.Number, Name: m.Name, Token: h.token, Progress: millrace.Progress{Percent: percent, Note: note},
	})
}

// list reads one page of operations.
func (r *rig) list(lane int, p millrace.OperationPage) (list []millrace.StoredOperation, next uint64) {
	r.Helper()
	p.Now = r.now
	if p.Limit == 0 {
		p.Limit = 1000
	}
	list, next, err := r.ListOperations(r.ctx(), lane, p)
	r.ok(err)
	return list, next
}

// numbers are the numbers of a page of operations.
func (r *rig) numbers(lane int, p millrace.OperationPage) []uint64 {
	r.Helper()
	numbers := []uint64{}
	list, _ := r.list(lane, p)
	for _, op := range list {
		numbers = append(numbers, op.ID.Number)
	}
	return numbers
}

// everyOperation lists all operations of a queue, page by page.
func (r *rig) everyOperation(lane int, q string) []millrace.StoredOperation {
	r.Helper()
	var all []millrace.StoredOperation
	p := millrace.OperationPage{Queue: q}
	for {
		list, next := r.list(lane, p)
		all = append(all, list...)
		if next == 0 {
			return all
		}
		p.Before = next
	}
}

// agree fails the test unless what the tracked queues hold and what their operations say is the same.
func (r *rig) agree() {
	r.Helper()
	for uid, s := range r.queues {
		for lane := 0; s.Tracked && lane < r.config.Lanes; lane++ {
			r.agreeIn(lane, uid)
		}
	}
}

func (r *rig) agreeIn(lane int, q string) {
	r.Helper()
	stats := r.stats(lane, q)
	latest, open := map[uint64]millrace.StoredOperation{}, map[millrace.OperationStatus]int64{}
	for _, op := range r.everyOperation(lane, q) {
		later, told := latest[op.Message]
		switch {
		case told && !op.Status.Finished():
			r.Errorf("operation %d is %s, though message %d has a later one, %d", op.ID.Number, op.Status, op.Message, later.ID.Number)
		case !told:
			latest[op.Message] = op
		}
		open[op.Status]++
	}
	if n := open[millrace.OperationRunning]; n != stats.Leased {
		r.Errorf("%d operations of %s run in lane %d, %d messages are leased", n, q, lane, stats.Leased)
	}
	if n := open[millrace.OperationQueued]; n != stats.Ready+stats.Delayed-stats.Cancelled {
		r.Errorf("%d operations of %s wait in lane %d, its messages: %+v", n, q, lane, stats)
	}
	if stats.Ready+stats.Leased+stats.Delayed+stats.Dead > 0 {
		r.agreeShown(lane, q, latest)
	}
}

// agreeShown compares each message that is shown with its latest operation.
func (r *rig) agreeShown(lane int, q string, latest map[uint64]millrace.StoredOperation) {
	r.Helper()
	for _, tenant := range r.tenants(lane, q, "", 1000) {
		waiting, err := r.Peek(r.ctx(), lane, millrace.Peek{Queue: q, Tenant: tenant.Tenant, Limit: 1000})
		r.ok(err)
		for _, m := range waiting {
			if op := latest[m.Name]; op.Status != millrace.OperationQueued || op.Tenant != m.Tenant || op.Attempts != m.Attempts {
				r.Errorf("message %d of %s, a %s's, waits after %d attempts; its operation: %+v", m.Name, q, m.Tenant, m.Attempts, op)
			}
		}
	}
	for _, m := range r.dead(lane, q, "") {
		if op, kept := latest[m.Name]; kept && (op.Status != millrace.OperationError || op.Error != m.Error) {
			r.Errorf("message %d of %s is dead of %q; its operation: %+v", m.Name, q, m.Error, op)
		}
	}
}
