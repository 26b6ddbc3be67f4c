package enginetest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func storePromises() []promise {
	return []promise{
		{"IdentitySaysWhatTheStoreIsAndNeverChanges", identityNeverChanges},
		{"AnotherNumberOfLanesIsAMismatch", anotherNumberOfLanes},
		{"AnExistingStoreKeepsItsLanesWhenNoneAreNamed", existingStoreKeepsItsLanes},
		{"AStoreThatMustExistIsNotCreated", mustExistIsNotCreated},
		{"DurabilityHasAName", durabilityHasAName},
		{"ALaneThatWasNeverCreatedIsMissing", laneMissing},
		{"ACallAfterCloseIsRefused", refusedAfterClose},
		{"CallsUnderWayWhenTheEngineClosesAreAnswered", closeUnderLoad},
		{"ACallWhoseCallerHasGivenUpIsAnsweredHonestly", givenUp},
		{"WhatWasAnsweredIsThereAfterAReopen", thereAfterAReopen},
		{"TheTurnsGoOnAfterAReopen", turnsAfterAReopen},
		{"ANowBeforeTheLastOneCountsAsTheLastOne", clockNeverGoesBack},
		{"ALanesClockDoesNotGoBackOverAReopen", clockOverAReopen},
		{"ZeroNowIsTheLanesOwnClock", zeroNow},
		{"AClockFarBehindItsLaneCarriesOnFromThere", clockCarriesOn},
		{"TimesAreWholeMilliseconds", wholeMilliseconds},
		{"BytesIsTheSizeOfTheStore", bytesIsTheSize},
		{"PingAnswersWhileTheStoreCan", pingAnswers},
		{"LaneStatsCountWhatTheLaneHasDone", laneStatsCount},
		{"AWatcherHearsAllFirst", hintAll},
		{"AWatcherHearsOfADueEntryThatCameEarlier", hintDue},
		{"AWatcherThatHasStoppedHearsNothing", watcherStops},
	}
}

func identityNeverChanges(t *testing.T, c Config) {
	r := open(t, c)
	first := r.Identity()
	if !first.Created || first.StoreID == "" || first.Engine == "" {
		t.Errorf("got identity %+v of a new store", first)
	}
	r.same("lanes", first.Lanes, c.Lanes)
	r.same("format", first.Format, millrace.Format)
	if first.Namespace == "" {
		t.Error("the identity names no namespace")
	}
	r.reopen()
	first.Created = false
	r.same("identity after a reopen", r.Identity(), first)
}

func anotherNumberOfLanes(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", "1", q))
	r.ok(r.Close())
	o := r.options
	o.Lanes = c.Lanes * 2
	if e, err := r.place(o); err == nil {
		r.ok(e.Close())
		t.Error("a store was opened with another number of lanes")
	} else {
		r.refused(err, millrace.CodeMismatch)
	}
	r.Engine = r.opened()
	r.counts(0, q, 1, 0, 0, 0)
}

