package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func expiryPromises() []promise {
	return []promise{
		{"AFinishedOperationIsShownUntilItExpires", expiresExactly},
		{"AnOperationThatHasNotFinishedDoesNotExpire", openStays},
		{"AStepForgetsInBoundedStepsWhenTheMinuteIsOver", stepForgets},
		{"AChangedRetentionCountsForWhatFinishesLater", retentionChanges},
		{"CountsOutliveOperations", countsOutlive},
		{"AWatcherHearsWhenAnOperationIsToBeForgotten", expiryHints},
		{"ExpiryGoesOnAfterAReopen", expiryReopened},
	}
}

// wholeMinute moves the clock of the test to the next minute.
func (r *rig) wholeMinute() { r.now = r.now.Truncate(time.Minute).Add(time.Minute) }

// ends starts an operation for each end and ends it: success, cancelled, error.
func (r *rig) ends(lane int, q string) (success, cancelled, failed uint64) {
	r.Helper()
	numbers := r.starts(lane, q, "a1", "a2", "a3")
	r.cancel(lane, numbers[1])
	h := r.lease(lane, q, 3)
	r.settled(lane, q, millrace.Ack, h.item(0))
	r.settled(lane, q, millrace.Bury, h.item(1))
	return numbers[0], numbers[1], numbers[2]
}

func expiresExactly(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		success, cancelled, failed := r.ends(lane, q)
		r.pass(retention - time.Millisecond)
		r.is(lane, millrace.OperationSuccess, success)
		r.is(lane, millrace.OperationCancelled, cancelled)
		bySubject := millrace.OperationPage{Subject: "link:a"}
		r.same("by subject", r.numbers(lane, bySubject), []uint64{failed, cancelled, success})
		r.pass(time.Millisecond)
		r.forgotten(lane, success)
		r.forgotten(lane, cancelled)
		r.same("by subject then", r.numbers(lane, bySubject), []uint64{failed})
		r.same("by queue then", r.numbers(lane, millrace.OperationPage{Queue: q}), []uint64{failed})
		r.pass(errorRetention - retention - time.Millisecond)
		r.is(lane, millrace.OperationError, failed)
		r.pass(time.Millisecond)
		r.forgotten(lane, failed)
		r.same("by subject at last", r.numbers(lane, bySubject), []uint64{})
		r.pass(time.Minute)
		r.same("forgotten", r.step(lane).Ended, 3)
		r.same("of nothing", r.step(lane).Ended, 0)
	})
}

func openStays(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	numbers := r.starts(0, q, "a1", "b1")
	r.leaseFor(0, q, 1, 1000*time.Hour)
	r.pass(999 * time.Hour)
	r.same("forgotten", r.step(0).Ended, 0)
	r.is(0, millrace.OperationRunning, numbers[0])
	r.is(0, millrace.OperationQueued, numbers[1])
}

func stepForgets(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.tracked(millrace.QueueSettings{}), r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		r.wholeMinute()
		for i := range 25 {
			r.starts(lane, q, fmt.Sprint("a", i))
		}
		r.settled(lane, q, millrace.Ack, r.leased(lane, q, 20).items()...)
		r.starts(lane, other, "a1", "a2")
		h := r.leased(lane, other, 2)
		r.pass(time.Minute - time.Millisecond)
		r.settled(lane, other, millrace.Ack, h.item(0))
		r.pass(time.Millisecond)
		h = r.leased(lane, q, 5) // in the next minute
		r.settled(lane, q, millrace.Ack, h.items()...)
		r.step(lane)
		r.pass(retention - time.Millisecond)
		r.same("in the minute", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.pass(time.Millisecond)
		some, err := r.Step(r.ctx(), lane, r.now, 8)
		r.ok(err)
		r.same("some", some, millrace.Stepped{Ended: 8, More: true})
		some, err = r.Step(r.ctx(), lane, r.now, 13)
		r.ok(err)
		r.same("the rest", some, millrace.Stepped{Ended: 13, Due: time.Minute})
		r.pass(time.Minute)
		r.same("of the next minute", r.step(lane).Ended, 5)
		r.settled(lane, other, millrace.Ack, r.leased(lane, other, 1).items()...)
		r.pass(2 * retention)
		r.same("the last", r.step(lane), millrace.Stepped{Ended: 1, Due: -1})
	})
}

func retentionChanges(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	success, _, failed := r.ends(0, q)
	one, two := r.operation(0, success), r.operation(0, failed)
	r.change(q, func(s *millrace.QueueSettings) { s.Retention, s.ErrorRetention = 2*time.Minute, 1500*time.Microsecond })
	r.moved(0, one, func(*millrace.StoredOperation) {})
	r.moved(0, two, func(*millrace.StoredOperation) {})
	success, cancelled, failed := r.ends(0, q)
	for number, keep := range map[uint64]time.Duration{success: 2 * time.Minute, cancelled: 2 * time.Minute, failed: 2 * time.Millisecond} {
		r.same("expires", r.operation(0, number).ExpiresAt, r.now.Add(keep))
	}
	r.pass(2 * time.Millisecond)
	r.forgotten(0, failed)
	r.is(0, millrace.OperationSuccess, success)
}

func countsOutlive(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.ends(0, q)
	counts, total := r.count(0, q, millrace.Hours)
	r.same("total", total, millrace.Tally{Success: 1, Error: 1, Cancelled: 1})
	r.pass(errorRetention + time.Minute)
	r.same("forgotten", r.step(0).Ended, 3)
	left, same := r.count(0, q, millrace.Hours)
	r.same("counts", left, counts)
	r.same("total then", same, total)
}

func expiryHints(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		numbers := r.starts(lane, q, "a1")
		before := h.count(millrace.HintDue, lane, "")
		r.cancel(lane, numbers...)
		r.waitFor("a hint of its end", func() bool { return h.count(millrace.HintDue, lane, "") > before })
		r.pass(2 * retention)
		r.same("forgotten", r.step(lane).Ended, 1)
		r.starts(lane, q, "b1")
		before = h.count(millrace.HintDue, lane, "")
		r.purge(lane, q, "b", 9)
		r.waitFor("a hint of a purged one's end", func() bool { return h.count(millrace.HintDue, lane, "") > before })
	})
}

func expiryReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		r.ends(lane, q)
		gone := r.tracked(millrace.QueueSettings{})
		number := r.starts(lane, gone, "g1")[0]
		r.remove(gone)
		r.reopen()
		r.sweepAll(lane)
		r.is(lane, millrace.OperationCancelled, number)
		r.pass(retention + time.Minute)
		r.same("forgotten", r.step(lane).Ended, 3)
		r.reopen()
		r.same("left", len(r.everyOperation(lane, q)), 1)
		r.pass(errorRetention)
		r.same("the last", r.step(lane).Ended, 1)
	})
}
