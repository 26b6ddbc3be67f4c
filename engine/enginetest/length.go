package enginetest

import (
	"errors"
	"testing"

	"github.com/millrace-dev/millrace"
)

func lengthPromises() []promise {
	return []promise{
		{"ACommitThatAQueueHasNoRoomForIsRefusedWhole", fullRefuses},
		{"AFullTenantDoesNotHinderTheOthers", fullLeavesOthers},
		{"WhatIsLeasedDoesNotCount", fullCountsWaiting},
		{"ADuplicateNeedsNoRoom", fullKnowsDuplicates},
		{"AReturnNeedsNoRoom", returnNeedsNoRoom},
		{"DropOldestDropsTheTenantsOldestWaitingMessage", dropsOldest},
		{"DropOldestNeverDropsWhatIsInFlight", dropsNoLeased},
		{"DropOldestFreesABodyOnlyForItsQueue", dropsKeepBodies},
		{"DropOldestNamesWhatItDropped", dropsByName},
		{"AMaxLengthCanChange", lengthChanges},
	}
}

// full publishes and fails unless the queue refuses it.
func (r *rig) full(lane int, q string, events ...millrace.CommitEvent) {
	r.Helper()
	_, err := r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: events})
	r.refused(err, millrace.CodeFull)
	var e *millrace.Error
	if !errors.As(err, &e) || e.Sink != q {
		r.Errorf("error %v does not name the queue %s", err, q)
	}
}

func fullRefuses(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queueOf(millrace.QueueSettings{MaxLength: 3}), r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "a2")
		before := r.laneStats(lane)
		r.full(lane, q, event("b", "b1", q, other), known(event("a", "a3", other, q), "x"), event("a", "a4", q))
		r.same("lane", r.laneStats(lane), before)
		r.counts(lane, q, 2, 0, 0, 0)
		r.counts(lane, other, 0, 0, 0, 0)
		r.same("the id is not known", r.publish(lane, known(event("a", "a3", other, q), "x"))[0].Duplicate, false)
		r.full(lane, q, event("a", "a4", q))
		r.publish(lane, event("a", "a4", other))
		r.counts(lane, q, 3, 0, 0, 0)
	})
}

func fullLeavesOthers(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 2})
	r.fill(0, q, "a1", "a2", "b1")
	r.full(0, q, event("a", "a3", q))
	r.fill(0, q, "b2", "c1")
	r.full(0, q, event("c", "c2", q), event("b", "b3", q))
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "b1", "c1", "a2", "b2"})
}

func fullCountsWaiting(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1})
	r.fill(0, q, "a1")
	r.leased(0, q, 1)
	r.fill(0, q, "a2")
	r.full(0, q, event("a", "a3", q))
	r.reopen()
	r.full(0, q, event("a", "a3", q))
}

func fullKnowsDuplicates(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1})
	e := known(event("a", "a1", q), "x")
	first := r.publish(0, e, e)
	r.same("duplicates", []bool{first[0].Duplicate, first[1].Duplicate}, []bool{false, true})
	r.same("again", r.publish(0, e, event("b", "b1", q))[0].Duplicate, true)
	r.full(0, q, e, event("a", "a2", q))
}

func returnNeedsNoRoom(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1})
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	r.fill(0, q, "a2")
	r.settled(0, q, millrace.Retry, h.items()...)
	r.counts(0, q, 2, 0, 0, 0)
	r.full(0, q, event("a", "a3", q))
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	r.full(0, q, event("a", "a3", q))
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	r.fill(0, q, "a3")
	r.redrive(0, millrace.DeadOf{Queue: q, All: true, Max: 9})
	r.same("order", r.lease(0, q, 9).names(), []string{"a2", "a3"})
}

func dropsOldest(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 2, DropOldest: true})
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "b1", "a2", "a3")
		r.counts(lane, q, 3, 0, 0, 0)
		r.same("left", r.peek(lane, q, "a", 9), []string{"a2", "a3"})
		r.publish(lane, event("a", "a4", q), event("a", "a5", q), event("a", "a6", q))
		r.same("dropped", r.stats(lane, q).Dropped, int64(4))
		r.same("dropped in the lane", r.laneStats(lane).Dropped, int64(4))
		r.same("order", r.lease(lane, q, 9).names(), []string{"a5", "b1", "a6"})
	})
}

func dropsNoLeased(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1, DropOldest: true})
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	r.fill(0, q, "a2", "a3")
	r.counts(0, q, 1, 1, 0, 0)
	r.settled(0, q, millrace.Retry, h.items()...)
	r.counts(0, q, 2, 0, 0, 0)
	r.fill(0, q, "a4")
	r.same("the returned one was the oldest", r.peek(0, q, "a", 9), []string{"a3", "a4"})
	r.same("dropped", r.stats(0, q).Dropped, int64(2))
}

func dropsKeepBodies(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queueOf(millrace.QueueSettings{MaxLength: 1, DropOldest: true}), r.queue(0)
	for _, name := range []string{"1", "2", "3"} {
		r.same("sinks", r.publish(0, event("a", name, q, other))[0].Sinks, 2)
	}
	r.same("one", r.lease(0, q, 9).names(), []string{"3"})
	r.same("the other", r.lease(0, other, 9).names(), []string{"1", "2", "3"})
}

func dropsByName(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1, DropOldest: true})
	r.each(func(lane int) {
		first := r.publish(lane, event("a", "a1", q))
		commit := r.commit(lane, event("a", "a2", q), event("b", "b1", q))
		r.same("dropped", commit.Dropped, []millrace.Exit{{Queue: q, Name: first[0].Seq, Reason: millrace.ReasonMaxLength}})
		r.same("nothing dropped", len(r.commit(lane, event("c", "c1", q)).Dropped), 0)
	})
}

func lengthChanges(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3")
	r.change(q, func(s *millrace.QueueSettings) { s.MaxLength = 2 })
	r.full(0, q, event("a", "a4", q))
	r.counts(0, q, 3, 0, 0, 0)
	r.change(q, func(s *millrace.QueueSettings) { s.MaxLength = 4 })
	r.fill(0, q, "a4")
	r.full(0, q, event("a", "a5", q))
	r.change(q, func(s *millrace.QueueSettings) { s.MaxLength = 0 })
	r.fill(0, q, "a5")
}
