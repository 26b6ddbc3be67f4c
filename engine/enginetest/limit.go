package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func limitPromises() []promise {
	return []promise{
		{"ATenantHasNoMoreLeasedThanTheQueuesLimit", queueLimit},
		{"ATenantsOwnLimitReplacesTheQueues", ownLimit},
		{"ATenantAtItsLimitReturnsWhenALeaseIsSettled", limitFreedBySettle},
		{"ATenantAtItsLimitReturnsWhenALeaseEnds", limitFreedByStep},
		{"ATenantAtItsLimitReturnsWhenALeaseIsReleased", limitFreedByRelease},
		{"ATenantAtItsLimitReturnsWhenTheLimitRises", limitRaised},
		{"AllTenantsAtTheQueuesLimitReturnWhenItRises", queueLimitRaised},
		{"ALimitThatIsLoweredTakesNothingBack", limitLowered},
		{"AFreedLimitSendsAHint", limitHints},
		{"ALimitEndsATurn", limitEndsTurn},
		{"ARetryWithADelayFreesTheLimit", delayFreesLimit},
		{"ASpentMessageOfABlockingQueueIsTriedAgain", blockRetries},
		{"ASpentLeaseOfABlockingQueueWaitsItsDelay", blockDelays},
	}
}

func queueLimit(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 2})
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "a2", "a3", "a4", "b1", "b2", "b3")
		h := r.lease(lane, q, 9)
		r.same("order", h.names(), []string{"a1", "b1", "a2", "b2"})
		r.same("tenants in the ring", h.Tenants, 0)
		r.fill(lane, q, "a5", "c1")
		r.same("others flow on", r.lease(lane, q, 9).names(), []string{"c1"})
		r.counts(lane, q, 4, 5, 0, 0)
		r.same("tenants that wait", r.stats(lane, q).Tenants, int64(2))
	})
}

func ownLimit(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.tenant(0, q, "a", 1, 3)
	r.tenant(0, q, "b", 1, 0)
	r.tenant(0, q, "c", 1, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "c1", "c2", "d1", "d2")
	want := []string{"a1", "b1", "c1", "d1", "a2", "b2", "a3", "b3", "b4"}
	r.same("order", r.lease(0, q, 20).names(), want)
}

func limitFreedBySettle(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 2})
	r.fill(0, q, "a1", "a2", "a3", "a4", "a5", "b1")
	h := r.leased(0, q, 3)
	r.same("at the limit", len(r.lease(0, q, 9).Messages), 0)
	r.settled(0, q, millrace.Ack, h.item(0))
	r.same("after an ack", r.lease(0, q, 9).names(), []string{"a3"})
	r.settled(0, q, millrace.Bury, h.item(2))
	r.same("after a bury", r.lease(0, q, 9).names(), []string{"a4"})
	last := millrace.SettleItem{Name: 0, Token: r.lastToken()}
	r.same("nothing more", len(r.lease(0, q, 9).Messages), 0)
	r.lost(0, q, last)
}

func limitFreedByStep(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.fill(0, q, "a1", "a2")
	r.leased(0, q, 1)
	r.pass(minute)
	r.same("an ended lease counts until the step", len(r.lease(0, q, 9).Messages), 0)
	r.same("expired", r.step(0).Expired, 1)
	r.same("after the step", r.lease(0, q, 9).names(), []string{"a1"})
}

func limitFreedByRelease(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.fill(0, q, "a1", "a2")
	r.leaseAs(0, q, "me", 1)
	r.same("released", r.release(0, q, "me", 10), 1)
	r.same("after the release", r.lease(0, q, 9).names(), []string{"a1"})
}

func limitRaised(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 1, 1)
	r.fill(0, q, "a1", "a2", "a3", "a4")
	r.same("one", r.lease(0, q, 9).names(), []string{"a1"})
	r.tenant(0, q, "a", 1, 3)
	r.same("two more", r.lease(0, q, 9).names(), []string{"a2", "a3"})
	r.tenant(0, q, "a", 1, 0)
	r.same("no limit", r.lease(0, q, 9).names(), []string{"a4"})
}

