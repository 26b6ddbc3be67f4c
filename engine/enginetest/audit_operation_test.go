package enginetest

import (
	"testing"

	"github.com/millrace-dev/millrace"
)

// operated is a story with operations: one that succeeded, one that failed, one that was cancelled, and two that are open.
func operated(l *Load) map[string]uint64 {
	numbers := map[string]uint64{}
	for _, id := range []string{"won", "failed", "runs", "off", "waits"} {
		done, _ := l.startAs(id, "t", 0)
		numbers[id] = done.Number
	}
	h := l.lease("run", 0, trackedQueue, 3, "c")
	l.report(0, h, 40)
	for id, number := range numbers {
		l.observe("look at "+id, number)
	}
	l.settle("win", 0, trackedQueue, millrace.Ack, h.part(0), 0)
	l.settle("fail", 0, trackedQueue, millrace.Bury, h.part(1), 0)
	l.cancelOne("call off", numbers["off"])
	return numbers
}

// operationTampers are what a faulty engine would do to operations.
func operationTampers() []tamper {
	after := func(do func(m *Model, l *Load, op func(id string) *modelOperation)) func(*Model, *Load) {
		return func(m *Model, l *Load) {
			numbers := operated(l)
			do(m, l, func(id string) *modelOperation {
				for _, op := range m.lanes[0].operations {
					if op.ID.Number == numbers[id] {
						return op
					}
				}
				return nil
			})
		}
	}
	return []tamper{
		{"started lost", "has no operation", after(func(m *Model, _ *Load, op func(string) *modelOperation) {
			forget(m, trackedQueue, "waits")
			m.lanes[0].forget(op("waits"))
		})},
		{"message of an operation lost", "and their messages", after(func(m *Model, _ *Load, _ func(string) *modelOperation) {
			forget(m, trackedQueue, "waits")
		})},
		{"success that runs", "was SUCCESS after", after(func(_ *Model, l *Load, op func(string) *modelOperation) {
			l.observe("look again", op("won").ID.Number)
			op("won").Status = millrace.OperationRunning
		})},
		{"success that failed", "is ERROR after 1 attempts", after(func(_ *Model, _ *Load, op func(string) *modelOperation) {
			op("won").Status = millrace.OperationError
		})},
		{"buried that succeeded", "was buried and is SUCCESS", after(func(_ *Model, _ *Load, op func(string) *modelOperation) {
			op("failed").Status = millrace.OperationSuccess
		})},
		{"cancelled by nobody", "is CANCELLED after", after(func(m *Model, _ *Load, op func(string) *modelOperation) {
			forget(m, trackedQueue, "waits")
			op("waits").Status, op("waits").ExpiresAt = millrace.OperationCancelled, op("off").ExpiresAt
		})},
		{"cancelled comes back", "was CANCELLED after", after(func(_ *Model, _ *Load, op func(string) *modelOperation) {
			op("off").Status = millrace.OperationQueued
		})},
		{"running without a lease", "and their messages", after(func(m *Model, _ *Load, _ func(string) *modelOperation) {
			find(m, trackedQueue, "runs").state = waiting
		})},
		{"attempts that fall", "and then RUNNING after 0", after(func(_ *Model, _ *Load, op func(string) *modelOperation) { op("runs").Attempts = 0 })},
		{"progress that falls", "(40 %), and then", after(func(_ *Model, _ *Load, op func(string) *modelOperation) { op("runs").Progress.Percent = 10 })},
		{"success uncounted", "its operations are", after(func(m *Model, _ *Load, _ func(string) *modelOperation) {
			m.lanes[0].queues[trackedQueue].total.Success--
		})},
		{"two operations of one event", "has two operations", after(func(m *Model, _ *Load, op func(string) *modelOperation) {
			twin := *op("won")
			twin.ID.Number++
			m.lanes[0].operations = append(m.lanes[0].operations, &twin)
		})},
		{"another's operation", "has the operation of message", after(func(_ *Model, _ *Load, op func(string) *modelOperation) { op("won").Tenant = "u" })},
	}
}

func TestAnHonestStoreOfOperationsIsFoundClean(t *testing.T) {
	m, l := story(t)
	operated(l)
	e := Entry{Call: "perhaps", Phase: Invoked, Op: "start", Queue: trackedQueue, Events: []LedgerEvent{{ID: "perhaps", Tenant: "t", Queues: []string{trackedQueue}}}}
	l.Ledger.Record(e)
	if err := Audit(t.Context(), m, l.Ledger.History()); err != nil {
		t.Error(err)
	}
}
