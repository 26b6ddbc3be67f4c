package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/millrace-dev/millrace"
)

func sharePromises() []promise {
	return []promise{
		{"TenantsAreServedInProportionToTheirWeights", inProportion},
		{"WeightedTurnsAreFairWhileWeightsAndLimitsChange", weightsChange},
		{"LimitedTenantsDoNotSlowTheOthers", limitedSlowNobody},
		{"ATenantWithManyKeysIsServedAsOftenAsOneWithFew", keysAreNoShares},
		{"ConsumersOfAnOrderedQueueKeepTheOrder", consumersKeepOrder},
	}
}

// inProportion: in any window of one round, each tenant gets its weight.
func inProportion(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	lane := c.Lanes - 1
	weights := map[string]int{"a": 1, "b": 2, "c": 5}
	for tenant, weight := range weights {
		r.tenant(lane, q, tenant, weight, asTheQueue)
		var events []millrace.CommitEvent
		for i := range 100 {
			events = append(events, event(tenant, fmt.Sprint(i), q))
		}
		r.publish(lane, events...)
	}
	var served []string
	for i := 0; len(served) < 120; i++ {
		for _, m := range r.lease(lane, q, 1+i%11).Messages {
			served = append(served, m.Tenant)
		}
	}
	for i := 0; i+8 <= 120; i++ {
		got := map[string]int{}
		for _, tenant := range served[i : i+8] {
			got[tenant]++
		}
		r.same(fmt.Sprintf("messages %d to %d", i, i+8), got, weights)
	}
}

// sharing is a queue under the eyes of a judge of shares, which is told by
// bookkeeping of the test's own who could be served.
type sharing struct {
	*rig
	queue            string
	shares           *Shares
	waiting, out     map[string]int
	weights, limits  map[string]int
	receipts         []millrace.SettleItem
	receiptsOfTenant []string
}

func (s *sharing) can(tenant string) {
	under := s.limits[tenant] == 0 || s.out[tenant] < s.limits[tenant]
	s.shares.Can(tenant, under && s.weights[tenant] > 0 && s.waiting[tenant] > 0)
}

func (s *sharing) set(tenant string, weight, limit int) {
	s.tenant(0, s.queue, tenant, weight, limit)
	s.weights[tenant], s.limits[tenant] = weight, limit
	s.can(tenant)
}

func (s *sharing) send(tenant string) {
	s.publish(0, event(tenant, "x", s.queue))
	s.waiting[tenant]++
	s.can(tenant)
}

func (s *sharing) take(n int) {
	s.Helper()
	h := s.lease(0, s.queue, n)
	for i, m := range h.Messages {
		if err := s.shares.Served(m.Tenant, s.weights[m.Tenant]); err != nil {
			s.Fatal(err)
		}
		s.waiting[m.Tenant]--
		s.out[m.Tenant]++
		if limit := s.limits[m.Tenant]; limit > 0 && s.out[m.Tenant] > limit {
			s.Fatalf("tenant %s has %d leased, its limit is %d", m.Tenant, s.out[m.Tenant], limit)
		}
		s.can(m.Tenant)
		s.receipts = append(s.receipts, h.item(i))
		s.receiptsOfTenant = append(s.receiptsOfTenant, m.Tenant)
	}
	if len(h.Messages) < n && len(s.shares.waits) > 0 {
		s.Fatalf("a lease of %d gave %d while %d tenants could be served", n, len(h.Messages), len(s.shares.waits))
	}
}

func (s *sharing) settleOldest(n int) {
	s.Helper()
	for ; n > 0 && len(s.receipts) > 0; n-- {
		tenant := s.receiptsOfTenant[0]
		s.settled(0, s.queue, millrace.Ack, s.receipts[0])
		s.receipts, s.receiptsOfTenant = s.receipts[1:], s.receiptsOfTenant[1:]
		s.out[tenant]--
		s.can(tenant)
	}
}