func mustExistIsNotCreated(t *testing.T, c Config) {
	place := c.New(t)
	o := millrace.EngineOptions{Lanes: c.Lanes, Reserve: -1, Logger: slog.New(slog.DiscardHandler), Existing: true}
	for range 2 { // the first leaves nothing behind
		if e, err := place(o); err == nil {
			t.Fatal("a store was created", e.Close())
		} else if millrace.CodeOf(err) != millrace.CodeNotFound {
			t.Fatalf("got %v, want %s", err, millrace.CodeNotFound)
		}
	}
	for _, existing := range []bool{false, true} {
		o.Existing = existing
		e, err := place(o)
		if err != nil {
			t.Fatal(err)
		}
		if e.Identity().Created == existing {
			t.Errorf("created is %v", e.Identity().Created)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func existingStoreKeepsItsLanes(t *testing.T, c Config) {
	r := open(t, c)
	r.options.Lanes = 0
	r.reopen()
	r.same("lanes", r.Identity().Lanes, c.Lanes)
}

func durabilityHasAName(t *testing.T, c Config) {
	r := open(t, c)
	switch d := r.Durability(); d {
	case millrace.Durable, millrace.Buffered, millrace.InMemory, millrace.EverySec, millrace.Fsync, millrace.Replicated:
	default:
		t.Errorf("got durability %q", d)
	}
}

func laneMissing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for _, lane := range []int{-1, c.Lanes, millrace.MaxLanes} {
		for what, err := range r.everyCall(lane, q) {
			if millrace.CodeOf(err) != millrace.CodeLaneMissing {
				t.Errorf("%s in lane %d: got %v, want code %s", what, lane, err, millrace.CodeLaneMissing)
			}
		}
	}
}

func refusedAfterClose(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.ok(r.Close())
	errs := r.everyCall(0, q)
	_, errs["define"] = r.Define(r.ctx(), millrace.Definition{Kind: millrace.KindQueue, Name: "late", UID: q}, 0)
	_, errs["beat"] = r.Beat(r.ctx(), millrace.Node{ID: "late"}, minute)
	errs["ping"] = r.Ping(r.ctx())
	for what, err := range errs {
		if code := millrace.CodeOf(err); code != millrace.CodeUnavailable && code != millrace.CodeOutcomeUnknown {
			t.Errorf("%s after close: got %v", what, err)
		}
	}
	r.Engine = r.opened()
	r.counts(0, q, 0, 0, 0, 0)
}

func closeUnderLoad(t *testing.T, c Config) {
	r := open(t, c)
	q, sub := r.queue(0), r.sub()
	var wg sync.WaitGroup
	acknowledged := make([]int64, 8)
	for i := range acknowledged {
		wg.Go(func() {
			for {
				_, err := r.Publish(r.ctx(), 0, millrace.Commit{Version: r.version, Events: []millrace.CommitEvent{event("a", "x", q)}})
				if err != nil {
					r.refused(err, millrace.CodeUnavailable, millrace.CodeOutcomeUnknown)
					return
				}
				acknowledged[i]++
			}
		})
	}
	r.waitFor("the first commits", func() bool { return r.stats(0, q).Ready > 50 })
	wg.Go(func() {
		for answered := true; answered; {
			_, _, err := r.Batch(r.ctx(), 0, sub, 1)
			answered = millrace.CodeOf(err) == millrace.CodeNotFound
		}
	})
	r.ok(r.Close())
	wg.Wait()
	r.Engine = r.opened()
	sum := int64(0)
	for _, n := range acknowledged {
		sum += n
	}
	if got := r.stats(0, q).Ready; got < sum {
		t.Errorf("%d messages are there, %d were acknowledged", got, sum)
	}
}

func givenUp(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	_, err := r.Publish(ctx, 0, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{event("a", "1", q)}})
	switch code := millrace.CodeOf(err); code {
	case millrace.CodeUnavailable:
		r.counts(0, q, 0, 0, 0, 0)
	case millrace.CodeOutcomeUnknown:
	case "":
		r.counts(0, q, 1, 0, 0, 0)
	default:
		t.Errorf("got %v", err)
	}
}

// scene fills a lane with a message in every state and returns the queue.
func (r *rig) scene(lane int) (queue string, out held) {
	q := r.queue(3)
	for _, name := range []string{"a1", "b1", "c1", "a2", "b2", "a3"} {
		r.publish(lane, known(keyed(event(name[:1], name, q), "k"+name[:1]), name))
	}
	gone := r.leased(lane, q, 3)
	r.settled(lane, q, millrace.Ack, gone.item(0))
	r.settled(lane, q, millrace.Bury, gone.item(1))
	late := gone.item(2)
	late.Delay = 10 * time.Second
	r.settled(lane, q, millrace.Retry, late)
	return q, r.leased(lane, q, 1)
}

func thereAfterAReopen(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		q, out := r.scene(lane)
		stats, topics, lanes := r.stats(lane, q), r.topics(lane), r.laneStats(lane)
		again := r.publish(lane, known(keyed(event("a", "a3", q), "ka"), "a3"))[0]
		r.reopen()
		r.same("stats", r.stats(lane, q), stats)
		r.same("topics", r.topics(lane), topics)
		lanes.Duplicates++
		r.same("lane stats", r.laneStats(lane), lanes)
		r.same("stamp of a known id", r.publish(lane, known(keyed(event("a", "a3", q), "ka"), "a3"))[0], again)
		next := r.publish(lane, keyed(event("a", "a4", q), "ka"))[0]
		r.same("prev", next.Prev, again.Seq)
		r.settled(lane, q, millrace.Ack, out.items()...)
		r.pass(10 * time.Second)
		r.same("returned", r.step(lane).Returned, 1)
		left := r.lease(lane, q, 10).names()
		slices.Sort(left)
		r.same("what is left", left, []string{"a3", "a4", "b2", "c1"})
	})
}