func queueLimitRaised(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.tenant(0, q, "d", 1, 1)
	r.fill(0, q, "c1", "c2", "a1", "a2", "b1", "b2", "b3", "d1", "d2")
	r.leased(0, q, 4)
	r.change(q, func(s *millrace.QueueSettings) { s.TenantLimit = 2 })
	r.same("by name", r.lease(0, q, 9).names(), []string{"a2", "b2", "c2"})
	r.change(q, func(s *millrace.QueueSettings) { s.TenantLimit = 0 })
	r.same("no limit", r.lease(0, q, 9).names(), []string{"b3"})
}

func limitLowered(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 5})
	r.fill(0, q, "a1", "a2", "a3", "a4")
	h := r.leased(0, q, 3)
	r.change(q, func(s *millrace.QueueSettings) { s.TenantLimit = 1 })
	r.counts(0, q, 1, 3, 0, 0)
	r.settled(0, q, millrace.Ack, h.item(0), h.item(1))
	r.same("still at the limit", len(r.lease(0, q, 9).Messages), 0)
	r.settled(0, q, millrace.Ack, h.item(2))
	r.same("below it", r.lease(0, q, 9).names(), []string{"a4"})
}

func limitHints(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
		r.fill(lane, q, "a1", "a2")
		got := r.leased(lane, q, 1)
		r.same("hints before", h.count(millrace.HintQueue, lane, q), 0)
		r.settled(lane, q, millrace.Ack, got.items()...)
		r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, lane, q) > 0 })
	})
}

func limitEndsTurn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 2})
	r.tenant(0, q, "a", 5, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "a5", "b1", "b2")
	h := r.leased(0, q, 3)
	r.same("order", h.names(), []string{"a1", "a2", "b1"})
	r.settled(0, q, millrace.Ack, h.item(0), h.item(1))
	r.same("a new turn at the tail", r.lease(0, q, 9).names(), []string{"b2", "a3", "a4"})
}

func delayFreesLimit(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.fill(0, q, "a1", "a2")
	item := r.leased(0, q, 1).item(0)
	item.Delay = time.Second
	r.settled(0, q, millrace.Retry, item)
	r.same("the next", r.lease(0, q, 9).names(), []string{"a2"})
	r.pass(time.Second)
	r.same("returned", r.step(0).Returned, 1)
	r.same("at the limit", len(r.lease(0, q, 9).Messages), 0)
}

func blockRetries(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxAttempts: 2, Block: true, BlockDelay: 7 * time.Second})
	r.fill(0, q, "a1")
	for attempt := 1; attempt <= 5; attempt++ {
		h := r.leased(0, q, 1)
		r.same("attempt", h.Messages[0].Attempt, attempt)
		item := h.item(0)
		item.Delay = time.Duration(attempt%2) * time.Second
		r.same("dead", r.settle(0, q, millrace.Retry, item).Dead, 0)
		r.pass(item.Delay)
		r.step(0)
	}
	r.same("spent", r.stats(0, q).Spent, int64(0))
	r.settled(0, q, millrace.Bury, r.leased(0, q, 1).items()...)
	r.counts(0, q, 0, 0, 0, 1)
}

func blockDelays(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxAttempts: 1, Block: true, BlockDelay: 7 * time.Second})
	r.fill(0, q, "a1")
	r.leased(0, q, 1)
	r.pass(minute)
	done := r.step(0)
	r.same("step", done, millrace.Stepped{Expired: 1, Due: 7 * time.Second})
	r.counts(0, q, 0, 0, 1, 0)
	r.pass(7 * time.Second)
	r.same("returned", r.step(0).Returned, 1)
	r.same("attempt", r.leased(0, q, 1).Messages[0].Attempt, 2)
	r.change(q, func(s *millrace.QueueSettings) { s.Block = false })
	r.pass(minute)
	r.same("dead without block", r.step(0).Dead, 1)
}
