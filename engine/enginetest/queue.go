package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func queuePromises() []promise {
	return []promise{
		{"EachTenantIsServedOneMessageATurn", oneMessageATurn},
		{"ATenantEntersTheRingAtTheTail", entersAtTheTail},
		{"ATurnThatABatchCutShortGoesOnInTheNextCall", turnsGoOn},
		{"WithinATenantTheLowestSeqIsFirst", lowestSeqFirst},
		{"ALeaseLastsForTheTimeAsked", leaseLasts},
		{"ALeaseSaysHowManyTenantsStillWait", leaseSaysTenants},
		{"ALeasedMessageIsGivenToNobodyElse", leasedOnce},
		{"ALeaseStopsAtItsBytesButGivesTheFirst", leaseStopsAtBytes},
		{"ALeaseOfNothingIsEmpty", leaseOfNothing},
		{"AnEndedLeaseWaitsForTheStep", endedWaitsForStep},
		{"AnUnknownQueueIsNotFound", unknownQueueIsNotFound},
		{"QueuesDoNotShareTheirMessages", queuesDoNotShare},
		{"LanesDoNotShareTheirMessages", lanesDoNotShare},
		{"AWantedQueueSendsAHintWhenItGetsAMessage", wantedByPublish},
		{"AWantedQueueSendsAHintWhenARetryReturns", wantedByRetry},
		{"AWantedQueueSendsAHintWhenALeaseEnds", wantedByStep},
		{"AQueueWhoseLastMessageWasLeasedIsWanted", wantedByTakingTheLast},
		{"AQueueThatNobodyWantsSendsNoHint", unwantedSendsNothing},
		{"AQueueIsListedAsWantedAsLongAsAHintWillTellOfIt", wantedIsListed},
		{"StatsCountByState", statsCount},
		{"StatsKnowTheOldestToTheMinute", statsOldest},
		{"ConsumersThatLeaseAtOnceShareTheMessages", consumersShare},
	}
}

// fill publishes one message per name; the tenant is the name's first letter.
func (r *rig) fill(lane int, q string, names ...string) {
	r.Helper()
	for _, name := range names {
		r.publish(lane, event(name[:1], name, q))
	}
}

func oneMessageATurn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "a2", "a3", "a4", "b1", "b2", "c1")
		r.same("order", r.lease(lane, q, 9).names(), []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"})
	})
}

func entersAtTheTail(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "b1", "b2", "c1")
	r.same("first", r.lease(0, q, 3).names(), []string{"a1", "b1", "c1"})
	r.fill(0, q, "c2", "d1")
	r.same("then", r.lease(0, q, 9).names(), []string{"a2", "b2", "c2", "d1"})
}

func turnsGoOn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "c1", "a2", "b2", "c2")
	var got []string
	for range 6 {
		got = append(got, r.leased(0, q, 1).names()...)
	}
	r.same("order", got, []string{"a1", "b1", "c1", "a2", "b2", "c2"})
}

func lowestSeqFirst(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3", "a4")
	h := r.leased(0, q, 3)
	r.settled(0, q, millrace.Retry, h.item(2), h.item(0))
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "a3", "a4"})
	r.settled(0, q, millrace.Retry, h.item(1))
	r.same("last", r.lease(0, q, 9).names(), []string{"a2"})
}

func leaseLasts(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2")
	for _, d := range []time.Duration{millrace.MinLease, millrace.MaxLease} {
		h := r.leaseFor(0, q, 1, d)
		r.same("until", h.Until, r.now.Add(d))
		r.pass(d - time.Millisecond)
		r.settled(0, q, millrace.Ack, h.items()...)
	}
}

func leaseSaysTenants(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "b1", "c1")
	for _, want := range []int{3, 2, 1, 0} {
		r.same("tenants", r.leased(0, q, 1).Tenants, want)
	}
}

func leasedOnce(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1")
	r.leased(0, q, 2)
	r.same("second lease", len(r.lease(0, q, 2).Messages), 0)
	r.reopen()
	r.same("lease after a reopen", len(r.lease(0, q, 2).Messages), 0)
	r.counts(0, q, 0, 2, 0, 0)
}

