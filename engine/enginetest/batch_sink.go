package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// sinkPromises are of subscriptions among the other sinks of a lane.
func sinkPromises() []promise {
	return []promise{
		{"AnEventInQueuesAndSubscriptionsIsHeldByEach", heldByEach},
		{"ABodyIsFreedByItsLastHolder", freedByTheLast},
		{"ABodyThatAQueueHoldsOutlivesTheBatch", queueOutlives},
		{"ARemovedSubscriptionIsNotKnownToTheLane", removedSubIsUnknown},
		{"ARemovedSubscriptionNeverComesBack", removedSubNeverBack},
		{"ARemovedSubscriptionHasNothingDueAndNoTurn", removedSubHasNothing},
		{"ASweepFreesWhatARemovedSubscriptionLeft", sweepFreesBatches},
		{"ASweepOfBatchesIsBounded", sweepOfBatchesIsBounded},
		{"ADelayedEventIsAppendedWhenItIsDue", delayedIsAppended},
		{"AnInjectedEventKeepsItsStampsInABatch", injectedInBatch},
		{"AnInjectedEventOpensABatchNamedByTheLane", injectedOpensBatch},
		{"AnInjectedEventIsInOneSubscriptionAlone", injectedInOneSub},
		{"ADisabledSubscriptionSkipsWhatIsInjected", disabledSkipsInjected},
		{"InjectedEventsOfABatchAreThereAfterAReopen", injectedBatchReopened},
	}
}

func (r *rig) injectSub(lane int, uid string, events ...millrace.InjectEvent) {
	r.Helper()
	r.ok(r.Inject(r.ctx(), lane, millrace.Inject{Now: r.now, Subscription: uid, Events: events}))
}

// everywhere is an event for queues and subscriptions.
func everywhere(name string, queues, subs []string) millrace.CommitEvent {
	e := event("a", name, queues...)
	e.Batches = subs
	return e
}

func heldByEach(t *testing.T, c Config) {
	r := open(t, c)
	queues, subs := []string{r.queue(0), r.queue(0)}, []string{r.sub(single), r.sub(single)}
	r.each(func(lane int) {
		s := r.publish(lane, everywhere("x", queues, subs))[0]
		r.same("sinks", s.Sinks, 4)
		for _, q := range queues {
			h := r.leased(lane, q, 1)
			r.same("message", []any{h.Messages[0].Seq, string(h.Messages[0].Body)}, []any{s.Seq, "x"})
		}
		k := r.took(lane, 2)
		r.same("subscriptions", []string{k.Batches[0].Subscription, k.Batches[1].Subscription}, subs)
		for _, b := range k.Batches {
			r.same("event", b.Events, []millrace.BatchEvent{{Seq: s.Seq, RecordedAt: r.now, Body: []byte("x")}})
		}
	})
}

// freedByTheLast ends the holders of an event in every order that matters; the
// engine's check after each one finds a body that nobody holds, or that is missing.
func freedByTheLast(t *testing.T, c Config) {
	r := open(t, c)
	queues, subs := []string{r.queue(0), r.queue(0)}, []string{r.sub(single), r.sub(single)}
	ends := []func(lane int){
		func(lane int) { r.settled(lane, queues[0], millrace.Ack, r.leased(lane, queues[0], 1).items()...) },
		func(lane int) { r.settled(lane, queues[1], millrace.Ack, r.leased(lane, queues[1], 1).items()...) },
		func(lane int) { r.told(lane, r.took(lane, 1).sent(0)) },
		func(lane int) {
			for _, uid := range subs {
				for _, b := range r.batches(lane, uid) {
					r.ok(r.DropBatch(r.ctx(), lane, uid, b.Name))
				}
			}
		},
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {2, 3, 0, 1}, {2, 0, 3, 1}, {0, 2, 1, 3}} {
		r.publish(0, everywhere("x", queues, subs))
		for _, i := range order {
			ends[i](0)
			r.clean()
		}
	}
	for _, uid := range subs {
		r.same("states", r.states(0, uid), []string{})
	}
}

func queueOutlives(t *testing.T, c Config) {
	r := open(t, c)
	q, uid := r.queue(0), r.sub(single)
	r.publish(0, everywhere("first", []string{q}, []string{uid}), everywhere("second", []string{q}, []string{uid}))
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	k := r.take(0, 9)
	r.same("batches", k.names(), []string{"first", "second"})
	r.told(0, k.each(taken.sent)...)
	r.same("message", r.lease(0, q, 9).names(), []string{"second"})
	r.remove(uid)
	r.sweepAll(0)
	r.reopen()
	r.same("stats", r.stats(0, q).Leased, int64(1))
}

func removedSubIsUnknown(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		r.remove(uid)
		r.remove(uid)
		r.strange(lane, uid)
		r.lostBatch(lane, k.sent(0))
		r.sweepAll(lane)
		r.strange(lane, uid)
		r.clean()
	})
}

func removedSubNeverBack(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single), "00000000000000ab"
	r.push(0, uid, "1")
	r.remove(uid)
	r.remove(other)
	late := millrace.Apply{Version: r.version, Subscriptions: []millrace.SubscriptionSettings{r.subs[uid], {UID: other, Version: r.version + 9, MaxEvents: 1}}}
	for _, reopen := range []bool{false, true} {
		if reopen {
			r.sweepAll(0)
			r.reopen()
		}
		gone, err := r.Apply(r.ctx(), 0, late)
		r.ok(err)
		r.same("gone", gone, []string{uid, other})
		r.strange(0, uid)
	}
}

