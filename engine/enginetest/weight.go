package enginetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// asTheQueue is a tenant's limit that leaves it to the queue.
const asTheQueue = -1

func turnPromises() []promise {
	return []promise{
		{"ATurnIsAsManyMessagesAsTheTenantsWeight", weightIsTheTurn},
		{"ATenantOfWeightZeroIsNotServed", zeroIsNotServed},
		{"ATenantWhoseWeightRisesFromZeroEntersAtTheTail", risingEnters},
		{"ATenantPausedAndResumedBeforeItsTurnKeepsItsPlace", keepsItsPlace},
		{"AWeightCountsFromTheNextTurnOn", weightChangesLater},
		{"ATurnThatALeaseCutShortGoesOnWithWhatWasLeft", cutTurnGoesOn},
		{"ACutTurnGoesOnWithNoMoreThanTheNewWeight", cutTurnObeysTheWeight},
		{"ACutTurnOfATenantPausedMeanwhileEnds", cutTurnOfPaused},
		{"ATurnThatTheBytesCutShortGoesOn", bytesCutTheTurn},
		{"SettingsThatAreTakenAwayAreTheQueuesAgain", settingsTakenAway},
		{"WeightsAreThereAfterAReopen", weightsReopened},
		{"WeightsHoldInTheirLaneAlone", weightsInOneLane},
		{"APausedQueueLeasesNothingAndKeepsItsRing", pausedQueue},
		{"ResumingAWantedQueueSendsAHint", resumeHints},
		{"PausedTenantsCostALeaseNothing", pausedCostNothing},
		{"AtMostOnceGivesAMessageAway", atMostOnce},
		{"AtMostOnceTakesTurns", atMostOnceTurns},
	}
}

func weightIsTheTurn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.tenant(lane, q, "a", 3, asTheQueue)
		r.tenant(lane, q, "b", 2, asTheQueue)
		r.fill(lane, q, "a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1", "c2")
		want := []string{"a1", "a2", "a3", "b1", "b2", "c1", "a4", "a5", "b3", "c2"}
		r.same("order", r.lease(lane, q, 20).names(), want)
	})
}

func zeroIsNotServed(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 0, asTheQueue)
	r.fill(0, q, "a1", "a2", "b1")
	h := r.lease(0, q, 9)
	r.same("order", h.names(), []string{"b1"})
	r.same("tenants in the ring", h.Tenants, 0)
	r.counts(0, q, 2, 1, 0, 0)
	r.same("tenants that wait", r.stats(0, q).Tenants, int64(1))
}

func risingEnters(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	q := r.queue(0)
	r.tenant(0, q, "a", 0, asTheQueue)
	r.fill(0, q, "a1", "a2")
	r.same("while paused", len(r.lease(0, q, 9).Messages), 0)
	r.tenant(0, q, "a", 1, asTheQueue)
	r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, 0, q) > 0 })
	r.fill(0, q, "b1")
	r.same("then", r.lease(0, q, 9).names(), []string{"a1", "b1", "a2"})
}

func keepsItsPlace(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1")
	r.tenant(0, q, "a", 0, asTheQueue)
	r.tenant(0, q, "a", 1, asTheQueue)
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "b1", "c1"})
	r.fill(0, q, "a2", "b2", "c2")
	r.tenant(0, q, "a", 0, asTheQueue)
	r.same("its turn finds it paused", r.lease(0, q, 1).names(), []string{"b2"})
	r.tenant(0, q, "a", 1, asTheQueue)
	r.same("it is at the tail", r.lease(0, q, 9).names(), []string{"c2", "a2"})
}

func weightChangesLater(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")
	r.same("one each", r.lease(0, q, 2).names(), []string{"a1", "b1"})
	r.tenant(0, q, "b", 2, asTheQueue)
	r.same("two of b", r.lease(0, q, 3).names(), []string{"a2", "b2", "b3"})
	r.tenant(0, q, "a", 5, asTheQueue)
	r.same("the rest", r.lease(0, q, 9).names(), []string{"a3", "a4", "b4"})
}

func cutTurnGoesOn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 3, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "a5", "b1", "b2")
	var got []string
	for _, n := range []int{2, 2, 1, 1, 1} {
		got = append(got, strings.Join(r.leased(0, q, n).names(), ""))
	}
	r.same("order", got, []string{"a1a2", "a3b1", "a4", "a5", "b2"})
}

func cutTurnObeysTheWeight(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 5, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2")
	r.leased(0, q, 1)
	r.tenant(0, q, "a", 2, asTheQueue)
	r.same("two more", r.lease(0, q, 3).names(), []string{"a2", "a3", "b1"})
	r.leased(0, q, 1)
	r.tenant(0, q, "a", 9, asTheQueue)
	r.same("only what was left", r.lease(0, q, 2).names(), []string{"a5", "b2"})
}

func cutTurnOfPaused(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 3, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4")
	r.leased(0, q, 1)
	r.tenant(0, q, "a", 0, asTheQueue)
	r.same("only b", r.lease(0, q, 2).names(), []string{"b1", "b2"})
	r.tenant(0, q, "a", 3, asTheQueue)
	r.same("a whole turn", r.lease(0, q, 9).names(), []string{"b3", "a2", "a3", "a4", "b4"})
}

