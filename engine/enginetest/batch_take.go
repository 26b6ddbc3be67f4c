package enginetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func takePromises() []promise {
	return []promise{
		{"SubscriptionsAreServedByTurns", subsByTurns},
		{"ASubscriptionEntersTheRingAtTheTail", subEntersAtTheTail},
		{"TheTurnsGoOnInTheNextTake", takeTurnsGoOn},
		{"TheLowestNameIsFirst", lowestNameFirst},
		{"ATakenBatchIsWhole", takenIsWhole},
		{"ATakenBatchIsGivenToNobodyElse", takenOnce},
		{"ATakeStopsAtItsBytesButGivesTheFirst", takeStopsAtBytes},
		{"NoMoreBatchesArePendingThanConcurrency", concurrencyHolds},
		{"ASlotThatIsFreedIsFilled", slotIsFilled},
		{"ATakeSaysWhetherThereIsMore", takeSaysMore},
		{"ATakeOfNothingIsEmpty", takeOfNothing},
		{"AWantedLaneSendsAHintWhenABatchIsFull", wantedByFull},
		{"AWantedLaneSendsAHintWhenABatchIsClosedByBytes", wantedByBytes},
		{"AWantedLaneSendsAHintWhenABatchIsStale", wantedByStale},
		{"AWantedLaneSendsAHintWhenASlotIsFreed", wantedBySlot},
		{"AWantedLaneSendsAHintWhenAFailureFreesASlot", wantedByFailure},
		{"AWantedLaneSendsAHintWhenAPendingBatchIsLate", wantedByLate},
		{"AWantedLaneSendsAHintWhenAParkEnds", wantedByParkEnd},
		{"AWantedLaneSendsAHintWhenASuccessEndsAPark", wantedBySuccess},
		{"AWantedLaneSendsAHintWhenABatchIsRetried", wantedByRetried},
		{"AWantedLaneSendsAHintWhenTheBlockingBatchIsDropped", wantedByDropped},
		{"AWantedLaneSendsAHintWhenTheBlockingBatchIsForgottenByAutodrop", wantedByDropOldest},
		{"AWantedLaneSendsAHintWhenASubscriptionResumes", wantedByResume},
		{"AWantedLaneSendsAHintWhenConcurrencyGrows", wantedByConcurrency},
		{"AWantedLaneSendsAHintWhenABatchIsInjected", wantedByInject},
		{"ALaneWhoseLastBatchWasTakenIsWanted", wantedByTakingTheLastBatch},
		{"AWantedLaneSendsOneHintAndAnotherSendsNone", oneHintAndNoMore},
		{"TakersAtOnceShareTheBatches", takersShare},
	}
}

func subsByTurns(t *testing.T, c Config) {
	r := open(t, c)
	a, b, d := r.sub(single), r.sub(single), r.sub(single)
	r.each(func(lane int) {
		r.push(lane, a, "a1", "a2", "a3")
		r.push(lane, b, "b1")
		r.push(lane, d, "d1", "d2")
		r.same("order", r.take(lane, 9).names(), []string{"a1", "b1", "d1", "a2", "d2", "a3"})
	})
}

func subEntersAtTheTail(t *testing.T, c Config) {
	r := open(t, c)
	a, b, d := r.sub(single), r.sub(single), r.sub(single)
	r.push(0, d, "d1")
	r.push(0, b, "b1", "b2")
	r.push(0, a, "a1")
	r.same("first", r.take(0, 2).names(), []string{"d1", "b1"})
	r.push(0, d, "d2", "d3")
	r.same("then", r.take(0, 9).names(), []string{"a1", "b2", "d2", "d3"})
}

func takeTurnsGoOn(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(single)
	r.push(0, a, "a1", "a2", "a3")
	r.push(0, b, "b1", "b2", "b3")
	var got []string
	for range 6 {
		got = append(got, r.took(0, 1).names()...)
	}
	r.same("order", got, []string{"a1", "b1", "a2", "b2", "a3", "b3"})
}

func lowestNameFirst(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(time.Second, time.Second, time.Second))
	r.push(0, uid, "1", "2", "3", "4")
	k := r.took(0, 3)
	r.told(0, k.failed(2), k.failed(0))
	r.pass(time.Second)
	r.step(0)
	again := r.take(0, 9)
	r.same("order", again.names(), []string{"1", "3", "4"})
	r.same("attempts", []int{again.Batches[0].Attempt, again.Batches[1].Attempt, again.Batches[2].Attempt}, []int{2, 2, 1})
}