func removedSubHasNothing(t *testing.T, c Config) {
	r := open(t, c)
	uid, _ := r.allStates(0)
	parked := r.parked(0)
	other := r.sub(single)
	r.push(0, other, "x")
	r.remove(uid)
	r.remove(parked)
	k := r.take(0, 9)
	r.same("the other alone", k.names(), []string{"x"})
	r.told(0, k.sent(0))
	r.pass(1000 * time.Hour)
	r.same("step", r.step(0), millrace.Stepped{Due: -1})
	r.same("nothing to drop", r.dropOldest(0, 9), []millrace.DroppedBatch{})
	r.sweepAll(0)
	r.same("step after the sweep", r.step(0), millrace.Stepped{Due: -1})
}

func sweepFreesBatches(t *testing.T, c Config) {
	r := open(t, c)
	keep, q := r.sub(single), r.queue(0)
	r.each(func(lane int) {
		uid, _ := r.allStates(lane)
		r.publish(lane, everywhere("both", []string{q}, []string{keep, uid}))
		before := r.laneStats(lane).Dropped
		r.remove(uid)
		r.clean()
		r.sweepAll(lane)
		r.same("dropped", r.laneStats(lane).Dropped-before, int64(10))
		n, err := r.Sweep(r.ctx(), lane, 100)
		r.ok(err)
		r.same("a sweep after the last", n, 0)
		r.clean()
		r.same("the other", r.take(lane, 9).names(), []string{"both"})
		r.same("the queue", r.lease(lane, q, 9).names(), []string{"both"})
	})
}

func sweepOfBatchesIsBounded(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 15 })
	for i := range 40 {
		r.push(0, uid, fmt.Sprint(i))
	}
	r.took(0, 1)
	r.remove(uid)
	r.sweepsForty()
}

func delayedIsAppended(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	late := pushed("late")
	late.ID, late.Delay = "late", 10*time.Second
	r.publish(0, late)
	r.same("not yet", r.states(0, uid), []string{})
	r.pass(10 * time.Second)
	s := r.step(0)
	r.same("handed out", len(s.Events), 1)
	due := pushed("late", uid)
	due.From = s.Events[0].Name
	stamps := r.publish(0, due, due)
	r.same("sinks, gone", []any{stamps[0].Sinks, stamps[1].Gone}, []any{1, true})
	r.same("appended once", r.states(0, uid), []string{"early* 1"})
	r.same("named by its seq", r.batchAt(0, uid, 0).Name, stamps[0].Seq)
}

func injectedInBatch(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 3 })
	r.each(func(lane int) {
		seq := r.push(lane, uid, "own")[0]
		r.injectSub(lane, uid, injected("a", "x", 4242), injected("b", "y", 1<<52))
		long := start().Add(-time.Hour)
		k := r.took(lane, 1)
		r.same("name", k.Batches[0].Name, seq)
		r.same("events", k.Batches[0].Events, []millrace.BatchEvent{
			{Seq: seq, RecordedAt: r.now, Body: []byte("own")},
			{Seq: 4242, Prev: 2121, RecordedAt: long, Body: []byte("x")},
			{Seq: 1 << 52, Prev: 1 << 51, RecordedAt: long, Body: []byte("y")},
		})
		r.told(lane, k.sent(0))
		r.clean()
	})
}

func injectedOpensBatch(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.each(func(lane int) {
		seq := r.publish(lane, event("a", "before"))[0].Seq
		r.injectSub(lane, uid, injected("a", "x", 7), injected("a", "y", 7), injected("a", "z", 7))
		n := uint64(c.Lanes)
		all := r.batches(lane, uid)
		r.same("names", []uint64{all[0].Name, all[1].Name}, []uint64{seq + n, seq + 3*n})
		r.same("the same event twice", r.states(lane, uid), []string{"ready 2", "early* 1"})
		b := all[1]
		r.same("opened", []any{b.CreatedAt, b.DueAt, b.Bytes}, []any{r.now, r.now.Add(time.Second), 1})
		r.same("next", r.publish(lane, event("a", "after"))[0].Seq, seq+4*n)
	})
}

func injectedInOneSub(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single), r.sub(single)
	before := r.laneStats(0)
	r.injectSub(0, uid, injected("a", "x", 7))
	r.same("lane stats", r.laneStats(0), before)
	r.same("the other", r.states(0, other), []string{})
	topics, err := r.Topics(r.ctx(), 0)
	r.ok(err)
	r.same("topics", len(topics), 0)
	r.told(0, r.took(0, 1).sent(0))
	r.same("stats", r.subStats(0, uid), millrace.SubscriptionStats{Sent: 1})
}

func disabledSkipsInjected(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, disabling(true))
	r.injectSub(0, uid, injected("a", "x", 7), injected("a", "y", 8))
	r.same("stats", r.subStats(0, uid), millrace.SubscriptionStats{Skipped: 2})
	r.same("states", r.states(0, uid), []string{})
}

func injectedBatchReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.injectSub(0, uid, injected("a", "x", 1<<40), injected("a", "y", 3))
	_, before, err := r.Batch(r.ctx(), 0, uid, r.batchAt(0, uid, 0).Name)
	r.ok(err)
	r.reopen()
	k := r.took(0, 1)
	r.same("events", k.Batches[0].Events, before)
	r.told(0, k.sent(0))
	r.clean()
}