func bytesCutTheTurn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 2, asTheQueue)
	big := strings.Repeat("x", 100)
	r.fill(0, q, "a"+big, "a2", "a3", "b1")
	lease := func(limit int) []string {
		done, err := r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 10, MaxBytes: limit, For: minute, Token: r.token()})
		r.ok(err)
		return held{Leased: done}.names()
	}
	r.same("the first alone", lease(101), []string{"a" + big})
	r.same("what was left of the turn", lease(4), []string{"a2", "b1"})
	r.same("the last", lease(4), []string{"a3"})
}

func settingsTakenAway(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 2})
	r.tenant(0, q, "a", 0, 1)
	r.fill(0, q, "a1", "a2", "a3")
	r.same("paused", len(r.lease(0, q, 9).Messages), 0)
	r.ok(r.SetTenant(r.ctx(), 0, q, "a", nil))
	r.ok(r.SetTenant(r.ctx(), 0, q, "nobody", nil))
	r.same("the queue's limit", r.lease(0, q, 9).names(), []string{"a1", "a2"})
	got, err := r.Tenant(r.ctx(), 0, q, "a")
	r.ok(err)
	r.same("settings", got.Settings, (*millrace.TenantSettings)(nil))
}

func weightsReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 4})
	r.tenant(0, q, "a", 2, 3)
	r.tenant(0, q, "b", 0, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "a4", "b1")
	r.leased(0, q, 1)
	r.reopen()
	r.same("under its limit", r.lease(0, q, 9).names(), []string{"a2", "a3"})
	r.tenant(0, q, "b", 1, asTheQueue)
	r.same("resumed", r.lease(0, q, 9).names(), []string{"b1"})
}

func weightsInOneLane(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.tenant(0, q, "a", 2, asTheQueue)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "a2", "b1")
		want := []string{"a1", "b1", "a2"}
		if lane == 0 {
			want = []string{"a1", "a2", "b1"}
		}
		r.same(fmt.Sprint("order in lane ", lane), r.lease(lane, q, 9).names(), want)
	})
}

func pausedQueue(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	r.fill(0, q, "a1", "a2", "b1")
	h := r.leased(0, q, 1)
	r.change(q, func(s *millrace.QueueSettings) { s.Paused = true })
	got := r.lease(0, q, 9)
	r.same("messages while paused", len(got.Messages), 0)
	r.same("tenants while paused", got.Tenants, 0)
	r.fill(0, q, "c1")
	r.fill(0, other, "x1")
	r.settled(0, q, millrace.Retry, h.items()...)
	r.same("another queue", r.lease(0, other, 9).names(), []string{"x1"})
	r.counts(0, q, 4, 0, 0, 0)
	r.reopen()
	r.same("messages after a reopen", len(r.lease(0, q, 9).Messages), 0)
	r.change(q, func(s *millrace.QueueSettings) { s.Paused = false })
	r.same("messages", len(r.lease(0, q, 9).Messages), 4)
}

func resumeHints(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		q := r.queueOf(millrace.QueueSettings{Paused: true})
		r.fill(lane, q, "a1")
		r.same("hints before the lease", h.count(millrace.HintQueue, lane, q), 0)
		r.same("messages while paused", len(r.lease(lane, q, 1).Messages), 0)
		r.change(q, func(s *millrace.QueueSettings) { s.Paused = false })
		r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, lane, q) > 0 })
		r.leased(lane, q, 1)
	})
}

// pausedCostNothing: tenants that may not be served are looked at once, not at every lease.
func pausedCostNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	for i := range 50 {
		tenant := fmt.Sprintf("p%02d", i)
		r.publish(0, event(tenant, tenant, q))
		r.tenant(0, q, tenant, 0, asTheQueue)
	}
	r.fill(0, q, "a1", "a2")
	h := r.lease(0, q, 1)
	r.same("first", h.names(), []string{"a1"})
	r.same("tenants in the ring", h.Tenants, 1)
}

func atMostOnce(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	r.each(func(lane int) {
		stamps := r.publish(lane, event("a", "a1", q, other), event("a", "a2", q))
		first := r.leased(lane, q, 1)
		r.settled(lane, q, millrace.Retry, first.items()...)
		acked := r.stats(lane, q).Acked
		h := r.leaseFor(lane, q, 9, 0)
		r.same("messages", h.names(), []string{"a1", "a2"})
		r.same("attempts", []int{h.Messages[0].Attempt, h.Messages[1].Attempt}, []int{2, 1})
		r.same("until", h.Until, r.now)
		r.same("due", h.Due < 0, true)
		r.same("name", h.Messages[0].Name, stamps[0].Seq)
		r.counts(lane, q, 0, 0, 0, 0)
		r.same("acked", r.stats(lane, q).Acked-acked, int64(2))
		r.lost(lane, q, h.items()...)
		r.pass(time.Hour)
		r.same("expired", r.step(lane).Expired, 0)
		r.same("the other queue has the body", r.lease(lane, other, 9).names(), []string{"a1"})
		r.settled(lane, other, millrace.Ack, millrace.SettleItem{Name: stamps[0].Seq, Token: r.lastToken()})
	})
}

func atMostOnceTurns(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 1})
	r.tenant(0, q, "a", 2, asTheQueue)
	r.fill(0, q, "a1", "a2", "a3", "b1", "b2")
	r.same("order", r.leaseFor(0, q, 9, 0).names(), []string{"a1", "a2", "b1", "a3", "b2"})
	r.fill(0, q, "a4", "a5")
	h := r.leased(0, q, 1)
	r.same("at its limit", len(r.leaseFor(0, q, 9, 0).Messages), 0)
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("below its limit", r.leaseFor(0, q, 9, 0).names(), []string{"a5"})
}
