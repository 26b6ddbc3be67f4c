package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func orderPromises() []promise {
	return []promise{
		{"OfOneKeyOneMessageIsInFlight", oneOfAKey},
		{"OtherKeysAndTenantsFlowOn", othersFlow},
		{"TheLowestHeadOfATenantIsFirst", lowestHead},
		{"MessagesWithoutAKeyAreIndependent", keylessFlow},
		{"ARetryKeepsTheHeadOfItsKey", retryKeepsHead},
		{"ADelayBlocksTheKey", delayBlocks},
		{"AnEndedLeaseKeepsTheHeadOfItsKey", expiryKeepsHead},
		{"AReleasedMessageIsTheHeadOfItsKey", releaseKeepsHead},
		{"AKeyGoesOnWhenItsHeadIsDead", deadAdvances},
		{"ASpentMessageOfABlockingQueueBlocksItsKey", blockBlocks},
		{"ARedrivenMessageIsTheHeadOfItsKey", redriveHead},
		{"ARedriveIntoABlockedKeyIsNext", redriveBlocked},
		{"APurgeUnblocksAKey", purgeUnblocks},
		{"KeysOfTwoTenantsAreTwoKeys", keysOfTenants},
		{"AnOrderedTurnGoesOnToOtherKeys", orderedTurns},
		{"ALimitHoldsInAnOrderedQueue", orderedLimit},
		{"ATenantWhoseKeysAreAllBlockedCostsNothing", blockedCostsNothing},
		{"AKeyThatGoesOnSendsAHint", advanceHints},
		{"OrderIsThereAfterAReopen", orderReopened},
		{"AnOrderedQueueIsDrainedInOrder", orderedDrain},
	}
}

// line publishes messages named by tenant, key ("_" for none) and number.
func (r *rig) line(lane int, q string, names ...string) {
	r.Helper()
	for _, name := range names {
		e := event(name[:1], name, q)
		if name[1] != '_' {
			e.Key = name[1:2]
		}
		r.publish(lane, e)
	}
}

// ordered opens a store with an ordered queue.
func ordered(t *testing.T, c Config, s millrace.QueueSettings) (*rig, string) {
	r := open(t, c)
	s.Ordered = true
	return r, r.queueOf(s)
}

func oneOfAKey(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.each(func(lane int) {
		r.line(lane, q, "ak1", "ak2", "ak3")
		for _, want := range []string{"ak1", "ak2", "ak3"} {
			h := r.lease(lane, q, 9)
			r.same("leased", h.names(), []string{want})
			r.same("tenants in the ring", h.Tenants, 0)
			r.same("while it is in flight", len(r.lease(lane, q, 9).Messages), 0)
			r.settled(lane, q, millrace.Ack, h.items()...)
		}
		r.counts(lane, q, 0, 0, 0, 0)
	})
}

func othersFlow(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "al1", "al2", "bk1", "bk2")
	r.same("heads", r.lease(0, q, 9).names(), []string{"ak1", "bk1", "al1"})
	r.line(0, q, "am1", "ck1", "ak3")
	r.same("others", r.lease(0, q, 9).names(), []string{"am1", "ck1"})
	r.counts(0, q, 4, 5, 0, 0)
	r.same("tenants that wait", r.stats(0, q).Tenants, int64(2))
}

func lowestHead(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "al1", "ak2", "al2", "am1")
	h := r.leased(0, q, 1)
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("by name", r.lease(0, q, 9).names(), []string{"al1", "ak2", "am1"})
}

func keylessFlow(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "a_1", "ak1", "a_2", "ak2", "a_3")
	h := r.lease(0, q, 9)
	r.same("all but the key's second", h.names(), []string{"a_1", "ak1", "a_2", "a_3"})
	r.settled(0, q, millrace.Retry, h.item(0), h.item(3))
	r.same("returned", r.lease(0, q, 9).names(), []string{"a_1", "a_3"})
}

func retryKeepsHead(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "al1")
	h := r.leased(0, q, 2)
	r.settled(0, q, millrace.Retry, h.item(0))
	again := r.lease(0, q, 9)
	r.same("the head again", again.names(), []string{"ak1"})
	r.same("attempt", again.Messages[0].Attempt, 2)
	r.settled(0, q, millrace.Ack, again.items()...)
	r.same("the next", r.lease(0, q, 9).names(), []string{"ak2"})
}

