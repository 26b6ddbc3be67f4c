package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func batchPromises() []promise {
	return []promise{
		{"AnEventOpensABatchThatCollects", eventOpensBatch},
		{"LaterEventsJoinTheCurrentBatch", eventsJoin},
		{"ABatchIsReadyWhenItIsFull", fullIsReady},
		{"ABatchClosesBeforeTheEventThatWouldExceedItsBytes", bytesClose},
		{"ABatchIsReadyAtItsTimeAndNotBefore", timeIsReady},
		{"ABatchThatCollectsForNoTimeIsDueAtOnce", noTimeIsDue},
		{"AFullBatchIsNotDue", fullIsNotDue},
		{"ABatchIsInOneStateAlone", inOneState},
		{"ABatchKeepsItsFormatAndItsTime", keepsFormat},
		{"SubscriptionsCollectEachForItself", collectsForItself},
		{"LanesCollectEachForItself", lanesCollect},
		{"ADuplicateIsAppendedToNothing", duplicateAppendsNothing},
		{"ARefusedCommitAppendsNothing", refusedAppendsNothing},
		{"WhatIsDueOfSubscriptionsIsDoneInItsOrder", batchesDueInOrder},
		{"AStepOfBatchesIsBounded", batchStepIsBounded},
		{"AWatcherHearsWhenABatchIsDue", batchHintDue},
	}
}

func eventOpensBatch(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.each(func(lane int) {
		r.pass(minute)
		done := r.commit(lane, pushed("one", uid))
		r.same("due", done.Due, time.Second)
		r.same("sinks", done.Stamps[0].Sinks, 1)
		r.same("batches", r.batches(lane, uid), []millrace.Batch{{
			Name: done.Stamps[0].Seq, State: millrace.BatchEarly, Current: true, Count: 1, Bytes: 3,
			CreatedAt: r.now, DueAt: r.now.Add(time.Second),
		}})
		r.same("taken", r.take(lane, 9).names(), []string{})
	})
}

func eventsJoin(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.each(func(lane int) {
		r.pass(minute)
		first := r.publish(lane, keyed(pushed("one", uid), "k"))[0]
		opened := r.now
		r.pass(300 * time.Millisecond)
		second := r.commit(lane, keyed(pushed("two", uid), "k"))
		r.same("due", second.Due, 700*time.Millisecond)
		b, events, err := r.Batch(r.ctx(), lane, uid, first.Seq)
		r.ok(err)
		r.same("batch", b, millrace.Batch{
			Name: first.Seq, State: millrace.BatchEarly, Current: true, Count: 2, Bytes: 6, CreatedAt: opened, DueAt: opened.Add(time.Second),
		})
		r.same("events", events, []millrace.BatchEvent{
			{Seq: first.Seq, RecordedAt: opened, Body: []byte("one")},
			{Seq: second.Stamps[0].Seq, Prev: first.Seq, RecordedAt: r.now, Body: []byte("two")},
		})
		r.same("listed", r.batches(lane, uid), []millrace.Batch{b})
	})
}

func fullIsReady(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 3 })
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		r.same("not full", r.states(lane, uid), []string{"early* 2"})
		names := r.push(lane, uid, "3")
		r.same("full", r.states(lane, uid), []string{"ready 3"})
		r.same("due of a ready one", r.batchAt(lane, uid, 0).DueAt, time.Time{})
		stamps := r.publish(lane, pushed("4", uid), pushed("5", uid), pushed("6", uid), pushed("7", uid), pushed("8", uid), pushed("9", uid), pushed("10", uid))
		r.same("by one commit", r.states(lane, uid), []string{"ready 3", "ready 3", "ready 3", "early* 1"})
		r.same("name of the last", r.batchAt(lane, uid, 3).Name, stamps[6].Seq)
		r.same("after the third", names[0] < r.batchAt(lane, uid, 1).Name, true)
		k := r.take(lane, 9)
		r.same("batches", k.names(), []string{"1 2 3", "4 5 6", "7 8 9"})
		r.told(lane, k.each(taken.sent)...)
		r.pass(minute)
		r.step(lane)
		r.told(lane, r.took(lane, 1).sent(0))
	})
}