func weightsChange(t *testing.T, c Config) {
	r := open(t, c)
	s := &sharing{
		rig: r, queue: r.queue(0), shares: NewShares(),
		waiting: map[string]int{}, out: map[string]int{}, weights: map[string]int{}, limits: map[string]int{},
	}
	tenants := []string{"a", "b", "c", "d", "e"}
	for _, tenant := range tenants {
		s.set(tenant, 1, 0)
	}
	random := rand.New(rand.NewPCG(5, 5))
	for range 400 {
		for range random.IntN(5) {
			s.send(tenants[random.IntN(len(tenants))])
		}
		if random.IntN(3) == 0 {
			s.set(tenants[random.IntN(len(tenants))], random.IntN(5), random.IntN(4)*2)
		}
		s.settleOldest(random.IntN(6))
		s.lowerNothing()
		s.take(1 + random.IntN(7))
	}
}

// lowerNothing keeps the bookkeeping simple: a limit below what is out is raised to it.
func (s *sharing) lowerNothing() {
	for tenant, out := range s.out {
		if limit := s.limits[tenant]; limit > 0 && out > limit {
			s.set(tenant, s.weights[tenant], out)
		}
	}
}

func limitedSlowNobody(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 3})
	var events []millrace.CommitEvent
	for i := range 200 {
		events = append(events, event(fmt.Sprint("stuck", i%4), "x", q))
	}
	r.publish(0, events...)
	r.leased(0, q, 12) // all that the stuck tenants may have; they never settle
	for i := range 40 {
		r.fill(0, q, fmt.Sprint("a", i), fmt.Sprint("b", i))
		h := r.leased(0, q, 2)
		r.same("served", h.names(), []string{fmt.Sprint("a", i), fmt.Sprint("b", i)})
		r.same("tenants in the ring", h.Tenants, 0)
		r.settled(0, q, millrace.Ack, h.items()...)
	}
}

func keysAreNoShares(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	var events []millrace.CommitEvent
	for i := range 200 {
		events = append(events, keyed(event("many", "x", q), fmt.Sprint("k", i)))
	}
	for i := range 20 {
		events = append(events, keyed(event("few", "x", q), fmt.Sprint("k", i%2)))
	}
	r.publish(0, events...)
	served := map[string]int{}
	for range 20 {
		h := r.leased(0, q, 2)
		for _, m := range h.Messages {
			served[m.Tenant]++
		}
		r.settled(0, q, millrace.Ack, h.items()...)
	}
	r.same("served", served, map[string]int{"many": 20, "few": 20})
}

// consumersKeepOrder drains an ordered queue with many consumers at once: each
// writes down what it got while it holds it, so that two of one key would meet.
func consumersKeepOrder(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	judge := NewLines()
	for i := range 300 {
		e := keyed(event(fmt.Sprint("t", i%3), fmt.Sprint(i), q), fmt.Sprint("k", i/3%2))
		judge.Waits(e.Tenant, e.Key, r.publish(0, e)[0].Seq)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				mu.Lock()
				left := judge.Waiting()
				mu.Unlock()
				if left == 0 || !r.consumeInOrder(q, millrace.Token{byte(worker + 1), byte(n), byte(n >> 8), byte(n >> 16)}, &mu, judge) {
					return
				}
			}
		})
	}
	wg.Wait()
	r.same("waiting", judge.Waiting(), 0)
}

// consumeInOrder leases, judges and acks once, and reports whether all was well.
func (r *rig) consumeInOrder(q string, token millrace.Token, mu *sync.Mutex, judge *Lines) bool {
	h := held{token: token}
	var err error
	h.Leased, err = r.Lease(r.ctx(), 0, millrace.Lease{Now: r.now, Queue: q, Max: 8, MaxBytes: 1 << 20, For: minute, Token: token})
	if err != nil {
		r.Errorf("lease: %v", err)
		return false
	}
	if len(h.Messages) == 0 {
		return true
	}
	mu.Lock()
	for _, m := range h.Messages {
		if err := judge.Leased(m.Name); err != nil {
			r.Error(err)
		}
	}
	// Whatever is given from here on may be given because of this settlement.
	for _, m := range h.Messages {
		judge.Ended(m.Name, true)
	}
	s, err := r.Settle(r.ctx(), 0, millrace.Settle{Now: r.now, Queue: q, Verb: millrace.Ack, Items: h.items()})
	mu.Unlock()
	if err != nil || len(s.Lost) > 0 {
		r.Errorf("settle: %v, lost %v", err, s.Lost)
		return false
	}
	return true
}
