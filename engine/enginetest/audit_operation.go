package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace"
)

// tracked is what a history says of operations, and what was found of them.
type tracked struct {
	asked     map[uint64]bool        // a cancel of the number may have happened
	cancelled map[place]int          // index of the acknowledgement that it is CANCELLED
	last      map[uint64]LedgerEvent // as it was observed last
	found     map[string]millrace.StoredOperation
	statuses  map[millrace.OperationStatus]int64
	absent    int // of those that may have been started
}

func newTracked() tracked {
	return tracked{
		asked: map[uint64]bool{}, cancelled: map[place]int{}, last: map[uint64]LedgerEvent{},
		found: map[string]millrace.StoredOperation{}, statuses: map[millrace.OperationStatus]int64{},
	}
}

// readTracked takes the invocation of a start or a cancel in.
func (a *audit) readTracked(e Entry, outcome Phase, at int) {
	m := e.Events[0]
	if e.Op == "cancel" {
		a.tracked.asked[m.Seq] = a.tracked.asked[m.Seq] || outcome != Refused
		return
	}
	a.fates[m.ID] = &fate{LedgerEvent: m, lane: e.Lane, invoked: at, uncertain: outcome != Refused, started: true}
}

// readTold takes in what an acknowledged start, cancel or look told of an operation.
func (a *audit) readTold(call, e Entry, at int) {
	told := e.Events[0]
	if e.Op == "start" {
		f := a.fates[call.Events[0].ID]
		f.done, f.stored, f.Seq = true, true, told.Seq
		if other, taken := a.bySeq[told.Seq]; taken {
			a.wrong("events %s and %s share seq %d", f.ID, other, told.Seq)
		}
		a.bySeq[told.Seq] = f.ID
	}
	if e.Op == "cancel" && told.Status == millrace.OperationCancelled {
		a.tracked.cancelled[place{trackedQueue, told.Seq}] = at
	}
	a.follows(told)
}

// follows compares how an operation stands with how it was seen before: there must be a way from there to here.
func (a *audit) follows(now LedgerEvent) {
	was, seen := a.tracked.last[now.Seq]
	a.tracked.last[now.Seq] = now
	if seen && !leads(was, now) {
		a.wrong("operation %d was %s after %d attempts (%d %%), and then %s after %d (%d %%)",
			now.Seq, was.Status, was.Attempt, was.Percent, now.Status, now.Attempt, now.Percent)
	}
}

// leads tells whether an operation can come from one standing to another: nothing leaves an
// end, attempts and their progress never fall, and from QUEUED only an attempt or a cancel leads away.
func leads(was, now LedgerEvent) bool {
	more := now.Attempt - was.Attempt
	switch {
	case was.Status.Finished():
		return now.Status == was.Status && more == 0
	case more < 0, more == 0 && now.Percent < was.Percent:
		return false
	case was.Status == millrace.OperationQueued && more == 0:
		return now.Status == millrace.OperationQueued || now.Status == millrace.OperationCancelled
	}
	return true
}

// judgeAgreement compares what the tracked queue holds with what its operations say, before anything is touched.
func (a *audit) judgeAgreement(ctx context.Context) error {
	for lane := range a.engine.Identity().Lanes {
		s, err := a.engine.Stats(ctx, lane, trackedQueue)
		if err != nil {
			return fmt.Errorf("compare operations: %w", err)
		}
		all, err := a.operations(ctx, lane)
		if err != nil {
			return err
		}
		n := map[millrace.OperationStatus]int64{}
		for _, op := range all {
			n[op.Status]++
			a.follows(observed(op))
		}
		if n[millrace.OperationRunning] != s.Leased || n[millrace.OperationQueued] != s.Ready+s.Delayed-s.Cancelled || n[millrace.OperationError] != s.Dead {
			a.wrong("in lane %d the operations are %v and their messages %+v", lane, n, s)
		}
	}
	return nil
}

// operations lists all operations of the tracked queue in a lane.
func (a *audit) operations(ctx context.Context, lane int) (all []millrace.StoredOperation, err error) {
	p := millrace.OperationPage{Queue: trackedQueue, Limit: 1000}
	for {
		list, next, err := a.engine.ListOperations(ctx, lane, p)
		if err != nil {
			return nil, fmt.Errorf("list operations: %w", err)
		}
		all = append(all, list...)
		if next == 0 {
			return all, nil
		}
		p.Before = next
	}
}