func delayBlocks(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "al1")
	item := r.leased(0, q, 1).item(0)
	item.Delay = 5 * time.Second
	r.settled(0, q, millrace.Retry, item)
	r.same("other keys", r.lease(0, q, 9).names(), []string{"al1"})
	r.pass(5 * time.Second)
	r.same("before the step", len(r.lease(0, q, 9).Messages), 0)
	r.same("returned", r.step(0).Returned, 1)
	r.same("the head", r.lease(0, q, 9).names(), []string{"ak1"})
}

func expiryKeepsHead(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2")
	h := r.leased(0, q, 1)
	r.pass(minute)
	r.same("before the step", len(r.lease(0, q, 9).Messages), 0)
	r.step(0)
	r.lost(0, q, h.items()...)
	r.same("the head", r.lease(0, q, 9).names(), []string{"ak1"})
}

func releaseKeepsHead(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "bk1")
	r.leaseAs(0, q, "me", 2)
	r.same("released", r.release(0, q, "me", 9), 2)
	r.same("the heads", r.lease(0, q, 9).names(), []string{"ak1", "bk1"})
}

func deadAdvances(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{MaxAttempts: 1})
	r.line(0, q, "ak1", "ak2", "ak3", "ak4")
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	h := r.lease(0, q, 9)
	r.same("after a bury", h.names(), []string{"ak2"})
	r.settled(0, q, millrace.Retry, h.items()...)
	r.same("after its attempts were spent", r.lease(0, q, 9).names(), []string{"ak3"})
	r.pass(minute)
	r.same("dead", r.step(0).Dead, 1)
	r.same("after its lease ended", r.lease(0, q, 9).names(), []string{"ak4"})
	r.counts(0, q, 0, 1, 0, 3)
}

func blockBlocks(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{MaxAttempts: 1, Block: true, BlockDelay: time.Second})
	r.line(0, q, "ak1", "ak2", "al1")
	h := r.leased(0, q, 2)
	r.pass(minute)
	r.same("dead", r.step(0).Dead, 0)
	r.lost(0, q, h.items()...)
	r.same("blocked", len(r.lease(0, q, 9).Messages), 0)
	r.pass(time.Second)
	r.step(0)
	r.same("again", r.lease(0, q, 9).names(), []string{"ak1", "al1"})
}

func redriveHead(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.each(func(lane int) {
		r.line(lane, q, "ak1", "ak2", "ak3", "ak4", "bk1")
		for range 2 {
			r.settled(lane, q, millrace.Bury, r.leased(lane, q, 1).items()...)
			r.settled(lane, q, millrace.Retry, r.leased(lane, q, 1).items()...)
		}
		r.same("dead", shown(r.dead(lane, q, "a")), []string{"ak1", "ak2"})
		r.redrive(lane, millrace.DeadOf{Queue: q, All: true, Max: 9})
		r.purge(lane, q, "b", 9)
		for _, want := range []string{"ak1", "ak2", "ak3", "ak4"} {
			h := r.lease(lane, q, 9)
			r.same("order", h.names(), []string{want})
			r.settled(lane, q, millrace.Ack, h.items()...)
		}
	})
}

func redriveBlocked(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "ak3")
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	h := r.leased(0, q, 1) // ak2
	r.redrive(0, millrace.DeadOf{Queue: q, All: true, Max: 9})
	r.same("blocked", len(r.lease(0, q, 9).Messages), 0)
	r.settled(0, q, millrace.Retry, h.items()...)
	h = r.lease(0, q, 9)
	r.same("what blocked it is the head again", h.names(), []string{"ak2"})
	r.settled(0, q, millrace.Ack, h.items()...)
	h = r.lease(0, q, 9)
	r.same("the redriven one is next", h.names(), []string{"ak1"})
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("then the line", r.lease(0, q, 9).names(), []string{"ak3"})
}

func purgeUnblocks(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "al1", "al2", "al3")
	h := r.leased(0, q, 2)
	later := h.item(0)
	later.Delay = time.Hour
	r.settled(0, q, millrace.Retry, later)
	r.same("purged", r.purge(0, q, "a", 9), []int{4, 0})
	r.line(0, q, "ak3", "al4")
	r.same("a leased one still blocks", r.lease(0, q, 9).names(), []string{"ak3"})
	r.settled(0, q, millrace.Retry, h.item(1))
	h = r.lease(0, q, 9)
	r.same("its head", h.names(), []string{"al1"})
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("its next", r.lease(0, q, 9).names(), []string{"al4"})
}

