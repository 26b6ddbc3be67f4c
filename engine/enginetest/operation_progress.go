package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func progressPromises() []promise {
	return []promise{
		{"ProgressRisesAndItsNoteIsReplaced", progressRises},
		{"ProgressIsOfTheLatestAttempt", progressOfLatest},
		{"AReportNeedsALiveLeaseOfItsMessage", reportNeedsLease},
		{"AReportIsLostAtTheDeadline", reportAtDeadline},
		{"AReportOfARedrivenMessagesOldOperationIsLost", reportOfOld},
	}
}

func progressRises(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		r.starts(lane, q, "a1", "b1")
		h := r.leased(lane, q, 2)
		number := h.Messages[0].Operation.Number
		for _, told := range []struct {
			percent int
			note    string
			want    int
		}{{0, "", 0}, {40, "cloning", 40}, {20, "cloning again", 40}, {41, "", 41}, {100, "done", 100}} {
			r.pass(time.Second)
			r.ok(r.reports(lane, h, 0, told.percent, told.note))
			r.same("progress", r.operation(lane, number).Progress, &millrace.Progress{Percent: told.want, Note: told.note})
		}
		r.same("another's", r.operation(lane, h.Messages[1].Operation.Number).Progress, (*millrace.Progress)(nil))
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.same("after the end", r.operation(lane, number).Progress, &millrace.Progress{Percent: 100, Note: "done"})
		r.settled(lane, q, millrace.Ack, h.item(1))
	})
}

func progressOfLatest(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	number := r.starts(0, q, "a1")[0]
	told := &millrace.Progress{Percent: 70, Note: "far"}
	h := r.leased(0, q, 1)
	r.ok(r.reports(0, h, 0, 70, "far"))
	r.settled(0, q, millrace.Retry, h.items()...)
	r.same("while it waits", r.operation(0, number).Progress, told)
	h = r.leased(0, q, 1)
	r.same("in the next attempt", r.operation(0, number).Progress, (*millrace.Progress)(nil))
	r.ok(r.reports(0, h, 0, 10, "anew"))
	r.same("told anew", r.operation(0, number).Progress, &millrace.Progress{Percent: 10, Note: "anew"})
}

func reportNeedsLease(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.tracked(millrace.QueueSettings{}), r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		numbers := r.starts(lane, q, "a1", "b1", "c1")
		h := r.leased(lane, q, 2)
		r.publish(lane, event("a", "x", other))
		foreign := r.leased(lane, other, 1)
		before := r.everyOperation(lane, q)
		report := func(number, name uint64, token millrace.Token) {
			r.Helper()
			r.refused(r.Report(r.ctx(), lane, millrace.ProgressReport{
				Now: r.now, Number: number, Name: name, Token: token, Progress: millrace.Progress{Percent: 5},
			}), millrace.CodeLost)
		}
		report(numbers[0], numbers[0], r.token())
		report(numbers[0], numbers[1], h.token)
		report(numbers[1], numbers[0], h.token)
		report(numbers[2], numbers[2], h.token)
		report(77, 77, h.token)
		report(numbers[0], foreign.Messages[0].Name, foreign.token)
		report(foreign.Messages[0].Operation.Number, numbers[0], h.token)
		r.same("operations", r.everyOperation(lane, q), before)
		r.settled(lane, q, millrace.Retry, h.item(0))
		r.refused(r.reports(lane, h, 0, 5, ""), millrace.CodeLost)
		r.leased(lane, q, 2)
		r.refused(r.reports(lane, h, 0, 5, ""), millrace.CodeLost)
		r.ok(r.reports(lane, h, 1, 5, ""))
		r.purge(lane, q, "", 9)
	})
}

func reportAtDeadline(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	number := r.starts(0, q, "a1")[0]
	h := r.leased(0, q, 1)
	r.pass(minute - time.Millisecond)
	r.ok(r.reports(0, h, 0, 5, "just"))
	r.pass(time.Millisecond)
	r.refused(r.reports(0, h, 0, 6, "late"), millrace.CodeLost)
	r.same("progress", r.operation(0, number).Progress, &millrace.Progress{Percent: 5, Note: "just"})
	r.step(0)
	h = r.leased(0, q, 1)
	r.pass(time.Second)
	r.extend(0, q, minute, h.items()...)
	r.pass(minute - time.Millisecond)
	r.ok(r.reports(0, h, 0, 7, "extended"))
}

func reportOfOld(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	name := r.bury(0, q, "a1")[0]
	r.redrive(0, millrace.DeadOf{Queue: q, Names: []uint64{name}})
	h := r.leased(0, q, 1)
	old := r.operation(0, name)
	now := h.Messages[0].Operation.Number
	h.Messages[0].Operation.Number = name
	r.refused(r.reports(0, h, 0, 5, ""), millrace.CodeLost)
	r.moved(0, old, func(*millrace.StoredOperation) {})
	h.Messages[0].Operation.Number = now
	r.ok(r.reports(0, h, 0, 5, ""))
}
