package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func stepPromises() []promise {
	return []promise{
		{"ALeaseThatEndedReturnsToItsOwnFacet", endedLeaseReturns},
		{"ALeaseThatEndedTakesItsOldPlaceInTheFacet", endedLeaseTakesItsPlace},
		{"ALeaseThatHasNotEndedStays", liveLeaseStays},
		{"ALeaseWhoseAttemptsAreSpentIsDead", spentLeaseIsDead},
		{"AStepNamesTheLeasesThatEnded", stepNamesEnded},
		{"ARetryReturnsWhenItsDelayIsOver", retryReturns},
		{"AnEventDelayedInTwoQueuesReturnsInBoth", delayedInTwo},
		{"WhatIsDueReturnsInTheOrderOfItsTime", dueInOrder},
		{"AStepDoesAtMostMaxAndSaysThereIsMore", stepIsBounded},
		{"AStepWithNothingDueChangesNothing", stepWithNothing},
		{"WhatWasSettledIsNotDue", settledIsNotDue},
		{"EveryAnswerSaysWhenTheNextEntryIsDue", answersSayDue},
		{"ASweepFreesWhatARemovedQueueLeft", sweepFrees},
		{"ASweepIsBounded", sweepIsBounded},
		{"ASweepLeavesABodyThatAnotherQueueHolds", sweepLeavesBodies},
		{"ARemovedQueueHasNothingDue", removedHasNothingDue},
	}
}

func endedLeaseReturns(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		for _, name := range []string{"a1", "b1", "a2", "b2"} {
			r.publish(lane, event(name[:1], name, q))
		}
		r.leased(lane, q, 1)
		r.pass(minute)
		r.same("expired", r.step(lane).Expired, 1)
		r.counts(lane, q, 4, 0, 0, 0)
		r.same("order", r.lease(lane, q, 9).names(), []string{"b1", "a1", "b2", "a2"})
	})
}

func endedLeaseTakesItsPlace(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for i := range 6 {
		r.publish(0, event("a", fmt.Sprint(i), q))
	}
	first := r.leased(0, q, 2)
	second := r.leased(0, q, 2)
	r.settled(0, q, millrace.Ack, second.item(0))
	r.pass(minute)
	r.same("expired", r.step(0).Expired, 3)
	h := r.lease(0, q, 9)
	r.same("order", h.names(), []string{"0", "1", "3", "4", "5"})
	r.same("attempt of what came back", h.Messages[0].Attempt, 2)
	r.same("attempt of what never left", h.Messages[4].Attempt, 1)
	r.same("seq", h.Messages[0].Seq, first.Messages[0].Seq)
	r.lost(0, q, first.items()...)
}

func liveLeaseStays(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q))
	h := r.leased(0, q, 1)
	r.pass(minute - time.Millisecond)
	r.same("step", r.step(0), millrace.Stepped{Due: time.Millisecond})
	r.settled(0, q, millrace.Ack, h.items()...)
}

func stepNamesEnded(t *testing.T, c Config) {
	r := open(t, c)
	patient, once := r.queue(0), r.queue(1)
	r.each(func(lane int) {
		r.fill(lane, patient, "a1", "a2")
		r.fill(lane, once, "b1")
		waits := r.leased(lane, patient, 2)
		dies := r.leased(lane, once, 1)
		r.settled(lane, patient, millrace.Ack, waits.item(0))
		r.pass(minute)
		done, err := r.Step(r.ctx(), lane, r.now, 10)
		r.ok(err)
		slices.SortFunc(done.Exits, func(a, b millrace.Exit) int { return strings.Compare(b.Reason, a.Reason) })
		r.same("exits", done.Exits, []millrace.Exit{
			{Queue: patient, Name: waits.Messages[1].Name, Reason: millrace.ReasonLeaseEnded},
			{Queue: once, Name: dies.Messages[0].Name, Reason: millrace.ReasonAttempts},
		})
	})
}

func spentLeaseIsDead(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	r.each(func(lane int) {
		r.publish(lane, event("a", "1", q), event("a", "2", q))
		for attempt := 1; attempt <= 2; attempt++ {
			h := r.leased(lane, q, 1)
			r.same("attempt", h.Messages[0].Attempt, attempt)
			r.pass(minute)
			s := r.step(lane)
			r.same("expired", s.Expired, 1)
			r.same("dead", s.Dead, attempt-1)
		}
		r.counts(lane, q, 1, 0, 0, 1)
		r.same("spent", r.stats(lane, q).Spent, int64(1))
		r.same("left", r.lease(lane, q, 5).names(), []string{"2"})
	})
}

func retryReturns(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q), event("a", "2", q))
	late := r.leased(0, q, 1).item(0)
	late.Delay = 5 * time.Second
	r.settled(0, q, millrace.Retry, late)
	r.counts(0, q, 1, 0, 1, 0)
	r.pass(5*time.Second - time.Millisecond)
	r.same("too early", r.step(0), millrace.Stepped{Due: time.Millisecond})
	r.pass(time.Millisecond)
	s := r.step(0)
	r.same("returned", s.Returned, 1)
	r.same("expired", s.Expired, 0)
	h := r.lease(0, q, 5)
	r.same("order", h.names(), []string{"1", "2"})
	r.same("attempt", h.Messages[0].Attempt, 2)
}

func delayedInTwo(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	r.publish(0, event("a", "1", one, two))
	for _, q := range []string{one, two} {
		late := r.leased(0, q, 1).item(0)
		late.Delay = time.Second
		r.settled(0, q, millrace.Retry, late)
	}
	r.pass(time.Second)
	r.same("step", r.step(0), millrace.Stepped{Returned: 2, Due: -1})
	r.leased(0, one, 1)
	r.leased(0, two, 1)
}

