package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// handlePromises are of what is done to batches by hand, and of what they show.
func handlePromises() []promise {
	return []promise{
		{"BatchesAreListedByNameInPages", batchesInPages},
		{"ARetriedBatchIsReadyAtOnce", retriedIsReady},
		{"ARetryOfADeadBatchBeginsItsAttemptsAnew", retriedAnew},
		{"ARetryOfTheDeadIsBoundedAndSaysWhatIsLeft", retryOfTheDead},
		{"ARetryLeavesAloneWhatIsReadyOrPendingOrGone", retryLeavesAlone},
		{"ARetriedBatchIsDueNoMore", retriedIsNotDue},
		{"ADroppedBatchIsGoneAndCounted", droppedIsGone},
		{"APendingBatchIsNotDropped", pendingIsNotDropped},
		{"AfterTheCurrentBatchIsDroppedANewOneIsOpened", currentDropped},
		{"TheOldestBatchesOfAllSubscriptionsAreDroppedFirst", oldestDropped},
		{"DropOldestSkipsWhatIsPendingUntilNothingIsLeft", dropUntilNothing},
		{"TheLogKeepsTheLastHundredNewestFirst", logKeepsLast},
		{"StatsOfASubscriptionCount", subStatsCount},
		{"StatsKnowTheOldestBatch", subStatsOldest},
		{"AnUnknownSubscriptionIsNotFound", unknownSub},
		{"BatchesAreThereAfterAReopen", batchesReopened},
		{"APendingBatchKeepsItsTokenAndDeadlineOverAReopen", pendingReopened},
		{"TheCurrentBatchGoesOnCollectingAfterAReopen", currentReopened},
		{"AParkedSubscriptionIsParkedAfterAReopen", parkedReopened},
		{"AProbingSubscriptionIsProbingAfterAReopen", probingReopened},
		{"FailuresAreCountedOnAfterAReopen", failuresReopened},
		{"ABlockedSubscriptionIsBlockedAfterAReopen", blockedReopened},
		{"SettingsOfASubscriptionAreThereAfterAReopen", subSettingsReopened},
		{"WhatWasSentOrDroppedIsGoneAfterAReopen", goneReopened},
	}
}

// retried retries batches and fails unless so many were, and so many dead ones are left.
func (r *rig) retried(lane int, of millrace.BatchesOf, done, left int) {
	r.Helper()
	of.Now = r.now
	gotDone, gotLeft, err := r.RetryBatches(r.ctx(), lane, of)
	r.ok(err)
	r.same("retried, left", []int{gotDone, gotLeft}, []int{done, left})
}

func (r *rig) dropOldest(lane, most int) []millrace.DroppedBatch {
	r.Helper()
	dropped, err := r.DropOldest(r.ctx(), lane, most)
	r.ok(err)
	return dropped
}

// killed makes batches of a subscription without a schedule dead, one per name, and returns their names.
func (r *rig) killed(lane int, uid string, names ...string) []uint64 {
	r.Helper()
	batches := r.push(lane, uid, names...)
	r.told(lane, r.took(lane, len(names)).each(taken.failed)...)
	return batches
}

func batchesInPages(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	names := r.push(0, uid, "1", "2", "3", "4", "5")
	k := r.took(0, 2)
	r.told(0, k.failed(0))
	var got []uint64
	page := millrace.BatchPage{Subscription: uid, Limit: 2}
	for range names {
		list, err := r.ListBatches(r.ctx(), 0, page)
		r.ok(err)
		for _, b := range list {
			got, page.After = append(got, b.Name), b.Name
		}
	}
	r.same("all", got, names)
	list, err := r.ListBatches(r.ctx(), 0, millrace.BatchPage{Subscription: uid, State: millrace.BatchReady, After: names[2], Limit: 1})
	r.ok(err)
	r.same("of a state, after one", list, []millrace.Batch{r.batchAt(0, uid, 3)})
	r.same("its state", r.batchAt(0, uid, 3).State, millrace.BatchReady)
	list, err = r.ListBatches(r.ctx(), 0, millrace.BatchPage{Subscription: uid, State: millrace.BatchDead, Limit: 9})
	r.ok(err)
	r.same("of a state that none has", len(list), 0)
}

