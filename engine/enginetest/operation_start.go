package enginetest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func startPromises() []promise {
	return []promise{
		{"AStartPutsOneMessageIntoItsQueue", startPuts},
		{"AStartIsInNoChainAndNoTopicAndCountsAsPublished", startApart},
		{"AStartedMessageIsNotShownLive", startNotShown},
		{"WhileOneIsOpenASecondStartReturnsIt", startDeduped},
		{"AnEndOfAnyKindFreesTheDedupe", endFreesDedupe},
		{"AStartThatAQueueHasNoRoomForIsRefused", startFull},
		{"ADelayedStartWaitsItsTime", startDelayed},
		{"AStartOfAnUnknownOrUntrackedQueueIsRefused", startUnknown},
		{"APausedQueueTakesAStart", startPaused},
		{"AStartWakesAWantedQueue", startHints},
		{"StartsOfOneKeyAreServedInOrder", startOrdered},
	}
}

func startPuts(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.tracked(millrace.QueueSettings{}), r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		s := r.starting(q, "a1")
		s.Key = "k"
		done := r.start(lane, s)
		number := done.ID.Number
		r.same("started", done, millrace.Started{ID: millrace.OperationID{Number: number, Secret: s.Opening.Secret}, Status: millrace.OperationQueued, Due: -1})
		r.same("lane", millrace.LaneOfSeq(number, c.Lanes), lane)
		r.same("operation", r.operation(lane, number), r.begun(s.Opening, number, number, "a"))
		want := millrace.LeasedMessage{
			Name: number, Seq: number, RecordedAt: r.now, Tenant: "a", Attempt: 1, Body: []byte("a1"), Operation: done.ID,
		}
		r.pass(time.Second)
		r.same("message", r.leased(lane, q, 1).Messages[0], want)
		r.counts(lane, other, 0, 0, 0, 0)
	})
}

func startApart(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		first := r.publish(lane, keyed(event("a", "a1", q), "k"))[0].Seq
		topics, before := r.topics(lane), r.laneStats(lane)
		s := r.starting(q, "a2")
		s.Key = "k"
		number := r.start(lane, s).ID.Number
		r.same("number", number, first+uint64(c.Lanes))
		before.Published++
		r.same("lane", r.laneStats(lane), before)
		r.same("topics", r.topics(lane), topics)
		next := r.publish(lane, keyed(event("a", "a3", q), "k"))[0]
		r.same("the key's chain", []uint64{next.Seq, next.Prev}, []uint64{number + uint64(c.Lanes), first})
	})
}

func startNotShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	s := r.view(r)
	r.each(func(lane int) {
		r.starts(lane, q, "a1")
		r.publish(lane, event("a", "a2", q))
		r.shows(s, lane, "a2")
	})
	s.stop()
}

func startDeduped(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxLength: 4})
	r.each(func(lane int) {
		first := r.start(lane, deduped(r.starting(q, "a1"), "x"))
		other := r.start(lane, deduped(r.starting(q, "a2"), "y"))
		free := r.starts(lane, q, "a3", "a4")
		r.same("others", len(map[uint64]bool{first.ID.Number: true, other.ID.Number: true, free[0]: true, free[1]: true}), 4)
		before := r.laneStats(lane)
		again := func(status millrace.OperationStatus) {
			r.Helper()
			done := r.start(lane, deduped(r.starting(q, "a5"), "x"))
			done.Due = 0
			r.same("again", done, millrace.Started{ID: first.ID, Status: status, Existing: true})
		}
		again(millrace.OperationQueued) // though the queue is full
		h := r.leased(lane, q, 1)
		again(millrace.OperationRunning)
		r.cancel(lane, first.ID.Number)
		again(millrace.OperationRunning)
		r.same("lane", r.laneStats(lane), before)
		r.settled(lane, q, millrace.Ack, h.items()...)
		anew := r.start(lane, deduped(r.starting(q, "a5"), "x"))
		r.same("after its end", anew.Existing, false)
		r.same("and then", r.start(lane, deduped(r.starting(q, "a6"), "x")).ID, anew.ID)
		r.purge(lane, q, "", 100)
	})
}