func keysOfTenants(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	other := r.queueOf(millrace.QueueSettings{Ordered: true})
	r.publish(0, keyed(event("a", "1", q, other), "k"), keyed(event("b", "2", q, other), "k"), keyed(event("a", "3", q, other), "k"))
	r.same("two keys", r.lease(0, q, 9).names(), []string{"1", "2"})
	h := r.lease(0, other, 9)
	r.same("another queue's", h.names(), []string{"1", "2"})
	r.settled(0, other, millrace.Ack, h.items()...)
	r.same("another queue goes on", r.lease(0, other, 9).names(), []string{"3"})
	r.same("this one does not", len(r.lease(0, q, 9).Messages), 0)
}

func orderedTurns(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.tenant(0, q, "a", 3, asTheQueue)
	r.line(0, q, "ak1", "ak2", "al1", "am1", "an1", "bk1", "bl1", "bk2")
	var got [][]string
	for _, n := range []int{2, 2, 9} {
		got = append(got, r.lease(0, q, n).names())
	}
	r.same("turns", got, [][]string{{"ak1", "al1"}, {"am1", "bk1"}, {"an1", "bl1"}})
}

func orderedLimit(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{TenantLimit: 2})
	r.line(0, q, "ak1", "al1", "am1", "ak2", "bk1")
	h := r.lease(0, q, 9)
	r.same("two of a", h.names(), []string{"ak1", "bk1", "al1"})
	later := h.item(0)
	later.Delay = time.Second
	r.settled(0, q, millrace.Retry, later)
	r.same("a delayed one frees the limit, not the key", r.lease(0, q, 9).names(), []string{"am1"})
	r.pass(time.Second)
	r.step(0)
	r.same("at the limit", len(r.lease(0, q, 9).Messages), 0)
	r.settled(0, q, millrace.Ack, h.item(2))
	r.same("below it", r.lease(0, q, 9).names(), []string{"ak1"})
}

func blockedCostsNothing(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	for i := range 30 {
		tenant := fmt.Sprintf("t%02d", i)
		r.publish(0, keyed(event(tenant, "1", q), "k"), keyed(event(tenant, "2", q), "k"))
	}
	h := r.leased(0, q, 30)
	r.same("tenants in the ring", h.Tenants, 0)
	r.settled(0, q, millrace.Ack, h.item(7))
	again := r.lease(0, q, 9)
	r.same("only one goes on", []any{len(again.Messages), again.Messages[0].Tenant}, []any{1, "t07"})
}

func advanceHints(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	w := r.watch()
	r.settleWatch(w, 0)
	r.line(0, q, "ak1", "ak2")
	h := r.leased(0, q, 1)
	r.same("hints before", w.count(millrace.HintQueue, 0, q), 0)
	r.settled(0, q, millrace.Ack, h.items()...)
	r.waitFor("a hint", func() bool { return w.count(millrace.HintQueue, 0, q) > 0 })
}

func orderReopened(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1", "ak2", "al1", "al2", "am1", "am2", "a_1")
	h := r.leased(0, q, 4) // ak1 al1 am1 a_1
	later := h.item(1)
	later.Delay = time.Second
	r.settled(0, q, millrace.Retry, later)
	r.settled(0, q, millrace.Retry, h.item(2))
	r.reopen()
	r.same("one head", r.lease(0, q, 9).names(), []string{"am1"})
	r.settled(0, q, millrace.Ack, h.item(0))
	r.same("goes on", r.lease(0, q, 9).names(), []string{"ak2"})
	r.pass(time.Second)
	r.step(0)
	r.same("the delayed head", r.lease(0, q, 9).names(), []string{"al1"})
}

// orderedDrain drains many keys with batches whose ends differ, under the eyes
// of the judge of order.
func orderedDrain(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{TenantLimit: 7})
	r.tenant(0, q, "a", 4, asTheQueue)
	judge := NewLines()
	for i := range 240 {
		e := event(string(rune('a'+i%3)), fmt.Sprint(i), q)
		e.Key = []string{"", "k", "l", "m", "n", "o", "p"}[i*i%7]
		seq := r.publish(0, e)[0].Seq
		judge.Waits(e.Tenant, e.Key, seq)
	}
	for round := 0; judge.Waiting() > 0 && round < 2000; round++ {
		h := r.lease(0, q, 1+round%9)
		for i, m := range h.Messages {
			if err := judge.Leased(m.Name); err != nil {
				t.Fatal(err)
			}
			if verb := []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Ack}[(round+i)%3]; (round+i)%4 > 0 {
				r.settled(0, q, verb, h.item(i))
				judge.Ended(m.Name, verb == millrace.Ack)
			}
		}
		if len(h.Messages) == 0 {
			r.pass(minute)
			r.step(0)
			judge.AllEnded()
		}
	}
	r.same("waiting", judge.Waiting(), 0)
	r.counts(0, q, 0, 0, 0, 0)
}