func retriedIsReady(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, _ := r.allStates(lane)
		all := r.batches(lane, uid)
		r.retried(lane, millrace.BatchesOf{Subscription: uid, Names: []uint64{all[4].Name, all[1].Name}}, 2, 1)
		r.same("states", r.states(lane, uid), []string{"dead 2", "ready 2", "pending 2", "ready 2", "ready 1"})
		r.push(lane, uid, "new")
		k := r.take(lane, 9)
		r.same("taken", k.names(), []string{"f1 f2", "r1 r2", "c1"})
		r.same("attempts", []int{k.Batches[0].Attempt, k.Batches[2].Attempt}, []int{2, 1})
	})
}

func retriedAnew(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(time.Second))
	name := r.push(0, uid, "1")[0]
	for round := range 2 {
		for attempt := 1; attempt <= 2; attempt++ {
			k := r.took(0, 1)
			r.same("attempt", k.Batches[0].Attempt, attempt)
			o := k.failed(0)
			o.Error = fmt.Sprint("round ", round)
			r.same("dead", r.told(0, o).Items[0].Dead, attempt == 2)
			r.pass(2 * time.Second)
			r.step(0)
		}
		r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{name}}, 1, 0)
		b := r.batchAt(0, uid, 0)
		r.same("batch", []any{b.State, b.Attempts, b.Error, b.DueAt}, []any{millrace.BatchReady, 0, fmt.Sprint("round ", round), time.Time{}})
	}
}

func retryOfTheDead(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits())
	names := r.killed(0, uid, "1", "2", "3", "4", "5")
	r.push(0, uid, "6")
	r.retried(0, millrace.BatchesOf{Subscription: uid, Dead: true, Max: 2}, 2, 3)
	r.same("oldest first", r.states(0, uid), []string{"ready 1", "ready 1", "dead 1", "dead 1", "dead 1", "ready 1"})
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{names[3]}}, 1, 2)
	r.retried(0, millrace.BatchesOf{Subscription: uid, Dead: true, Max: 1000}, 2, 0)
	r.retried(0, millrace.BatchesOf{Subscription: uid, Dead: true, Max: 1000}, 0, 0)
	k := r.take(0, 9)
	r.same("all", k.names(), []string{"1", "2", "3", "4", "5", "6"})
	r.same("attempt", k.Batches[0].Attempt, 1)
	s := r.subStats(0, uid)
	r.same("dead, queued", []int64{s.Dead, s.Queued}, []int64{0, 6})
}

func retryLeavesAlone(t *testing.T, c Config) {
	r := open(t, c)
	uid, k := r.allStates(0)
	all := r.batches(0, uid)
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{all[2].Name, 77, all[3].Name, 1 << 60}}, 0, 1)
	r.same("batches", r.batches(0, uid), all)
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{all[0].Name, all[0].Name}}, 1, 0)
	r.told(0, k.sent(0))
}

func retriedIsNotDue(t *testing.T, c Config) {
	r := open(t, c)
	uid, k := r.allStates(0)
	r.told(0, k.sent(0))
	for _, b := range r.batches(0, uid) {
		_, _, err := r.RetryBatches(r.ctx(), 0, millrace.BatchesOf{Now: r.now, Subscription: uid, Names: []uint64{b.Name}})
		r.ok(err)
	}
	r.pass(1000 * time.Hour)
	r.same("step", r.step(0), millrace.Stepped{Due: -1})
	r.same("states", r.states(0, uid), []string{"ready 2", "ready 2", "ready 2", "ready 1"})
}

