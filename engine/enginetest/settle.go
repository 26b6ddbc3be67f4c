package enginetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func settlePromises() []promise {
	return []promise{
		{"AnAckedMessageIsGone", ackedIsGone},
		{"ARetryWithoutDelayWaitsAtOnce", retryWaitsAtOnce},
		{"ARetryWithDelayIsDelayed", retryIsDelayed},
		{"ARetryWhoseAttemptsAreSpentIsDead", spentRetryIsDead},
		{"AttemptsWithoutALimitAreNeverSpent", unlimitedAttempts},
		{"ABuriedMessageIsDead", buriedIsDead},
		{"AReceiptIsSpentByItsFirstSettlement", receiptIsSpent},
		{"AReceiptOfAnotherLeaseIsLost", otherReceiptIsLost},
		{"AReceiptOfAnotherLaneIsLost", otherLaneIsLost},
		{"AReceiptIsSupersededByTheNextLease", supersededIsLost},
		{"AReceiptThatNeverWasIsLost", neverWasIsLost},
		{"AnItemTwiceInOneCallIsLostTheSecondTime", twiceInOneCall},
		{"ALostItemDoesNotHinderTheOthers", lostDoesNotHinder},
		{"ALeaseEndsAtItsDeadline", leaseEndsAtDeadline},
		{"OfManyWhoSettleOneReceiptOneSucceeds", oneSettles},
		{"AnExtensionMovesTheDeadline", extensionMoves},
		{"AnExtensionCanShortenALease", extensionShortens},
		{"AnExtensionOfSomeLeavesTheOthers", extensionOfSome},
		{"AMessageExtendedThereAndBackEndsOnce", extensionThereAndBack},
		{"AnExtendedLeaseIsThereAfterAReopen", extensionAfterReopen},
		{"AnEndedLeaseCannotBeExtended", endedCannotBeExtended},
		{"AFailuresTextOfAnyKindIsTaken", failureText},
		{"SettlementsAreThereAfterAReopen", settlementsAfterReopen},
	}
}

func ackedIsGone(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "b1", "c1")
		h := r.leased(lane, q, 3)
		r.settled(lane, q, millrace.Ack, h.item(2), h.item(0))
		r.counts(lane, q, 0, 1, 0, 0)
		r.same("acked", r.stats(lane, q).Acked, int64(2))
		r.pass(time.Hour)
		r.step(lane)
		r.same("what comes back", r.lease(lane, q, 9).names(), []string{"b1"})
	})
}

func retryWaitsAtOnce(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "b1")
	h := r.leased(0, q, 2)
	r.settled(0, q, millrace.Retry, h.item(1), h.item(0))
	r.counts(0, q, 3, 0, 0, 0)
	next := r.leased(0, q, 3)
	r.same("order", next.names(), []string{"a1", "b1", "a2"})
	r.same("attempts", []int{next.Messages[0].Attempt, next.Messages[1].Attempt, next.Messages[2].Attempt}, []int{2, 2, 1})
}

func retryIsDelayed(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	h := r.leased(0, q, 2)
	one, two := h.item(0), h.item(1)
	one.Delay, two.Delay = millrace.MaxDelay, time.Millisecond
	r.settled(0, q, millrace.Retry, one, two)
	r.counts(0, q, 0, 0, 2, 0)
	r.same("lease", len(r.lease(0, q, 5).Messages), 0)
	r.lost(0, q, h.items()...)
	r.pass(time.Millisecond)
	r.same("returned", r.step(0).Returned, 1)
	r.pass(millrace.MaxDelay)
	r.same("returned at last", r.step(0).Returned, 1)
}

func spentRetryIsDead(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(3)
	r.each(func(lane int) {
		r.fill(lane, q, "a1")
		for attempt := 1; attempt <= 3; attempt++ {
			h := r.leased(lane, q, 1)
			r.same("attempt", h.Messages[0].Attempt, attempt)
			item := h.item(0)
			item.Delay = time.Duration(attempt-1) * time.Second
			r.same("dead", r.settle(lane, q, millrace.Retry, item).Dead, attempt/3)
			r.pass(time.Minute)
			r.step(lane)
		}
		r.counts(lane, q, 0, 0, 0, 1)
		r.same("spent", r.stats(lane, q).Spent, int64(1))
	})
}