func bytesClose(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxBytes = 10 })
	r.each(func(lane int) {
		r.push(lane, uid, "four", "sixsix")
		r.same("exactly the limit", r.states(lane, uid), []string{"early* 2"})
		r.push(lane, uid, "x")
		r.same("closed before", r.states(lane, uid), []string{"ready 2", "early* 1"})
		r.push(lane, uid, "nine long", "0123456789", "y")
		r.same("each whole", r.states(lane, uid), []string{"ready 2", "ready 2", "ready 1", "early* 1"})
		k := r.took(lane, 3)
		r.same("bodies", k.names(), []string{"four sixsix", "x nine long", "0123456789"})
		r.told(lane, k.each(taken.sent)...)
		r.pass(minute)
		r.step(lane)
		r.told(lane, r.took(lane, 1).sent(0))
	})
}

func timeIsReady(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		r.pass(time.Second - time.Millisecond)
		r.same("too early", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.push(lane, uid, "3")
		r.pass(time.Millisecond)
		r.same("late, before the step", r.take(lane, 9).names(), []string{})
		r.same("in time", r.step(lane), millrace.Stepped{Promoted: 1, Due: -1})
		r.same("ready", r.states(lane, uid), []string{"ready 3"})
		r.same("again", r.step(lane), millrace.Stepped{Due: -1})
		r.push(lane, uid, "4")
		r.same("a new one", r.states(lane, uid), []string{"ready 3", "early* 1"})
		k := r.take(lane, 9)
		r.same("taken", k.names(), []string{"1 2 3"})
		r.told(lane, k.sent(0))
		r.pass(minute)
		r.step(lane)
		r.told(lane, r.took(lane, 1).sent(0))
	})
}

func noTimeIsDue(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.Timeout = 0 })
	r.same("due", r.commit(0, pushed("1", uid)).Due, time.Duration(0))
	r.push(0, uid, "2")
	r.same("early", r.states(0, uid), []string{"early* 2"})
	r.same("step", r.step(0), millrace.Stepped{Promoted: 1, Due: -1})
	r.same("taken", r.take(0, 9).names(), []string{"1 2"})
}

func fullIsNotDue(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.MaxBytes = 2, 4 })
	r.push(0, uid, "1", "2", "3", "long")
	r.same("states", r.states(0, uid), []string{"ready 2", "ready 1", "early* 1"})
	r.pass(minute)
	r.same("step", r.step(0), millrace.Stepped{Promoted: 1, Due: -1})
	r.same("each once", r.take(0, 9).names(), []string{"1 2", "3", "long"})
	r.same("nothing left", r.take(0, 9).names(), []string{})
}

func inOneState(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		all := r.batches(lane, uid)
		r.same("by state", r.byState(lane, uid), map[millrace.BatchState]int{
			millrace.BatchEarly: 2, millrace.BatchReady: 1, millrace.BatchPending: 1, millrace.BatchDead: 1,
		})
		for _, b := range all {
			one, events, err := r.Batch(r.ctx(), lane, uid, b.Name)
			r.ok(err)
			r.same("batch", one, b)
			r.same("events", len(events), b.Count)
		}
		r.same("pending", []any{all[2].Name, all[2].DueAt, all[2].Node, all[2].Attempts}, []any{k.Batches[0].Name, r.now.Add(minute), "node", 1})
		r.same("failed", []any{all[1].DueAt, all[1].Node, all[1].Attempts, all[1].Error}, []any{r.now.Add(time.Hour), "", 1, "refused"})
		r.same("dead", []any{all[0].DueAt, all[0].Node, all[0].Attempts, all[0].Error}, []any{r.now.Add(48 * time.Hour), "", 2, "refused"})
		r.remove(uid)
		r.sweepAll(lane)
	})
}

// byState counts the batches of a subscription by asking for each state.
func (r *rig) byState(lane int, uid string) map[millrace.BatchState]int {
	r.Helper()
	n := map[millrace.BatchState]int{}
	for _, state := range []millrace.BatchState{millrace.BatchEarly, millrace.BatchReady, millrace.BatchPending, millrace.BatchDead} {
		list, err := r.ListBatches(r.ctx(), lane, millrace.BatchPage{Subscription: uid, State: state, Limit: 1000})
		r.ok(err)
		for _, b := range list {
			r.same("state", b.State, state)
			n[state]++
		}
	}
	return n
}

