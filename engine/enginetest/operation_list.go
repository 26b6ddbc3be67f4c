package enginetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-dev/millrace"
)

func listingPromises() []promise {
	return []promise{
		{"OperationsAreListedNewestFirst", listedNewestFirst},
		{"AListIsFilteredByStatusTenantAndQueue", listFiltered},
		{"AListIsReadPageByPage", listPages},
		{"AListLooksAtAThousandAtMost", listBounded},
		{"WhatHasExpiredIsLookedAtUntilItIsForgotten", listExpired},
	}
}

// about starts an operation of a tenant about a subject.
func (r *rig) about(lane int, q, tenant, subject string) uint64 {
	r.Helper()
	s := r.starting(q, tenant)
	s.Opening.Subject = subject
	return r.start(lane, s).ID.Number
}

func listedNewestFirst(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.tracked(millrace.QueueSettings{}), r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		a, b, d := r.about(lane, q, "a", "x"), r.about(lane, other, "a", "x"), r.about(lane, q, "b", "y")
		e, f := r.about(lane, other, "a", "x:y"), r.about(lane, q, "a", "")
		list, next := r.list(lane, millrace.OperationPage{Subject: "x"})
		r.same("by subject", list, []millrace.StoredOperation{r.operation(lane, b), r.operation(lane, a)})
		r.same("next", next, uint64(0))
		r.same("by queue", r.numbers(lane, millrace.OperationPage{Queue: q}), []uint64{f, d, a})
		r.same("by another queue", r.numbers(lane, millrace.OperationPage{Queue: other}), []uint64{e, b})
		r.same("by both", r.numbers(lane, millrace.OperationPage{Subject: "x", Queue: q}), []uint64{a})
		r.same("an unknown subject", r.numbers(lane, millrace.OperationPage{Subject: "z"}), []uint64{})
		r.same("an unknown queue", r.numbers(lane, millrace.OperationPage{Queue: "00000000000000cc"}), []uint64{})
	})
}

func listFiltered(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		one, two, three := r.about(lane, q, "a", "x"), r.about(lane, q, "b", "x"), r.about(lane, q, "a", "x")
		four, five := r.about(lane, q, "c", "x"), r.about(lane, q, "d", "x")
		h := r.leased(lane, q, 4) // one, two, four, five
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.settled(lane, q, millrace.Bury, h.item(1))
		r.cancel(lane, five)
		r.settled(lane, q, millrace.Retry, h.item(3))
		for status, want := range map[millrace.OperationStatus][]uint64{
			millrace.OperationSuccess: {one}, millrace.OperationError: {two}, millrace.OperationQueued: {three},
			millrace.OperationRunning: {four}, millrace.OperationCancelled: {five}, "": {five, four, three, two, one},
		} {
			r.same("subject's "+string(status), r.numbers(lane, millrace.OperationPage{Subject: "x", Status: status}), want)
			r.same("queue's "+string(status), r.numbers(lane, millrace.OperationPage{Queue: q, Status: status}), want)
		}
		r.same("a's", r.numbers(lane, millrace.OperationPage{Queue: q, Tenant: "a"}), []uint64{three, one})
		r.same("a's that wait", r.numbers(lane, millrace.OperationPage{Subject: "x", Tenant: "a", Status: millrace.OperationQueued}), []uint64{three})
		r.same("a stranger's", r.numbers(lane, millrace.OperationPage{Subject: "x", Tenant: "z"}), []uint64{})
	})
}

func listPages(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		var all []uint64
		for range 7 {
			all = append(all, r.about(lane, q, "a", "x"))
		}
		slices.Reverse(all)
		for _, p := range []millrace.OperationPage{{Subject: "x", Limit: 3}, {Queue: q, Limit: 3}} {
			r.same("the first page", r.numbers(lane, p), all[:3])
			_, p.Before = r.list(lane, p)
			r.same("next", p.Before, all[2])
			r.same("the second page", r.numbers(lane, p), all[3:6])
			_, p.Before = r.list(lane, p)
			list, next := r.list(lane, p)
			r.same("the last page", []uint64{uint64(len(list)), list[0].ID.Number, next}, []uint64{1, all[6], 0})
			p.Before, p.Limit = all[2], 4
			list, next = r.list(lane, p)
			r.same("a page to the end", []uint64{uint64(len(list)), next}, []uint64{4, 0})
			p.Before = all[6]
			r.same("below the oldest", r.numbers(lane, p), []uint64{})
		}
	})
}

// many publishes operations in commits of a hundred and returns their numbers.
func (r *rig) many(lane int, q string, n int) []uint64 {
	r.Helper()
	var numbers []uint64
	for len(numbers) < n {
		var events []millrace.CommitEvent
		for len(events) < min(100, n-len(numbers)) {
			events = append(events, event("a", fmt.Sprint(len(numbers)+len(events)), q))
		}
		for _, s := range r.publish(lane, events...) {
			numbers = append(numbers, s.Seq)
		}
	}
	return numbers
}

func listBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	numbers := r.many(0, q, millrace.MaxListExamined+5)
	r.settled(0, q, millrace.Ack, r.leased(0, q, 3).items()...)
	for _, p := range []millrace.OperationPage{{Subject: "link:a"}, {Queue: q}} {
		p.Status = millrace.OperationSuccess
		list, next := r.list(0, p)
		r.same("found within a thousand", []uint64{uint64(len(list)), next}, []uint64{0, numbers[5]})
		p.Before = next
		list, next = r.list(0, p)
		r.same("found then", []uint64{uint64(len(list)), list[0].ID.Number, next}, []uint64{3, numbers[2], 0})
		p.Before, p.Status = 0, ""
		list, next = r.list(0, p)
		r.same("a full page", []uint64{uint64(len(list)), next}, []uint64{1000, numbers[5]})
	}
}

func listExpired(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	old := r.about(0, q, "b", "link:a")
	r.leased(0, q, 1)
	r.many(0, q, millrace.MaxListExamined)
	r.settled(0, q, millrace.Ack, r.leased(0, q, millrace.MaxListExamined).items()...)
	r.pass(retention)
	for _, p := range []millrace.OperationPage{{Subject: "link:a"}, {Queue: q}} {
		list, next := r.list(0, p)
		r.same("shown of the expired", len(list), 0)
		p.Before = next
		r.same("beyond them", r.numbers(0, p), []uint64{old})
	}
	r.pass(minute)
	for ended := 0; ended < millrace.MaxListExamined; {
		n := r.step(0).Ended
		if n == 0 {
			t.Fatalf("%d were forgotten", ended)
		}
		ended += n
	}
	r.same("when they are forgotten", r.numbers(0, millrace.OperationPage{Subject: "link:a"}), []uint64{old})
	r.same("when they are forgotten, by queue", r.numbers(0, millrace.OperationPage{Queue: q}), []uint64{old})
}