func turnsAfterAReopen(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for _, name := range []string{"c1", "a1", "b1", "c2", "a2", "b2", "b3"} {
		r.publish(0, event(name[:1], name, q))
	}
	r.same("before", r.lease(0, q, 2).names(), []string{"c1", "a1"})
	r.reopen()
	served := r.lease(0, q, 10).names()
	if len(served) != 5 {
		t.Fatalf("served %v, want 5 messages", served)
	}
	seen := map[byte]bool{}
	for _, name := range served[:3] {
		if seen[name[0]] {
			t.Errorf("served %v: a tenant twice in a turn", served)
		}
		seen[name[0]] = true
	}
}

func clockNeverGoesBack(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	late := r.now.Add(time.Hour)
	r.now = late
	first := r.commit(0, event("a", "1", q))
	r.now = start()
	second := r.commit(0, event("a", "2", q))
	r.same("recorded", second.RecordedAt, first.RecordedAt)
	if second.Stamps[0].Seq <= first.Stamps[0].Seq {
		t.Errorf("seq fell from %d to %d", first.Stamps[0].Seq, second.Stamps[0].Seq)
	}
	r.same("until", r.lease(0, q, 1).Until, late.Add(minute))
	r.now = late.Add(time.Hour)
	r.leased(0, q, 1)
	r.now = late.Add(30 * time.Second)
	r.same("expired", r.step(0).Expired, 1)
}

func clockOverAReopen(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.pass(time.Hour)
	first := r.commit(0, event("a", "1", q))
	r.reopen()
	r.pass(-time.Hour)
	second := r.commit(0, event("a", "2", q))
	r.same("recorded", second.RecordedAt, first.RecordedAt)
	if second.Stamps[0].Seq <= first.Stamps[0].Seq {
		t.Errorf("seq fell from %d to %d", first.Stamps[0].Seq, second.Stamps[0].Seq)
	}
}

func zeroNow(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.now = time.Time{}
	before := time.Now()
	done := r.commit(0, event("a", "1", q))
	after := time.Now()
	const slack = 500 * time.Millisecond
	if done.RecordedAt.Before(before.Add(-slack)) || done.RecordedAt.After(after.Add(slack)) {
		t.Errorf("recorded at %v, which is not between %v and %v", done.RecordedAt, before, after)
	}
	h := r.leased(0, q, 1)
	if d := h.Until.Sub(after); d < minute-slack || d > minute+10*time.Second {
		t.Errorf("leased for %v, want a minute", d)
	}
	r.same("clock offset", r.laneStats(0).ClockOffset, time.Duration(0))
}

func clockCarriesOn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	first := r.commit(0, event("a", "1", q))
	r.now = time.Time{}
	second := r.commit(0, event("a", "2", q))
	if second.RecordedAt.Before(first.RecordedAt) || second.RecordedAt.After(first.RecordedAt.Add(time.Minute)) {
		t.Errorf("recorded at %v after %v", second.RecordedAt, first.RecordedAt)
	}
	want := time.Until(first.RecordedAt)
	if got := r.laneStats(0).ClockOffset; got < want-time.Minute || got > want+time.Minute {
		t.Errorf("clock offset %v, want about %v", got, want)
	}
	h := r.leaseFor(0, q, 1, time.Millisecond)
	r.waitFor("the lane's clock to go on", func() bool { return r.step(0).Expired == 1 })
	r.lost(0, q, h.items()...)
}