func keepsFormat(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.push(0, uid, "1")
	due := r.now.Add(time.Second)
	r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.Format, s.Timeout = "cloudevents", time.Hour })
	r.same("due", r.batchAt(0, uid, 0).DueAt, due)
	r.push(0, uid, "2", "3")
	r.same("due of the next", r.batchAt(0, uid, 1).DueAt, r.now.Add(time.Hour))
	r.push(0, uid, "4")
	k := r.took(0, 2)
	r.same("formats", []string{k.Batches[0].Format, k.Batches[1].Format}, []string{"events", "cloudevents"})
}

func collectsForItself(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(), r.sub(single)
	r.publish(0, pushed("both", a, b), pushed("one", a))
	r.same("a", r.states(0, a), []string{"early* 2"})
	r.same("b", r.states(0, b), []string{"ready 1"})
	k := r.took(0, 1)
	r.same("taken", []string{k.Batches[0].Subscription, k.names()[0]}, []string{b, "both"})
	r.told(0, k.sent(0))
	r.same("a still", r.states(0, a), []string{"early* 2"})
	r.same("b then", r.states(0, b), []string{})
}

func lanesCollect(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(atOnce(1), func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2", "3")
		r.same("states", r.states(lane, uid), []string{"ready 2", "early* 1"})
	})
	r.each(func(lane int) { r.same("taken", r.take(lane, 9).names(), []string{"1 2"}) })
}

func duplicateAppendsNothing(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	first := r.publish(0, known(pushed("1", uid), "id"))[0]
	stamps := r.publish(0, known(pushed("1", uid), "id"), pushed("2", uid), known(pushed("1", uid), "id"))
	first.Duplicate = true
	r.same("the first answer", stamps[0], first)
	r.same("and again", stamps[2], first)
	_, events, err := r.Batch(r.ctx(), 0, uid, first.Seq)
	r.ok(err)
	r.same("events", bodies(events), "1 2")
}

func refusedAppendsNothing(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	full := r.queueOf(millrace.QueueSettings{MaxLength: 1})
	r.publish(0, event("a", "x", full))
	for _, commit := range []millrace.Commit{
		{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{pushed("1", uid), event("a", "2", full)}},
		{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{pushed("1", uid), pushed("2", uid, "00000000000000cc")}},
		{Now: r.now, Version: r.version - 1, Events: []millrace.CommitEvent{pushed("1", uid)}},
	} {
		_, err := r.Publish(r.ctx(), 0, commit)
		r.refused(err, millrace.CodeFull, millrace.CodeStale)
	}
	r.same("states", r.states(0, uid), []string{})
	r.same("stats", r.subStats(0, uid), millrace.SubscriptionStats{})
}

func batchesDueInOrder(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(), r.sub()
	late := r.sub(func(s *millrace.SubscriptionSettings) { s.Timeout = 900 * time.Millisecond })
	r.push(0, b, "b")
	r.push(0, a, "a")
	r.push(0, late, "late")
	r.pass(minute)
	r.same("step", r.step(0), millrace.Stepped{Promoted: 3, Due: -1})
	k := r.take(0, 9)
	r.same("by time, then by uid", k.names(), []string{"late", "a", "b"})
	r.told(0, k.each(taken.sent)...)
}

func batchStepIsBounded(t *testing.T, c Config) {
	r := open(t, c)
	var parked string
	for range 4 {
		parked = r.sub(single, waits(time.Second))
		r.push(0, parked, "1", "2", "3")
		r.told(0, r.took(0, 3).each(taken.failed)...)
	}
	r.pass(time.Second)
	promoted := 0
	for i := range 6 {
		s, err := r.Step(r.ctx(), 0, r.now, 3)
		r.ok(err)
		promoted += s.Promoted
		r.same("more", s.More, i < 5)
		r.same("promoted so far", promoted, min(12, 3*(i+1)))
		r.same("the last park", r.subStats(0, parked).NextAttemptAt.IsZero(), i == 5)
	}
}

func batchHintDue(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	lane := c.Lanes - 1
	uid := r.sub()
	r.settleWatch(h, lane)
	before := h.count(millrace.HintDue, lane, "")
	r.push(lane, uid, "1")
	r.waitFor("a hint of the batch's time", func() bool { return h.count(millrace.HintDue, lane, "") > before })
}