func endFreesDedupe(t *testing.T, c Config) {
	r := open(t, c)
	ends := map[string]func(lane int, q string, number uint64){
		"cancel": func(lane int, _ string, number uint64) { r.cancel(lane, number) },
		"purge":  func(lane int, q string, _ uint64) { r.purge(lane, q, "", 9) },
		"drop":   func(lane int, q string, _ uint64) { r.starts(lane, q, "a2") },
		"sweep": func(lane int, q string, _ uint64) {
			r.remove(q)
			r.sweepAll(lane)
		},
		"cancel while it runs": func(lane int, q string, number uint64) {
			h := r.leased(lane, q, 1)
			r.cancel(lane, number)
			r.settled(lane, q, millrace.Retry, h.items()...)
		},
	}
	for _, p := range paths() {
		ends[p.name] = func(lane int, q string, _ uint64) { p.do(r, lane, q, r.leaseAs(lane, q, "worker", 1)) }
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		q := r.tracked(millrace.QueueSettings{MaxAttempts: 1, MaxLength: 1, DropOldest: true})
		next := r.tracked(millrace.QueueSettings{})
		first := r.start(0, deduped(r.starting(q, "a1"), name))
		ends[name](0, q, first.ID.Number)
		if got := r.operation(0, first.ID.Number).Status; !got.Finished() {
			t.Errorf("after %s it is %s", name, got)
		}
		if r.start(0, deduped(r.starting(next, "a1"), name)).Existing {
			t.Errorf("after %s it counts as open", name)
		}
	}
}

func startFull(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{MaxLength: 2})
	r.each(func(lane int) {
		r.starts(lane, q, "a1", "a2")
		before := r.laneStats(lane)
		late := r.starting(q, "a3")
		late.Delay = time.Second
		for _, s := range []millrace.Start{r.starting(q, "a3"), late, deduped(r.starting(q, "a3"), "x")} {
			_, err := r.Start(r.ctx(), lane, s)
			r.refused(err, millrace.CodeFull)
			var e *millrace.Error
			if !errors.As(err, &e) || e.Sink != q {
				t.Errorf("error %v does not name the queue %s", err, q)
			}
		}
		r.same("lane", r.laneStats(lane), before)
		r.counts(lane, q, 2, 0, 0, 0)
		r.starts(lane, q, "b1")
		r.leased(lane, q, 1)
		r.same("existing", r.start(lane, deduped(r.starting(q, "a3"), "x")).Existing, false)
	})
}

func startDelayed(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	r.each(func(lane int) {
		s := r.starting(q, "a1")
		s.Delay = 10 * time.Second
		done := r.start(lane, s)
		r.same("due", done.Due, 10*time.Second)
		r.counts(lane, q, 0, 0, 1, 0)
		op := r.moved(lane, r.begun(s.Opening, done.ID.Number, done.ID.Number, "a"), func(*millrace.StoredOperation) {})
		r.starts(lane, q, "a2")
		r.same("before its time", r.lease(lane, q, 9).names(), []string{"a2"})
		r.pass(10*time.Second - time.Millisecond)
		r.same("returned", r.step(lane).Returned, 0)
		r.pass(time.Millisecond)
		r.same("returned in time", r.step(lane).Returned, 1)
		r.moved(lane, op, func(*millrace.StoredOperation) {})
		r.starts(lane, q, "a3")
		r.same("served", r.lease(lane, q, 9).names(), []string{"a1", "a3"})
		r.moved(lane, op, r.running(1))
	})
}

func startUnknown(t *testing.T, c Config) {
	r := open(t, c)
	plain, gone := r.queue(0), r.tracked(millrace.QueueSettings{})
	r.remove(gone)
	before := r.laneStats(0)
	_, err := r.Start(r.ctx(), 0, r.starting(plain, "a1"))
	r.refused(err, millrace.CodeNotTracked)
	for _, uid := range []string{"00000000000000cc", gone} {
		_, err = r.Start(r.ctx(), 0, r.starting(uid, "a1"))
		r.refused(err, millrace.CodeNotFound)
	}
	r.counts(0, plain, 0, 0, 0, 0)
	r.same("lane", r.laneStats(0), before)
}

func startPaused(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{Paused: true})
	number := r.starts(0, q, "a1")[0]
	r.same("while it is paused", r.lease(0, q, 9).names(), []string{})
	r.is(0, millrace.OperationQueued, number)
	r.change(q, func(s *millrace.QueueSettings) { s.Paused = false })
	r.leased(0, q, 1)
	r.is(0, millrace.OperationRunning, number)
}

func startHints(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{})
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		r.lease(lane, q, 1)
		r.starts(lane, q, "a1")
		r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, lane, q) > 0 })
		due := h.count(millrace.HintDue, lane, "")
		late := r.starting(q, "a2")
		late.Delay = time.Second
		r.start(lane, late)
		r.waitFor("a hint of its time", func() bool { return h.count(millrace.HintDue, lane, "") > due })
	})
}

func startOrdered(t *testing.T, c Config) {
	r := open(t, c)
	q := r.tracked(millrace.QueueSettings{Ordered: true})
	for _, name := range []string{"a1", "a2", "a3"} {
		s := r.starting(q, name)
		s.Key = "k"
		r.start(0, s)
	}
	r.publish(0, keyed(event("a", "a4", q), "k"))
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		h := r.lease(0, q, 9)
		r.same("in flight", h.names(), []string{name})
		r.settled(0, q, millrace.Ack, h.items()...)
	}
}
