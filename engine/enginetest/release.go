package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func releasePromises() []promise {
	return []promise{
		{"AReleaseReturnsWhatAConsumerHolds", releaseReturns},
		{"AReleaseLeavesOtherConsumersAlone", releaseLeavesOthers},
		{"AReleaseIsBoundedOldestGroupFirst", releaseIsBounded},
		{"AReleaseOfSpentMessagesBuriesThem", releaseBuries},
		{"AReleaseIsAsIfTheDeadlineHadComeAlsoWhenItBlocks", releaseBlocks},
		{"AnExtendedLeaseIsStillItsConsumers", releaseExtended},
		{"ConsumersAreKnownAfterAReopen", releaseReopened},
	}
}

func (r *rig) leaseAs(lane int, queue, consumer string, n int) held {
	r.Helper()
	h := held{token: r.token()}
	var err error
	h.Leased, err = r.Lease(r.ctx(), lane, millrace.Lease{
		Now: r.now, Queue: queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: minute, Token: h.token, Consumer: consumer,
	})
	r.ok(err)
	if len(h.Messages) != n {
		r.Fatalf("leased %d messages, want %d", len(h.Messages), n)
	}
	return h
}

func (r *rig) release(lane int, queue, consumer string, limit int) int {
	r.Helper()
	n, err := r.Release(r.ctx(), lane, millrace.Release{Now: r.now, Queue: queue, Consumer: consumer, Max: limit})
	r.ok(err)
	return n
}

func releaseReturns(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "b1", "a2", "b2")
		r.fill(lane, other, "x1")
		elsewhere := r.leaseAs(lane, other, "me", 1)
		h := r.leaseAs(lane, q, "me", 3)
		r.settled(lane, q, millrace.Ack, h.item(1))
		r.same("released", r.release(lane, q, "me", 100), 2)
		r.counts(lane, q, 3, 0, 0, 0)
		r.lost(lane, q, h.items()...)
		again := r.lease(lane, q, 9)
		r.same("order", again.names(), []string{"b2", "a1", "a2"})
		r.same("attempts", []int{again.Messages[0].Attempt, again.Messages[1].Attempt}, []int{1, 2})
		r.same("nothing is left", r.release(lane, q, "me", 100), 0)
		r.settled(lane, other, millrace.Ack, elsewhere.items()...)
		r.settled(lane, q, millrace.Ack, again.items()...)
		r.same("due", r.step(lane).Due < 0, true)
	})
}

func releaseLeavesOthers(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3")
	r.leaseAs(0, q, "me", 1)
	you, nobody := r.leaseAs(0, q, "you", 1), r.leaseAs(0, q, "", 1)
	r.same("released", r.release(0, q, "me", 100), 1)
	r.same("of a stranger", r.release(0, q, "m", 100), 0)
	r.settled(0, q, millrace.Ack, you.items()...)
	r.settled(0, q, millrace.Ack, nobody.items()...)
	r.same("left", r.lease(0, q, 9).names(), []string{"a1"})
}

func releaseIsBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1", "d1", "e1")
	r.leaseAs(0, q, "me", 2)
	second := r.leaseAs(0, q, "me", 3)
	r.same("released", r.release(0, q, "me", 3), 3)
	r.same("the oldest group, then the next one's first", r.lease(0, q, 9).names(), []string{"a1", "b1", "c1"})
	r.settled(0, q, millrace.Ack, second.item(1))
	r.same("the rest", r.release(0, q, "me", 3), 1)
}

func releaseBuries(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(1)
	r.fill(0, q, "a1")
	r.leaseAs(0, q, "me", 1)
	r.same("released", r.release(0, q, "me", 3), 1)
	r.counts(0, q, 0, 0, 0, 1)
	r.same("why", r.dead(0, q, "")[0].Reason, millrace.ReasonAttempts)
}

func releaseBlocks(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxAttempts: 1, Block: true, BlockDelay: time.Second})
	r.fill(0, q, "a1")
	r.leaseAs(0, q, "me", 1)
	r.same("released", r.release(0, q, "me", 3), 1)
	r.counts(0, q, 0, 0, 1, 0)
	r.pass(time.Second)
	r.same("returned", r.step(0).Returned, 1)
}

func releaseExtended(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	h := r.leaseAs(0, q, "me", 2)
	_, err := r.Extend(r.ctx(), 0, millrace.Extend{Now: r.now, Queue: q, For: time.Hour, Items: h.items()[:1]})
	r.ok(err)
	r.pass(minute)
	r.same("released, ended or not", r.release(0, q, "me", 10), 2)
	r.same("due", r.step(0).Due < 0, true)
	r.counts(0, q, 2, 0, 0, 0)
}

func releaseReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	r.leaseAs(0, q, "me", 2)
	r.reopen()
	r.same("released", r.release(0, q, "me", 10), 2)
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "a2"})
}