func takenIsWhole(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.Format = 2, "cloudevents" })
	r.each(func(lane int) {
		opened := r.now
		first := r.publish(lane, keyed(pushed("one", uid), "k"))[0]
		r.pass(10 * time.Millisecond)
		second := r.publish(lane, keyed(pushed("two", uid), "k"))[0]
		closed := r.now
		r.pass(10 * time.Millisecond)
		want := []millrace.TakenBatch{{
			Subscription: uid, Version: r.version, Name: first.Seq, Attempt: 1, CreatedAt: opened, Format: "cloudevents", Events: []millrace.BatchEvent{
				{Seq: first.Seq, RecordedAt: opened, Body: []byte("one")},
				{Seq: second.Seq, Prev: first.Seq, RecordedAt: closed, Body: []byte("two")},
			},
		}}
		k := r.takeBy(lane, millrace.Take{Max: 1, For: 20 * time.Second, Node: "here"})
		r.same("taken", k.Batches, want)
		r.same("due", k.Due, 20*time.Second)
		r.same("listed", r.batches(lane, uid), []millrace.Batch{{
			Name: first.Seq, State: millrace.BatchPending, Count: 2, Bytes: 6, Attempts: 1, CreatedAt: opened, DueAt: r.now.Add(20 * time.Second), Node: "here",
		}})
		r.told(lane, k.failed(0))
		r.pass(5 * time.Second)
		r.step(lane)
		want[0].Attempt = 2
		again := r.take(lane, 1)
		r.same("the same again", again.Batches, want)
		r.told(lane, again.sent(0))
	})
}

func takenOnce(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	r.same("first", r.took(0, 1).names(), []string{"1"})
	r.same("second", r.take(0, 9).names(), []string{"2"})
	r.same("third", r.take(0, 9).names(), []string{})
	r.pass(2 * minute)
	r.same("late, before the step", r.take(0, 9).names(), []string{})
}

func takeStopsAtBytes(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(single)
	r.push(0, a, "four", "4444", "1")
	r.push(0, b, "seventy", "2")
	by := func(n int) []string { return r.takeBy(0, millrace.Take{Max: 9, MaxBytes: n, For: minute}).names() }
	r.same("what fits", by(10), []string{"four"})
	r.same("the first is given, and its subscription was next", by(3), []string{"seventy"})
	r.same("exactly", by(5), []string{"4444", "2"})
	r.same("the rest", by(1), []string{"1"})
}

func concurrencyHolds(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, atOnce(2))
	other := r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2", "3", "4", "5")
		r.push(lane, other, "x")
		r.same("taken", r.take(lane, 9).names(), []string{"1", "x", "2"})
		r.same("full", r.take(lane, 9).names(), []string{})
		r.same("pending", r.subStats(lane, uid).Pending, int64(2))
	})
}

func slotIsFilled(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, atOnce(2))
	r.push(0, uid, "1", "2", "3", "4", "5")
	k := r.took(0, 2)
	r.told(0, k.sent(1))
	third := r.take(0, 9)
	r.same("after a success", third.names(), []string{"3"})
	r.told(0, k.failed(0))
	r.same("after a failure", r.take(0, 9).names(), []string{"4"})
	r.told(0, third.sent(0))
	r.same("after another", r.take(0, 9).names(), []string{"5"})
	r.pass(minute)
	r.step(0)
	r.same("after a loss", r.take(0, 9).names(), []string{"1"})
}

func takeSaysMore(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(single)
	r.push(0, a, "1", "2")
	r.push(0, b, "3")
	for i, want := range []bool{true, true, false, false} {
		k := r.take(0, 1)
		r.same("more", k.More, want)
		r.same("due", k.Due, minute)
		r.same("batches", len(k.Batches), min(1, 3-i))
	}
}

func takeOfNothing(t *testing.T, c Config) {
	r := open(t, c)
	r.same("without subscriptions", r.take(0, 9).Taken, millrace.Taken{Due: -1})
	uid := r.sub()
	r.same("without batches", r.take(0, 9).Taken, millrace.Taken{Due: -1})
	r.push(0, uid, "1")
	r.same("with an early one", r.take(0, 9).Taken, millrace.Taken{Due: time.Second})
	r.pass(minute)
	r.same("overdue", r.take(0, 9).Taken, millrace.Taken{})
}

