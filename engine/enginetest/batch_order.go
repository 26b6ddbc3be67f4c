package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// sequencePromises are of ordered subscriptions.
func sequencePromises() []promise {
	return []promise{
		{"AnOrderedSubscriptionHasOneBatchPending", orderedOnePending},
		{"NothingOvertakesABatchThatFailed", nothingOvertakes},
		{"NothingOvertakesABatchThatIsLate", nothingOvertakesLate},
		{"ADeadBatchLetsTheNextOneGo", deadLetsGo},
		{"ADroppedBatchLetsTheNextOneGo", droppedLetsGo},
		{"ARetriedBatchIsTheNextToGo", retriedIsNext},
		{"ADeadBatchThatIsRetriedMayComeLater", deadMayComeLater},
		{"ABlockedSubscriptionHindersNoOther", blockedHindersNobody},
		{"EachLaneKeepsItsOwnOrder", lanesKeepOrder},
		{"ASubscriptionIsOrderedForEver", orderedForEver},
		{"AnOrderedSubscriptionIsParkedAndProbedInOrder", orderedParks},
	}
}

func orderedOnePending(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	r.push(0, uid, "1", "2", "3")
	for _, want := range []string{"1", "2", "3"} {
		k := r.take(0, 9)
		r.same("one", k.names(), []string{want})
		r.same("no other beside it", r.take(0, 9).names(), []string{})
		r.told(0, k.sent(0))
	}
}

func nothingOvertakes(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second} {
			k := r.take(lane, 9)
			r.same("the first", k.names(), []string{"1"})
			r.told(lane, k.failed(0))
			r.push(lane, uid, "x")
			r.same("none meanwhile", r.take(lane, 9).names(), []string{})
			r.pass(wait - time.Millisecond)
			r.step(lane)
			r.same("none before its time", r.take(lane, 9).names(), []string{})
			r.pass(time.Millisecond)
			r.step(lane)
		}
		for _, want := range []string{"1", "2", "x", "x"} {
			k := r.take(lane, 9)
			r.same("in order", k.names(), []string{want})
			r.told(lane, k.sent(0))
		}
	})
}

func nothingOvertakesLate(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	r.push(0, uid, "1", "2")
	r.took(0, 1)
	r.pass(minute)
	r.same("none before the step", r.take(0, 9).names(), []string{})
	r.step(0)
	r.same("none before its time", r.take(0, 9).names(), []string{})
	r.pass(5 * time.Second)
	r.step(0)
	r.same("the first again", r.take(0, 9).names(), []string{"1"})
}

func deadLetsGo(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder, waits(time.Second))
	r.push(0, uid, "1", "2")
	r.told(0, r.took(0, 1).failed(0))
	r.pass(time.Second)
	r.step(0)
	r.same("dead", r.told(0, r.took(0, 1).failed(0)).Items[0].Dead, true)
	r.same("the next", r.take(0, 9).names(), []string{"2"})
}

func droppedLetsGo(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	name := r.push(0, uid, "1", "2")[0]
	r.told(0, r.took(0, 1).failed(0))
	r.same("blocked", r.take(0, 9).names(), []string{})
	r.ok(r.DropBatch(r.ctx(), 0, uid, name))
	r.same("the next", r.take(0, 9).names(), []string{"2"})
}

func retriedIsNext(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	name := r.push(0, uid, "1", "2")[0]
	r.told(0, r.took(0, 1).failed(0))
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{name}}, 1, 0)
	k := r.take(0, 9)
	r.same("the first", k.names(), []string{"1"})
	r.same("attempt", k.Batches[0].Attempt, 2)
	r.told(0, k.sent(0))
	r.same("the next", r.take(0, 9).names(), []string{"2"})
	r.pass(time.Hour)
	r.same("it is due no more", r.step(0).Promoted, 0)
}

func deadMayComeLater(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder, waits())
	name := r.push(0, uid, "1", "2", "3")[0]
	r.told(0, r.took(0, 1).failed(0))
	r.told(0, r.took(0, 1).sent(0))
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{name}}, 1, 0)
	k := r.take(0, 9)
	r.same("retried", k.names(), []string{"1"})
	r.told(0, k.sent(0))
	r.same("the last", r.take(0, 9).names(), []string{"3"})
}

func blockedHindersNobody(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single, inOrder), r.sub(single, inOrder)
	r.push(0, uid, "1", "2")
	r.told(0, r.took(0, 1).failed(0))
	r.push(0, other, "x")
	r.same("the other", r.take(0, 9).names(), []string{"x"})
}

func lanesKeepOrder(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		r.same("one in each lane", r.take(lane, 9).names(), []string{"1"})
	})
}

func orderedForEver(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single, inOrder), r.sub(single)
	for _, name := range []string{"1", "2"} {
		r.publish(0, pushed(name, uid, other))
	}
	r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.Ordered = false })
	r.changeSub(other, inOrder)
	k := r.take(0, 9)
	r.same("batches", len(k.Batches), 3)
	r.same("pending", []int64{r.subStats(0, uid).Pending, r.subStats(0, other).Pending}, []int64{1, 2})
}

func orderedParks(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder, waits(time.Second, 2*time.Second, 4*time.Second, 8*time.Second))
	r.push(0, uid, "1", "2")
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		r.told(0, r.took(0, 1).failed(0))
		r.same("none", r.take(0, 9).names(), []string{})
		r.pass(wait)
		r.step(0)
	}
	k := r.take(0, 9)
	r.same("the probe", k.names(), []string{"1"})
	r.told(0, k.sent(0))
	r.same("the next", r.take(0, 9).names(), []string{"2"})
}