func dueInOrder(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for _, tenant := range []string{"a", "b", "c", "d"} {
		r.publish(0, event(tenant, tenant, q))
	}
	a := r.leaseFor(0, q, 1, 40*time.Second)
	b := r.leaseFor(0, q, 1, 20*time.Second)
	item := r.leased(0, q, 1).item(0)
	item.Delay = 30 * time.Second
	r.settled(0, q, millrace.Retry, item)
	r.leaseFor(0, q, 1, 10*time.Second)
	r.pass(minute)
	s := r.step(0)
	r.same("step", s, millrace.Stepped{Expired: 3, Returned: 1, Due: -1})
	r.same("order", r.lease(0, q, 5).names(), []string{"d", "b", "c", "a"})
	r.lost(0, q, a.item(0), b.item(0))
}

func stepIsBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for i := range 10 {
		r.publish(0, event("a", fmt.Sprint(i), q))
	}
	r.leased(0, q, 3)
	r.leased(0, q, 4)
	r.pass(minute)
	for i, want := range []int{3, 3, 1, 0} {
		s, err := r.Step(r.ctx(), 0, r.now, 3)
		r.ok(err)
		r.same("expired", s.Expired, want)
		r.same("more", s.More, i < 2)
	}
	r.counts(0, q, 10, 0, 0, 0)
}

func stepWithNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q))
	r.same("step", r.step(0), millrace.Stepped{Due: -1})
	r.counts(0, q, 1, 0, 0, 0)
}

func settledIsNotDue(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q), event("a", "2", q), event("a", "3", q))
	h := r.leased(0, q, 3)
	r.settled(0, q, millrace.Ack, h.item(0))
	r.settled(0, q, millrace.Bury, h.item(1))
	r.settled(0, q, millrace.Retry, h.item(2))
	r.pass(time.Hour)
	r.same("step", r.step(0), millrace.Stepped{Due: -1})
	r.counts(0, q, 1, 0, 0, 1)
}

func answersSayDue(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.same("publish into an idle lane", r.commit(0, event("a", "1", q), event("b", "2", q)).Due < 0, true)
	h := r.leased(0, q, 1)
	r.same("lease", h.Due, minute)
	r.pass(time.Second)
	r.same("publish", r.commit(0, event("a", "3", q)).Due, 59*time.Second)
	late := h.item(0)
	late.Delay = 10 * time.Second
	r.same("retry", r.settle(0, q, millrace.Retry, late).Due, 10*time.Second)
	next := r.leased(0, q, 1)
	e, err := r.Extend(r.ctx(), 0, millrace.Extend{Now: r.now, Queue: q, For: 3 * time.Second, Items: next.items()})
	r.ok(err)
	r.same("extend", e.Due, 3*time.Second)
	r.same("ack", r.settle(0, q, millrace.Ack, next.items()...).Due, 10*time.Second)
	r.pass(minute)
	r.same("overdue", r.lease(0, q, 1).Due, time.Duration(0))
}

func sweepFrees(t *testing.T, c Config) {
	r := open(t, c)
	keep := r.queue(0)
	r.each(func(lane int) {
		q, _ := r.scene(lane)
		r.publish(lane, event("a", "kept", keep))
		dropped := r.laneStats(lane).Dropped
		r.remove(q)
		r.same("stats of a removed queue", r.stats(lane, q), millrace.QueueStats{})
		r.clean()
		r.sweepAll(lane)
		r.same("dropped", r.laneStats(lane).Dropped-dropped, int64(5))
		r.counts(lane, keep, 1, 0, 0, 0)
		n, err := r.Sweep(r.ctx(), lane, 100)
		r.ok(err)
		r.same("a sweep after the last", n, 0)
	})
}

func sweepIsBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for i := range 40 {
		r.publish(0, event(fmt.Sprint(i%7), "x", q))
	}
	r.remove(q)
	r.sweepsForty()
}

// sweepsForty fails unless 40 of what a removed sink held go in steps of 10, each of
// which leaves the store whole.
func (r *rig) sweepsForty() {
	r.Helper()
	for sweeps := 1; ; sweeps++ {
		n, err := r.Sweep(r.ctx(), 0, 10)
		r.ok(err)
		if n > 10 {
			r.Fatalf("a sweep of 10 freed %d", n)
		}
		r.clean()
		if n < 10 {
			if sweeps < 4 {
				r.Errorf("40 were swept in %d steps of 10", sweeps)
			}
			break
		}
	}
	r.same("dropped", r.laneStats(0).Dropped, int64(40))
}

func sweepLeavesBodies(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	for i := range 20 {
		r.publish(0, event("a", fmt.Sprintf("body %d", i), q, other))
	}
	r.remove(q)
	r.sweepAll(0)
	for i, name := range r.leased(0, other, 20).names() {
		r.same("body", name, fmt.Sprintf("body %d", i))
	}
}

func removedHasNothingDue(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q), event("a", "2", q))
	h := r.leased(0, q, 2)
	late := h.item(0)
	late.Delay = time.Second
	r.settled(0, q, millrace.Retry, late)
	r.remove(q)
	r.pass(time.Hour)
	r.same("step", r.step(0), millrace.Stepped{Due: -1})
	r.sweepAll(0)
	r.same("step after the sweep", r.step(0), millrace.Stepped{Due: -1})
}