// wantedLane proves that a lane which a take found empty sends a hint when something can be taken.
func wantedLane(t *testing.T, c Config, prepare, fill func(r *rig, lane int, uid string), edits ...func(*millrace.SubscriptionSettings)) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		uid := r.sub(edits...)
		prepare(r, lane, uid)
		r.same("batches of the take that wants", r.take(lane, 1).names(), []string{})
		r.same("hints before", h.count(millrace.HintBatch, lane, ""), 0)
		fill(r, lane, uid)
		r.waitFor("a hint", func() bool { return h.count(millrace.HintBatch, lane, "") > 0 })
		r.took(lane, 1)
	})
}

func nothing(*rig, int, string) {}

func wantedByFull(t *testing.T, c Config) {
	wantedLane(t, c, nothing, func(r *rig, lane int, uid string) { r.push(lane, uid, "1") }, single)
}

func wantedByBytes(t *testing.T, c Config) {
	open := func(r *rig, lane int, uid string) { r.push(lane, uid, "12") }
	wantedLane(t, c, open, func(r *rig, lane int, uid string) { r.push(lane, uid, "34") },
		func(s *millrace.SubscriptionSettings) { s.MaxBytes = 3 })
}

func wantedByStale(t *testing.T, c Config) {
	open := func(r *rig, lane int, uid string) { r.push(lane, uid, "1") }
	wantedLane(t, c, open, func(r *rig, lane int, _ string) {
		r.pass(time.Second)
		r.step(lane)
	})
}

// twoForOne fills a subscription that may have one batch pending with two, and takes the first.
func twoForOne(k *taken) func(r *rig, lane int, uid string) {
	return func(r *rig, lane int, uid string) {
		r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.Concurrency = 1, 1 })
		before := r.take(lane, 1)
		r.same("nothing yet", before.names(), []string{})
		r.push(lane, uid, "1", "2")
		*k = r.took(lane, 1)
	}
}

// wantedAgain is wantedLane where the lane was wanted and woken before.
func wantedAgain(t *testing.T, c Config, prepare, fill func(r *rig, lane int, uid string), edits ...func(*millrace.SubscriptionSettings)) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		uid := r.sub(edits...)
		prepare(r, lane, uid)
		r.same("batches of the take that wants", r.take(lane, 1).names(), []string{})
		r.waitFor("the hint before", func() bool { return h.count(millrace.HintBatch, lane, "") == 1 })
		fill(r, lane, uid)
		r.waitFor("a hint", func() bool { return h.count(millrace.HintBatch, lane, "") == 2 })
		r.took(lane, 1)
	})
}

func wantedBySlot(t *testing.T, c Config) {
	var k taken
	wantedAgain(t, c, twoForOne(&k), func(r *rig, lane int, _ string) { r.told(lane, k.sent(0)) })
}

func wantedByFailure(t *testing.T, c Config) {
	var k taken
	wantedAgain(t, c, twoForOne(&k), func(r *rig, lane int, _ string) { r.told(lane, k.failed(0)) })
}

func wantedByLate(t *testing.T, c Config) {
	var k taken
	wantedAgain(t, c, twoForOne(&k), func(r *rig, lane int, _ string) {
		r.pass(minute)
		r.same("scrubbed", r.step(lane).Scrubbed, 1)
	})
}

func wantedByParkEnd(t *testing.T, c Config) {
	park := func(r *rig, lane int, uid string) {
		r.take(lane, 1)
		r.push(lane, uid, "1", "2", "3", "4")
		r.told(lane, r.took(lane, 3).each(taken.failed)...)
	}
	wantedAgain(t, c, park, func(r *rig, lane int, _ string) {
		r.pass(5 * time.Second)
		r.step(lane)
	}, single)
}

func wantedBySuccess(t *testing.T, c Config) {
	var k taken
	park := func(r *rig, lane int, uid string) {
		r.take(lane, 1)
		r.push(lane, uid, "1", "2", "3", "4", "5")
		k = r.took(lane, 4)
		r.told(lane, k.failed(0), k.failed(1), k.failed(2))
	}
	wantedAgain(t, c, park, func(r *rig, lane int, _ string) { r.told(lane, k.sent(3)) }, single)
}