func unlimitedAttempts(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	for attempt := 1; attempt <= 40; attempt++ {
		h := r.leased(0, q, 1)
		r.same("attempt", h.Messages[0].Attempt, attempt)
		r.settled(0, q, millrace.Retry, h.items()...)
	}
}

func buriedIsDead(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	h := r.leased(0, q, 1)
	r.same("dead by spent attempts", r.settle(0, q, millrace.Bury, h.items()...).Dead, 0)
	r.counts(0, q, 1, 0, 0, 1)
	r.pass(time.Hour)
	r.step(0)
	r.same("what is left", r.lease(0, q, 5).names(), []string{"a2"})
	r.lost(0, q, h.items()...)
}

func receiptIsSpent(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1")
	h := r.leased(0, q, 3)
	for i, verb := range []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury} {
		r.settled(0, q, verb, h.item(i))
		r.lost(0, q, h.item(i))
	}
}

func otherReceiptIsLost(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	one, two := r.leased(0, q, 1), r.leased(0, q, 1)
	crossed := []millrace.SettleItem{
		{Name: one.Messages[0].Name, Token: two.token}, {Name: two.Messages[0].Name, Token: one.token}, {Name: one.Messages[0].Name},
	}
	r.lost(0, q, crossed...)
	r.settled(0, q, millrace.Ack, one.item(0), two.item(0))
}

func otherLaneIsLost(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for lane := range c.Lanes {
		r.fill(lane, q, "a1", "a2")
	}
	h := r.leased(0, q, 1)
	for lane := 1; lane < c.Lanes; lane++ {
		r.lost(lane, q, h.items()...)
	}
	next := millrace.SettleItem{Name: h.Messages[0].Name + 1, Token: h.token} // a seq of the next lane
	r.lost(0, q, next)
	r.settled(0, q, millrace.Ack, h.items()...)
}

func supersededIsLost(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	first := r.leased(0, q, 1)
	r.pass(minute)
	r.step(0)
	r.lost(0, q, first.items()...)
	second := r.leased(0, q, 1)
	r.lost(0, q, first.items()...)
	r.settled(0, q, millrace.Ack, second.items()...)
}

func neverWasIsLost(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.publish(0, event("a", "1", q))
	r.lost(0, q, millrace.SettleItem{Name: s[0].Seq}, millrace.SettleItem{Name: 0}, millrace.SettleItem{Name: 1 << 60, Token: r.token()})
	r.counts(0, q, 1, 0, 0, 0)
}

func twiceInOneCall(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1")
	h := r.leased(0, q, 3)
	for i, verb := range []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury} {
		r.same("lost", r.settle(0, q, verb, h.item(i), h.item(i)).Lost, []int{1})
	}
	r.counts(0, q, 1, 0, 0, 1)
}

func lostDoesNotHinder(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1")
	h := r.leased(0, q, 3)
	bad := millrace.SettleItem{Name: h.Messages[0].Name, Token: r.token()}
	r.same("lost", r.settle(0, q, millrace.Ack, bad, h.item(0), bad, h.item(2)).Lost, []int{0, 2})
	r.counts(0, q, 0, 1, 0, 0)
}

func leaseEndsAtDeadline(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "b1")
		h := r.leased(lane, q, 2)
		r.pass(minute - time.Millisecond)
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.pass(time.Millisecond)
		r.lost(lane, q, h.item(1))
		r.counts(lane, q, 0, 1, 0, 0)
	})
}

func oneSettles(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 9 {
		verb := []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury}[i%3]
		wg.Go(func() {
			s, err := r.Settle(r.ctx(), 0, millrace.Settle{Now: r.now, Queue: q, Verb: verb, Items: h.items()})
			if err != nil {
				r.Errorf("settle: %v", err)
			}
			won.Add(int64(1 - len(s.Lost)))
		})
	}
	wg.Wait()
	r.same("winners", won.Load(), int64(1))
}