func droppedIsGone(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		r.told(lane, k.sent(0))
		before := r.laneStats(lane).Dropped
		for _, b := range r.batches(lane, uid) {
			r.ok(r.DropBatch(r.ctx(), lane, uid, b.Name))
			_, _, err := r.Batch(r.ctx(), lane, uid, b.Name)
			r.refused(err, millrace.CodeNotFound)
			r.refused(r.DropBatch(r.ctx(), lane, uid, b.Name), millrace.CodeNotFound)
		}
		s := r.subStats(lane, uid)
		r.same("dropped, queued, dead, batches", []int64{s.Dropped, s.Queued, s.Dead, s.Batches}, []int64{7, 0, 0, 0})
		r.same("dropped in the lane", r.laneStats(lane).Dropped-before, int64(7))
		r.same("taken", r.take(lane, 9).names(), []string{})
		r.pass(1000 * time.Hour)
		r.same("step", r.step(lane), millrace.Stepped{Due: -1})
		r.clean()
	})
}

func pendingIsNotDropped(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	name := r.push(0, uid, "1")[0]
	k := r.took(0, 1)
	r.refused(r.DropBatch(r.ctx(), 0, uid, name), millrace.CodePending)
	r.same("states", r.states(0, uid), []string{"pending 1"})
	r.told(0, k.failed(0))
	r.ok(r.DropBatch(r.ctx(), 0, uid, name))
}

func currentDropped(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	first := r.push(0, uid, "1", "2")
	r.ok(r.DropBatch(r.ctx(), 0, uid, first[0]))
	second := r.push(0, uid, "3")
	b := r.batches(0, uid)
	r.same("batches", []any{len(b), b[0].Name, b[0].Count, b[0].Bytes, b[0].Current}, []any{1, second[0], 1, 1, true})
}

func oldestDropped(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.each(func(lane int) {
		first := r.push(lane, b, "1", "2")[0]
		both := r.publish(lane, pushed("both", a, b))[0].Seq
		last := r.push(lane, a, "3")[0]
		before := r.laneStats(lane).Dropped
		r.same("two", r.dropOldest(lane, 2), []millrace.DroppedBatch{{Subscription: b, Name: first, Count: 2}, {Subscription: a, Name: both, Count: 1}})
		r.same("the rest", r.dropOldest(lane, 1000), []millrace.DroppedBatch{{Subscription: b, Name: both, Count: 1}, {Subscription: a, Name: last, Count: 1}})
		r.same("nothing", r.dropOldest(lane, 1000), []millrace.DroppedBatch{})
		r.same("dropped in the lane", r.laneStats(lane).Dropped-before, int64(5))
		r.same("dropped of each", []int64{r.subStats(lane, a).Dropped, r.subStats(lane, b).Dropped}, []int64{2, 3})
		r.clean()
	})
}

func dropUntilNothing(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		var counts []int
		for dropped := r.dropOldest(lane, 1); len(dropped) > 0; dropped = r.dropOldest(lane, 1) {
			counts = append(counts, dropped[0].Count)
		}
		r.same("counts", counts, []int{2, 2, 2, 1})
		r.same("states", r.states(lane, uid), []string{"pending 2"})
		r.push(lane, uid, "new")
		r.same("a new one", r.states(lane, uid), []string{"pending 2", "early* 1"})
		r.told(lane, k.failed(0))
		r.same("then this too", len(r.dropOldest(lane, 9)), 2)
		r.pass(1000 * time.Hour)
		r.same("nothing is due", r.step(lane), millrace.Stepped{Due: -1})
	})
}

func logKeepsLast(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single), r.sub(single)
	r.each(func(lane int) {
		want := []string{}
		for i := range 5 {
			items := []millrace.Outcome{}
			for j := range 30 {
				text := fmt.Sprintf("%d of lane %d \x00 %d", i, lane, j)
				want = append([]string{text}, want...)
				items = append(items, millrace.Outcome{Subscription: uid, Name: 7, Log: []byte(text)})
			}
			r.outcomes(lane, items...)
			r.same("log", r.log(lane, uid), want[:min(len(want), millrace.MaxAttemptLog)])
		}
		r.same("the other's", r.log(lane, other), []string{})
	})
}