func leaseStopsAtBytes(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	big := strings.Repeat("x", 1000)
	r.fill(0, q, "a"+big, "b"+big, "c"+big, "a2", "b2")
	lease := func(limit int) []string {
		done, err := r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 10, MaxBytes: limit, For: minute, Token: r.token()})
		r.ok(err)
		return held{Leased: done}.names()
	}
	r.same("more than the limit", lease(10), []string{"a" + big})
	r.same("exactly the limit", lease(2002), []string{"b" + big, "c" + big})
	r.same("the rest", lease(3), []string{"a2"})
	r.same("the last", lease(3), []string{"b2"})
}

func leaseOfNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		h := r.lease(lane, q, 10)
		r.same("lease", h.Leased, millrace.Leased{Until: r.now.Add(minute), Due: h.Due})
		r.same("due", h.Due < 0, true)
	})
}

func endedWaitsForStep(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1")
	h := r.leased(0, q, 1)
	r.pass(time.Hour)
	r.same("lease before the step", len(r.lease(0, q, 1).Messages), 0)
	r.counts(0, q, 0, 1, 0, 0)
	r.lost(0, q, h.items()...)
	r.step(0)
	r.leased(0, q, 1)
}

func unknownQueueIsNotFound(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		nobody := "00000000000000ee"
		h := held{Leased: millrace.Leased{Messages: []millrace.LeasedMessage{{Name: 1}}}}
		_, err := r.Lease(r.ctx(), lane, millrace.Lease{Now: r.now, Queue: nobody, Max: 1, MaxBytes: 1, For: minute, Token: r.token()})
		r.refused(err, millrace.CodeNotFound)
		_, err = r.Settle(r.ctx(), lane, millrace.Settle{Now: r.now, Queue: nobody, Verb: millrace.Ack, Items: h.items()})
		r.refused(err, millrace.CodeNotFound)
		_, err = r.Extend(r.ctx(), lane, millrace.Extend{Now: r.now, Queue: nobody, For: minute, Items: h.items()})
		r.refused(err, millrace.CodeNotFound)
		r.same("stats", r.stats(lane, nobody), millrace.QueueStats{})
	})
}

func queuesDoNotShare(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	r.publish(0, event("a", "1", one, two), event("b", "2", one, two))
	h := r.leased(0, one, 1)
	r.lost(0, two, h.items()...)
	r.settled(0, one, millrace.Ack, h.items()...)
	r.counts(0, one, 1, 0, 0, 0)
	r.counts(0, two, 2, 0, 0, 0)
	r.same("the other", r.lease(0, two, 5).names(), []string{"1", "2"})
}

func lanesDoNotShare(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) { r.fill(lane, q, fmt.Sprintf("a%d", lane)) })
	r.each(func(lane int) {
		r.counts(lane, q, 1, 0, 0, 0)
		r.same("message", r.lease(lane, q, 5).names(), []string{fmt.Sprintf("a%d", lane)})
	})
}

// wanted proves that a queue which a lease found empty sends a hint when something fills it.
func wanted(t *testing.T, c Config, prepare, fill func(r *rig, lane int, q string)) {
	r := open(t, c)
	h := r.watch()
	r.each(func(lane int) {
		r.settleWatch(h, lane)
		q := r.queue(0)
		prepare(r, lane, q)
		r.same("messages of the lease that wants", len(r.lease(lane, q, 1).Messages), 0)
		r.same("hints before", h.count(millrace.HintQueue, lane, q), 0)
		fill(r, lane, q)
		r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, lane, q) > 0 })
	})
}

func wantedByPublish(t *testing.T, c Config) {
	wanted(t, c, func(*rig, int, string) {}, func(r *rig, lane int, q string) { r.fill(lane, q, "a1") })
}

func wantedByRetry(t *testing.T, c Config) {
	var h held
	take := func(r *rig, lane int, q string) {
		r.fill(lane, q, "a1")
		h = r.leased(lane, q, 1)
	}
	wanted(t, c, take, func(r *rig, lane int, q string) { r.settled(lane, q, millrace.Retry, h.items()...) })
}

func wantedByStep(t *testing.T, c Config) {
	take := func(r *rig, lane int, q string) {
		r.fill(lane, q, "a1")
		r.leased(lane, q, 1)
	}
	wanted(t, c, take, func(r *rig, lane int, _ string) {
		r.pass(minute)
		r.step(lane)
	})
}

func wantedByTakingTheLast(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	q := r.queue(0)
	r.fill(0, q, "a1")
	r.leased(0, q, 1)
	r.fill(0, q, "a2")
	r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, 0, q) > 0 })
}