// extend prolongs leases and returns the outcome.
func (r *rig) extend(lane int, q string, d time.Duration, items ...millrace.SettleItem) millrace.Extended {
	r.Helper()
	done, err := r.Extend(r.ctx(), lane, millrace.Extend{Now: r.now, Queue: q, For: d, Items: items})
	r.ok(err)
	return done
}

func extensionMoves(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	for range 4 {
		r.pass(minute - time.Second)
		r.same("extended", r.extend(0, q, minute, h.items()...), millrace.Extended{Until: r.now.Add(minute), Due: minute})
		r.same("expired", r.step(0).Expired, 0)
	}
	r.pass(minute - time.Millisecond)
	r.settled(0, q, millrace.Ack, h.items()...)
}

func extensionShortens(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	r.same("extended", r.extend(0, q, time.Second, h.items()...), millrace.Extended{Until: r.now.Add(time.Second), Due: time.Second})
	r.pass(time.Second)
	r.lost(0, q, h.items()...)
	r.same("expired", r.step(0).Expired, 1)
}

func extensionOfSome(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1", "d1")
	h := r.leased(0, q, 4)
	r.pass(30 * time.Second)
	bad := millrace.SettleItem{Name: h.Messages[0].Name, Token: r.token()}
	e := r.extend(0, q, minute, h.item(1), bad, h.item(3))
	r.same("extended", e, millrace.Extended{Lost: []int{1}, Until: r.now.Add(minute), Due: 30 * time.Second})
	r.pass(30 * time.Second)
	r.same("expired", r.step(0), millrace.Stepped{Expired: 2, Due: 30 * time.Second})
	r.lost(0, q, h.item(0), h.item(2))
	r.settled(0, q, millrace.Ack, h.item(1))
	r.pass(30 * time.Second)
	r.same("expired at last", r.step(0), millrace.Stepped{Expired: 1, Due: -1})
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "c1", "d1"})
}

func extensionThereAndBack(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3")
	h := r.leased(0, q, 3)
	r.pass(time.Second)
	r.extend(0, q, 2*minute, h.item(0))
	r.pass(time.Second)
	r.extend(0, q, minute-2*time.Second, h.item(0)) // to the very moment at which the others end
	r.pass(minute - 2*time.Second)
	r.same("expired", r.step(0), millrace.Stepped{Expired: 3, Due: -1})
	r.counts(0, q, 3, 0, 0, 0)
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "a2", "a3"})
}

func extensionAfterReopen(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1")
	h := r.leased(0, q, 2)
	r.extend(0, q, time.Hour, h.item(0))
	r.reopen()
	r.pass(minute)
	r.same("expired", r.step(0).Expired, 1)
	r.lost(0, q, h.item(1))
	r.settled(0, q, millrace.Ack, h.item(0))
}

func endedCannotBeExtended(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	r.pass(minute)
	r.same("lost", r.extend(0, q, minute, h.items()...).Lost, []int{0})
	r.same("expired", r.step(0).Expired, 1)
}

func failureText(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	for _, text := range []string{"", "timeout", "a\x00b\r\n", "\xff\xfe", strings.Repeat("x", millrace.MaxErrorLen)} {
		for _, verb := range []millrace.Verb{millrace.Retry, millrace.Retry, millrace.Bury} {
			if r.stats(0, q).Ready == 0 {
				r.fill(0, q, "a1")
			}
			item := r.leased(0, q, 1).item(0)
			item.Error = text
			r.settled(0, q, verb, item)
		}
	}
	r.same("spent", r.stats(0, q).Spent, int64(10))
}

func settlementsAfterReopen(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	r.fill(0, q, "a1", "b1", "c1", "d1")
	h := r.leased(0, q, 4)
	late := h.item(3)
	late.Delay = time.Second
	r.settled(0, q, millrace.Ack, h.item(0))
	r.settled(0, q, millrace.Bury, h.item(1))
	r.settled(0, q, millrace.Retry, h.item(2), late)
	r.reopen()
	r.counts(0, q, 1, 0, 1, 1)
	r.lost(0, q, h.items()...)
	r.pass(time.Second)
	r.step(0)
	next := r.leased(0, q, 2)
	r.same("order", next.names(), []string{"c1", "d1"})
	r.same("dead", r.settle(0, q, millrace.Retry, next.items()...).Dead, 2)
}