func wholeMilliseconds(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	whole := r.now
	r.pass(999 * time.Microsecond)
	r.same("recorded", r.commit(0, event("a", "1", q), event("a", "2", q)).RecordedAt, whole)
	h := r.leaseFor(0, q, 1, 10*time.Microsecond)
	r.same("until", h.Until, whole.Add(time.Millisecond))
	r.settled(0, q, millrace.Ack, h.items()...)
	item := r.leased(0, q, 1).item(0)
	item.Delay = time.Nanosecond
	r.same("due", r.settle(0, q, millrace.Retry, item).Due, time.Millisecond)
	r.counts(0, q, 0, 0, 1, 0)
}

func bytesIsTheSize(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, event("a", string(make([]byte, 1<<17)), q))
	n, err := r.Bytes(r.ctx())
	r.ok(err)
	if n <= 0 {
		t.Errorf("got %d bytes", n)
	}
}

func pingAnswers(t *testing.T, c Config) {
	r := open(t, c)
	r.ok(r.Ping(r.ctx()))
}

func laneStatsCount(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.publish(lane, known(event("a", "1", q), "1"), event("a", "2", q), event("a", "3"))
		r.publish(lane, known(event("a", "1", q), "1"))
		want := millrace.LaneStats{Version: r.version, Published: 3, Duplicates: 1, Unrouted: 1}
		r.same("lane stats", r.laneStats(lane), want)
	})
}

// watch gathers the hints of an engine.
func (r *rig) watch() *hints {
	h := &hints{}
	stop := r.Watch(h.hear)
	r.Cleanup(stop)
	return h
}

type hints struct {
	mu   sync.Mutex
	list []millrace.Hint
}

func (h *hints) hear(hint millrace.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, hint)
}

// count is how often a kind of hint was heard of a lane and queue.
func (h *hints) count(kind millrace.HintKind, lane int, queue string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, hint := range h.list {
		if hint.Kind == kind && hint.Lane == lane && hint.Queue == queue {
			n++
		}
	}
	return n
}

func hintAll(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.waitFor("a hint for all", func() bool { return h.count(millrace.HintAll, 0, "") > 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	r.same("first hint", h.list[0].Kind, millrace.HintAll)
}

func hintDue(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	q := r.queue(0)
	lane := c.Lanes - 1
	r.settleWatch(h, lane)
	before := h.count(millrace.HintDue, lane, "")
	r.publish(lane, event("a", "1", q))
	r.leased(lane, q, 1)
	r.waitFor("a hint of the lease's end", func() bool { return h.count(millrace.HintDue, lane, "") > before })
}

// settleWatch waits until a watcher hears a lane: a hint that was sent before
// the watch had reached the store may be lost.
func (r *rig) settleWatch(h *hints, lane int) {
	r.Helper()
	q := r.queue(0)
	r.waitFor("the watch to hear its lane", func() bool {
		r.lease(lane, q, 1)
		r.publish(lane, event("probe", "probe", q))
		got := r.lease(lane, q, 1)
		r.settled(lane, q, millrace.Ack, got.items()...)
		return h.count(millrace.HintQueue, lane, q) > 0
	})
	r.remove(q)
	r.sweepAll(lane)
}

func watcherStops(t *testing.T, c Config) {
	r := open(t, c)
	h := &hints{}
	stop := r.Watch(h.hear)
	r.settleWatch(h, 0)
	stop()
	q := r.queue(0)
	r.lease(0, q, 1)
	next := r.watch()
	r.publish(0, event("a", "1", q))
	r.waitFor("the new watcher's hint", func() bool {
		return next.count(millrace.HintQueue, 0, q) > 0 || next.count(millrace.HintAll, 0, "") > 0
	})
	r.same("hints of the stopped one", h.count(millrace.HintQueue, 0, q), 0)
}