// judgeOperations compares, when the store is drained, each operation with what is known of its message, and their number with the counts.
func (a *audit) judgeOperations(ctx context.Context) error {
	for lane := range a.engine.Identity().Lanes {
		all, err := a.operations(ctx, lane)
		if err != nil {
			return err
		}
		n, attempted := map[millrace.OperationStatus]int64{}, int64(0)
		for _, op := range all {
			if _, twice := a.tracked.found[op.Event]; twice {
				a.wrong("event %s has two operations", op.Event)
			}
			a.tracked.found[op.Event] = op
			a.follows(observed(op))
			n[op.Status]++
			if op.Attempts > 0 {
				attempted++
			}
		}
		a.tracked.statuses[millrace.OperationError] += n[millrace.OperationError]
		if err := a.judgeTally(ctx, lane, n, attempted); err != nil {
			return err
		}
	}
	for _, f := range a.fates {
		if f.in(trackedQueue) {
			a.judgeOperation(f)
		}
	}
	if dead, failed := a.dead[trackedQueue], a.tracked.statuses[millrace.OperationError]; dead != failed {
		a.wrong("queue %s has %d dead letters, and %d operations that failed", trackedQueue, dead, failed)
	}
	return nil
}

// judgeTally compares the counts of a lane with its operations: each ended once and was counted once.
func (a *audit) judgeTally(ctx context.Context, lane int, n map[millrace.OperationStatus]int64, attempted int64) error {
	counts, total, err := a.engine.OperationCounts(ctx, lane, millrace.CountQuery{
		Queue: trackedQueue, Bucket: millrace.Days, Since: time.UnixMilli(0), Until: time.Now().AddDate(1, 0, 0),
	})
	if err != nil {
		return fmt.Errorf("count operations: %w", err)
	}
	want := millrace.Tally{
		Success: n[millrace.OperationSuccess], Error: n[millrace.OperationError], Cancelled: n[millrace.OperationCancelled], Retried: total.Retried,
	}
	sum, queued, ran := millrace.Tally{}, int64(0), int64(0)
	for _, c := range counts {
		sum = sum.Plus(c.Tally)
		queued, ran = queued+inAll(c.Queued), ran+inAll(c.Running)
	}
	if total != want || sum != want || queued != attempted || ran != want.Success+want.Error {
		a.wrong("lane %d counts %+v, by days %+v, %d first attempts and %d last ones; its operations are %v, %d of them tried",
			lane, total, sum, queued, ran, n, attempted)
	}
	return nil
}

// inAll is how many lengths of time were counted.
func inAll(s millrace.Spans) (n int64) {
	for _, count := range s {
		n += count
	}
	return n
}

// judgeOperation compares one operation with what is known of its message.
func (a *audit) judgeOperation(f *fate) {
	op, there := a.tracked.found[f.ID]
	if !there {
		if f.absent() {
			a.tracked.absent++
		} else {
			a.wrong("event %s of tenant %s has no operation", f.ID, f.Tenant)
		}
		return
	}
	p := place{trackedQueue, op.Message}
	s := a.settlement(p)
	_, drained := a.found[p]
	_, cancelled := a.tracked.cancelled[p]
	may := map[millrace.OperationStatus]bool{
		millrace.OperationSuccess:   drained || s.tried && !cancelled,
		millrace.OperationError:     !drained && (s.tried || op.Attempts == trackedAttempts) && !cancelled && !s.acked,
		millrace.OperationCancelled: !drained && a.tracked.asked[op.ID.Number] && s.done < 0,
	}
	switch {
	case f.Seq != 0 && f.Seq != op.Message, op.Tenant != f.Tenant:
		a.wrong("event %s, message %d, has the operation of message %d of tenant %s", f.ID, f.Seq, op.Message, op.Tenant)
	case !f.uncertain && !f.done:
		a.wrong("event %s was refused and has an operation", f.ID)
	case drained && (s.done >= 0 || cancelled):
		a.wrong("message %d of %s (%s) was settled or cancelled and is there", p.seq, trackedQueue, f.ID)
	case s.done >= 0 && !s.acked && op.Status != millrace.OperationError:
		a.wrong("operation %d (%s) was buried and is %s", op.ID.Number, f.ID, op.Status)
	case !may[op.Status]:
		a.wrong("operation %d (%s) is %s after %d attempts: drained %v, settled %+v, cancelled %v", op.ID.Number, f.ID, op.Status, op.Attempts, drained, *s, cancelled)
	}
}
