package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func deadLetterLeaves(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{DeadRetention: time.Minute})
	names := r.bury(0, q, "a1", "b1")
	one, two := r.operation(0, names[0]), r.operation(0, names[1])
	_, _, err := r.DropDead(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: q, Names: names[:1]})
	r.ok(err)
	r.moved(0, one, func(*millrace.StoredOperation) {})
	r.pass(minute)
	r.same("forgotten", r.step(0).Forgotten, 1)
	r.moved(0, two, func(*millrace.StoredOperation) {})
	r.same("status", two.Status, millrace.OperationError)
}

func redriveOpens(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxAttempts: 2})
	r.each(func(lane int) {
		name := r.bury(lane, q, "a1")[0]
		old := r.operation(lane, name)
		r.pass(time.Second)
		o := r.opening(q, "z", "anew")
		r.redrive(lane, millrace.DeadOf{Queue: q, Names: []uint64{name}, Openings: []millrace.Opening{o}})
		r.moved(lane, old, func(*millrace.StoredOperation) {})
		list, _ := r.list(lane, millrace.OperationPage{Queue: q})
		number := list[0].ID.Number
		op := r.begun(o, number, name, "a")
		r.same("operations", list, []millrace.StoredOperation{op, old})
		if number <= name || millrace.LaneOfSeq(number, c.Lanes) != lane {
			t.Errorf("a redriven message %d has the operation %d", name, number)
		}
		h := r.leased(lane, q, 1)
		r.same("leased with", h.Messages[0].Operation, op.ID)
		op = r.moved(lane, op, r.running(1))
		r.settled(lane, q, millrace.Ack, h.items()...)
		r.moved(lane, op, r.ended(millrace.OperationSuccess, retention))
		r.moved(lane, old, func(*millrace.StoredOperation) {})
	})
}

func redriveNumbers(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{Ordered: true})
	names := r.bury(0, q, "a1", "b1", "c1")
	asked := []uint64{names[2], 77, names[0], names[1]}
	done, _ := r.redrive(0, millrace.DeadOf{Queue: q, Names: asked})
	r.same("redriven", done, 3)
	next := r.publish(0, event("d", "d1", q))[0].Seq
	var of []uint64
	list, _ := r.list(0, millrace.OperationPage{Queue: q, Status: millrace.OperationQueued, Before: next})
	for i, op := range slices.Backward(list) {
		of = append(of, op.Message)
		r.same("number", op.ID.Number, next-uint64((i+1)*c.Lanes))
		r.same("event", op.Event, "event-"+fmt.Sprint(op.Message))
	}
	r.same("messages by number", of, names)
}

func redriveNeedsOpenings(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	names := r.bury(0, q, "a1")
	for _, d := range []millrace.DeadOf{
		{Now: r.now, Queue: q, All: true, Max: 10},
		{Now: r.now, Queue: q, Names: names},
	} {
		_, _, err := r.Redrive(r.ctx(), 0, d)
		r.refused(err, millrace.CodeInvalid)
	}
	r.counts(0, q, 0, 0, 0, 1)
	_, _, err := r.DropDead(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: q, All: true, Max: 10})
	r.ok(err)
	r.counts(0, q, 0, 0, 0, 0)
}

func onceIsRefused(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	number := r.starts(0, q, "a1")[0]
	_, err := r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 1, MaxBytes: 1, Token: r.token()})
	r.refused(err, millrace.CodeInvalid)
	r.is(0, millrace.OperationQueued, number)
	r.counts(0, q, 1, 0, 0, 0)
}

// operationsReopened opens a store again that has an operation in every status.
func operationsReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "b1", "c1", "d1", "e1", "f1", "g1")
		open := r.start(lane, deduped(r.starting(q, "h1"), "once"))
		h := r.leased(lane, q, 6)
		items := h.items()
		items[0].Output, items[1].Error, items[2].Error = []byte(`[1]`), "bad", "later"
		r.settled(lane, q, millrace.Ack, items[0])
		r.settled(lane, q, millrace.Bury, items[1])
		r.settled(lane, q, millrace.Retry, items[2])
		r.ok(r.reports(lane, h, 3, 40, "cloning"))
		r.cancel(lane, numbers[4], numbers[6])
		before, stats := r.everyOperation(lane, q), r.stats(lane, q)
		counts, total := r.count(lane, q, millrace.Minutes)
		r.reopen()
		r.same("operations", r.everyOperation(lane, q), before)
		r.same("by subject", r.numbers(lane, millrace.OperationPage{Subject: "link:d"}), numbers[3:4])
		r.same("stats", r.stats(lane, q), stats)
		same, sameTotal := r.count(lane, q, millrace.Minutes)
		r.same("counts", same, counts)
		r.same("total", sameTotal, total)
		r.same("dedupe", r.start(lane, deduped(r.starting(q, "h2"), "once")).ID, open.ID)
		r.same("told", r.extend(lane, q, minute, items[3:6]...).Cancelled, []int{1})
		r.ok(r.reports(lane, h, 3, 20, "again"))
		r.same("progress", r.operation(lane, numbers[3]).Progress, &millrace.Progress{Percent: 40, Note: "again"})
		r.settled(lane, q, millrace.Ack, items[3:6]...)
		left := r.lease(lane, q, 9).names()
		slices.Sort(left)
		r.same("what is left", left, []string{"c1", "h1"})
		r.pass(retention + time.Minute)
		r.same("forgotten", r.step(lane).Ended, 5)
	})
}