func wantedIsListed(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		empty, full, gone := r.queue(0), r.queue(0), r.queue(0)
		r.fill(lane, full, "a1", "b1")
		for _, q := range []string{empty, full, gone} {
			r.lease(lane, q, 1)
		}
		r.remove(gone)
		r.same("wanted, by what found nothing", r.wanted(lane), []string{empty})
		r.leased(lane, full, 1)
		r.same("wanted, by what took the last too", r.wanted(lane), slices.Sorted(slices.Values([]string{empty, full})))
		r.fill(lane, empty, "a1")
		r.same("wanted after a message came", r.wanted(lane), []string{full})
	})
}

// wanted are the queues of which a hint will tell, by uid.
func (r *rig) wanted(lane int) []string {
	r.Helper()
	uids, err := r.Wanted(r.ctx(), lane)
	r.ok(err)
	return slices.Sorted(slices.Values(uids))
}

func unwantedSendsNothing(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	quiet, loud := r.queue(0), r.queue(0)
	r.fill(0, quiet, "a1")
	r.lease(0, loud, 1)
	r.fill(0, loud, "a1")
	for i := range 20 {
		r.fill(0, quiet, "a2")
		r.fill(0, loud, fmt.Sprintf("b%d", i))
	}
	r.waitFor("the wanted queue's hint", func() bool { return h.count(millrace.HintQueue, 0, loud) > 0 })
	r.same("hints of the unwanted queue", h.count(millrace.HintQueue, 0, quiet), 0)
	r.same("hints of the wanted queue", h.count(millrace.HintQueue, 0, loud), 1)
}

func statsCount(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		q, _ := r.scene(lane)
		s := r.stats(lane, q)
		s.Oldest = time.Time{}
		r.same("stats", s, millrace.QueueStats{
			QueueCounts: millrace.QueueCounts{Ready: 2, Leased: 1, Delayed: 1, Dead: 1},
			Tenants:     2, Acked: 1, Spent: 1,
		})
	})
}

func statsOldest(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.now = r.now.Truncate(minute).Add(3 * time.Minute)
	first := r.now
	r.same("oldest of nothing", r.stats(0, q).Oldest, time.Time{})
	r.pass(59 * time.Second)
	r.fill(0, q, "a1", "a2")
	r.pass(2 * minute)
	r.fill(0, q, "a3")
	h := r.leased(0, q, 3)
	r.same("oldest", r.stats(0, q).Oldest, first)
	r.settled(0, q, millrace.Ack, h.item(0))
	r.same("oldest of a leased one", r.stats(0, q).Oldest, first)
	r.settled(0, q, millrace.Bury, h.item(1))
	r.same("oldest without the dead", r.stats(0, q).Oldest, first.Add(2*minute))
	r.settled(0, q, millrace.Ack, h.item(2))
	r.same("oldest of none", r.stats(0, q).Oldest, time.Time{})
}

func consumersShare(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	var events []millrace.CommitEvent
	for i := range 400 {
		events = append(events, event(fmt.Sprint("t", i%13), fmt.Sprint(i), q))
	}
	r.publish(0, events...)
	seen := r.shareOut(q, 8)
	r.same("different messages", len(seen), 400)
	for name, n := range seen {
		if n != 1 {
			t.Errorf("message %s was given %d times", name, n)
		}
	}
	r.same("acked", r.stats(0, q).Acked, int64(400))
}

// shareOut drains a queue with some consumers at once and counts how often each message was given.
func (r *rig) shareOut(q string, consumers int) map[string]int {
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for worker := range consumers {
		wg.Go(func() {
			for n := 0; ; n++ {
				h := held{token: millrace.Token{0: byte(worker + 1), 1: byte(n), 2: byte(n >> 8)}}
				var err error
				h.Leased, err = r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 7, MaxBytes: 1 << 20, For: minute, Token: h.token})
				if err != nil || len(h.Messages) == 0 {
					return
				}
				mu.Lock()
				for _, name := range h.names() {
					seen[name]++
				}
				mu.Unlock()
				s, err := r.Settle(r.ctx(), 0, millrace.Settle{Now: r.now, Queue: q, Verb: millrace.Ack, Items: h.items()})
				if err != nil || len(s.Lost) > 0 {
					r.Errorf("settle: %v, lost %v", err, s.Lost)
				}
			}
		})
	}
	wg.Wait()
	return seen
}