func subStatsCount(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		opened := r.now
		uid, k := r.allStates(lane)
		want := millrace.SubscriptionStats{
			Queued: 7, Dead: 2, Sent: 2, Failed: 3, Batches: 5, Pending: 1,
			Oldest: opened.Add(time.Hour), Reason: "refused", FailingSince: r.now,
		}
		r.same("stats", r.subStats(lane, uid), want)
		r.told(lane, k.sent(0))
		want.Queued, want.Sent, want.Batches, want.Pending, want.Reason, want.FailingSince = 5, 4, 4, 0, "", time.Time{}
		r.same("after a success", r.subStats(lane, uid), want)
		r.pass(1000 * time.Hour)
		r.step(lane)
		want.Dead, want.Dropped, want.Batches = 0, 2, 3
		r.same("after the retention", r.subStats(lane, uid), want)
		r.remove(uid)
	})
}

func subStatsOldest(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits())
	r.push(0, uid, "1")
	r.pass(time.Second)
	second := r.now
	r.push(0, uid, "2")
	r.pass(time.Second)
	k := r.took(0, 2)
	r.told(0, k.failed(0))
	r.same("the dead one does not count", r.subStats(0, uid).Oldest, second)
	r.told(0, k.sent(1))
	r.same("none", r.subStats(0, uid).Oldest, time.Time{})
	r.retried(0, millrace.BatchesOf{Subscription: uid, Dead: true, Max: 1}, 1, 0)
	r.same("retried", r.subStats(0, uid).Oldest, start())
}

// strange fails unless a lane does not know a subscription.
func (r *rig) strange(lane int, uid string) {
	r.Helper()
	_, err := r.ListBatches(r.ctx(), lane, millrace.BatchPage{Subscription: uid, Limit: 9})
	r.refused(err, millrace.CodeNotFound)
	_, _, err = r.Batch(r.ctx(), lane, uid, 7)
	r.refused(err, millrace.CodeNotFound)
	_, _, err = r.RetryBatches(r.ctx(), lane, millrace.BatchesOf{Now: r.now, Subscription: uid, Dead: true, Max: 9})
	r.refused(err, millrace.CodeNotFound)
	r.refused(r.DropBatch(r.ctx(), lane, uid, 7), millrace.CodeNotFound)
	_, err = r.AttemptLog(r.ctx(), lane, uid)
	r.refused(err, millrace.CodeNotFound)
	in := millrace.Inject{Now: r.now, Subscription: uid, Events: []millrace.InjectEvent{injected("a", "x", 7)}}
	r.refused(r.Inject(r.ctx(), lane, in), millrace.CodeNotFound)
	_, err = r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{pushed("x", uid)}})
	r.refused(err, millrace.CodeStale)
	r.same("stats", r.subStats(lane, uid), millrace.SubscriptionStats{})
	o := millrace.Outcome{Subscription: uid, Name: 7, OK: true, Log: []byte("x")}
	r.same("outcome", r.outcomes(lane, o).Items, []millrace.SettledBatch{{Lost: true}})
}

func unknownSub(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1")
		r.strange(lane, "00000000000000ee")
		r.same("states", r.states(lane, uid), []string{"ready 1"})
		_, err := r.Lease(r.ctx(), lane, millrace.Lease{Now: r.now, Queue: uid, Max: 1, MaxBytes: 1, For: minute, Token: r.token()})
		r.refused(err, millrace.CodeNotFound)
	})
	q := r.queue(0)
	_, err := r.ListBatches(r.ctx(), 0, millrace.BatchPage{Subscription: q, Limit: 9})
	r.refused(err, millrace.CodeNotFound)
}