func wantedByRetried(t *testing.T, c Config) {
	open := func(r *rig, lane int, uid string) { r.push(lane, uid, "1") }
	wantedLane(t, c, open, func(r *rig, lane int, uid string) {
		r.retried(lane, millrace.BatchesOf{Subscription: uid, Names: []uint64{r.batchAt(lane, uid, 0).Name}}, 1, 0)
	})
}

// blocked makes an ordered subscription wait for a batch that failed.
func blocked(r *rig, lane int, uid string) {
	r.take(lane, 1)
	r.push(lane, uid, "1", "2")
	r.told(lane, r.took(lane, 1).failed(0))
}

func wantedByDropped(t *testing.T, c Config) {
	wantedAgain(t, c, blocked, func(r *rig, lane int, uid string) {
		r.ok(r.DropBatch(r.ctx(), lane, uid, r.batchAt(lane, uid, 0).Name))
	}, single, inOrder)
}

func wantedByDropOldest(t *testing.T, c Config) {
	wantedAgain(t, c, blocked, func(r *rig, lane int, _ string) { r.dropOldest(lane, 1) }, single, inOrder)
}

func wantedByResume(t *testing.T, c Config) {
	fill := func(r *rig, lane int, uid string) { r.push(lane, uid, "1") }
	paused := func(s *millrace.SubscriptionSettings) { s.Paused = true }
	wantedLane(t, c, fill, func(r *rig, _ int, uid string) {
		r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.Paused = false })
	}, single, paused)
}

func wantedByConcurrency(t *testing.T, c Config) {
	var k taken
	wantedAgain(t, c, twoForOne(&k), func(r *rig, _ int, uid string) { r.changeSub(uid, atOnce(2)) })
}

func wantedByInject(t *testing.T, c Config) {
	wantedLane(t, c, nothing, func(r *rig, lane int, uid string) { r.injectSub(lane, uid, injected("a", "x", 7)) }, single)
}

func wantedByTakingTheLastBatch(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	uid := r.sub(single)
	r.push(0, uid, "1")
	r.took(0, 1)
	r.push(0, uid, "2")
	r.waitFor("a hint", func() bool { return h.count(millrace.HintBatch, 0, "") > 0 })
}

func oneHintAndNoMore(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	uid, other := r.sub(single), r.sub(single)
	r.push(0, uid, "1", "2")
	r.push(0, other, "x")
	r.took(0, 1)
	for i := range 10 {
		r.push(0, other, fmt.Sprint("y", i))
	}
	last := r.queue(0)
	r.lease(0, last, 1)
	r.publish(0, event("a", "after", last))
	r.waitFor("a hint that was sent later", func() bool { return h.count(millrace.HintQueue, 0, last) > 0 })
	r.same("hints of a lane that nobody wants", h.count(millrace.HintBatch, 0, ""), 0)
	r.take(0, 64)
	for i := range 10 {
		r.push(0, uid, fmt.Sprint("z", i))
	}
	r.lease(0, last, 1)
	r.publish(0, event("a", "after", last))
	r.waitFor("a hint that was sent later", func() bool { return h.count(millrace.HintQueue, 0, last) > 1 })
	r.same("hints of a wanted lane", h.count(millrace.HintBatch, 0, ""), 1)
}

func takersShare(t *testing.T, c Config) {
	r := open(t, c)
	uids := []string{r.sub(single, atOnce(64)), r.sub(single, atOnce(64))}
	for i := range 40 {
		r.publish(0, pushed(fmt.Sprint(i), uids...))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	given := map[string]int{}
	for worker := range 6 {
		wg.Go(func() {
			for n := range 20 {
				token := millrace.Token{0: byte(worker + 1), 1: byte(n + 1)}
				k, err := r.Take(r.ctx(), 0, millrace.Take{Now: r.now, Max: 3, MaxBytes: 1 << 20, For: minute, Token: token})
				if err != nil {
					r.Errorf("take: %v", err)
					return
				}
				mu.Lock()
				for _, b := range k.Batches {
					given[fmt.Sprint(b.Subscription, b.Name)]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	r.same("batches given", len(given), 80)
	for batch, n := range given {
		r.same("times that "+batch+" was given", n, 1)
	}
}
