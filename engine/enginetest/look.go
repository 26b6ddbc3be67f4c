package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func lookPromises() []promise {
	return []promise{
		{"APeekShowsTheOrderOfServing", peekOrder},
		{"APeekOfATenantShowsItsMessagesByName", peekTenant},
		{"APeekChangesNothing", peekChangesNothing},
		{"APeekOfAnOrderedQueueShowsHeads", peekHeads},
		{"TenantsAreListedByNameInPages", tenantsInPages},
		{"ATenantIsShownWithAllThatItHas", tenantShown},
		{"ATenantWithNothingIsListedNoMore", tenantGone},
		{"APurgeRemovesWhatWaitsOrIsDelayed", purgeRemoves},
		{"APurgeOfATenantLeavesTheOthers", purgeTenant},
		{"APurgeIsBoundedAndSaysWhatIsLeft", purgeBounded},
		{"APurgedTenantThatComesBackIsServed", purgedComesBack},
		{"APurgedBodyIsKeptForOtherQueues", purgeKeepsBodies},
		{"LooksAndChangesOfAnUnknownQueueAreNotFound", unknownIsNotFound},
	}
}

func (r *rig) peek(lane int, queue, tenant string, limit int) []string {
	r.Helper()
	all, err := r.Peek(r.ctx(), lane, millrace.Peek{Queue: queue, Tenant: tenant, Limit: limit})
	r.ok(err)
	return shown(all)
}

func peekOrder(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "a2", "b1", "a3", "c1", "c2")
		r.same("order", r.peek(lane, q, "", 100), []string{"a1", "b1", "c1", "a2", "c2", "a3"})
		r.same("some", r.peek(lane, q, "", 4), []string{"a1", "b1", "c1", "a2"})
		h := r.leased(lane, q, 2)
		r.same("after a lease", r.peek(lane, q, "", 100), []string{"c1", "a2", "c2", "a3"})
		r.settled(lane, q, millrace.Retry, h.items()...)
		want := r.peek(lane, q, "", 100)
		r.same("with returned ones", want, []string{"c1", "a1", "b1", "c2", "a2", "a3"})
		r.same("as served", r.lease(lane, q, 100).names(), want)
		r.same("nothing", r.peek(lane, q, "", 100), []string{})
	})
}

func peekTenant(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{TenantLimit: 2})
	r.fill(0, q, "a1", "a2", "a3", "a4", "b1")
	h := r.leased(0, q, 3)
	r.same("not in the ring", r.peek(0, q, "", 9), []string{})
	r.same("a's", r.peek(0, q, "a", 9), []string{"a3", "a4"})
	r.settled(0, q, millrace.Retry, h.item(0))
	r.same("a's with a returned one", r.peek(0, q, "a", 2), []string{"a1", "a3"})
	r.same("a stranger's", r.peek(0, q, "x", 9), []string{})
	all, err := r.Peek(r.ctx(), 0, millrace.Peek{Queue: q, Tenant: "a", Limit: 1})
	r.ok(err)
	r.same("message", all, []millrace.QueuedMessage{{
		Name: h.Messages[0].Name, Seq: h.Messages[0].Seq, RecordedAt: r.now, Tenant: "a", Attempts: 1, Body: []byte("a1"),
	}})
}

func peekChangesNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "b1")
	before := r.stats(0, q)
	for range 3 {
		r.peek(0, q, "", 100)
		r.peek(0, q, "a", 100)
	}
	r.same("stats", r.stats(0, q), before)
	r.same("order", r.lease(0, q, 9).names(), []string{"a1", "b1", "a2"})
}

func peekHeads(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{Ordered: true})
	r.line(0, q, "ak1", "ak2", "al1", "am1", "bk1", "bk2", "a_1")
	r.same("heads", r.peek(0, q, "", 9), []string{"ak1", "bk1", "al1", "am1", "a_1"})
	r.leased(0, q, 1)
	r.same("a's heads", r.peek(0, q, "a", 9), []string{"al1", "am1", "a_1"})
}

func (r *rig) tenants(lane int, queue, after string, limit int) []millrace.TenantStats {
	r.Helper()
	all, err := r.Tenants(r.ctx(), lane, queue, after, limit)
	r.ok(err)
	return all
}

func tenantsInPages(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		for i := range 25 {
			name := fmt.Sprintf("t%02d", (i*7)%25)
			r.publish(lane, event(name, name, q))
		}
		r.tenant(lane, q, "t11x", 4, 2)
		var got []string
		for after := ""; ; {
			page := r.tenants(lane, q, after, 4)
			for _, s := range page {
				got = append(got, s.Tenant)
				after = s.Tenant
			}
			if len(page) < 4 {
				break
			}
		}
		var want []string
		for i := range 25 {
			want = append(want, fmt.Sprintf("t%02d", i))
			if i == 11 {
				want = append(want, "t11x")
			}
		}
		r.same("tenants", got, want)
	})
}

func tenantShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.now = r.now.Truncate(minute).Add(3 * time.Minute)
	first := r.now
	r.fill(0, q, "a1", "a2", "a3")
	r.pass(2 * minute)
	r.fill(0, q, "a4", "a5", "a6")
	h := r.leased(0, q, 4)
	later := h.item(1)
	later.Delay = time.Hour
	r.settled(0, q, millrace.Retry, later)
	r.settled(0, q, millrace.Bury, h.item(2))
	r.settled(0, q, millrace.Ack, h.item(3))
	r.tenant(0, q, "a", 3, 7)
	want := millrace.TenantStats{
		Tenant: "a", QueueCounts: millrace.QueueCounts{Ready: 2, Leased: 1, Delayed: 1, Dead: 1},
		Settings: &millrace.TenantSettings{Weight: 3, Limit: 7}, Oldest: first.Add(2 * minute),
	}
	for range 2 {
		got, err := r.Tenant(r.ctx(), 0, q, "a")
		r.ok(err)
		r.same("tenant", got, want)
		r.same("listed", r.tenants(0, q, "", 9), []millrace.TenantStats{want})
		r.reopen()
	}
	r.settled(0, q, millrace.Retry, h.item(0))
	got, err := r.Tenant(r.ctx(), 0, q, "a")
	r.ok(err)
	r.same("oldest of a returned one", got.Oldest, first)
	got, err = r.Tenant(r.ctx(), 0, q, "nobody")
	r.ok(err)
	r.same("nobody", got, millrace.TenantStats{Tenant: "nobody"})
}

func tenantGone(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.bury(0, q, "a1")
	r.fill(0, q, "b1", "c1")
	h := r.leased(0, q, 2)
	names := func() []string {
		var all []string
		for _, s := range r.tenants(0, q, "", 100) {
			all = append(all, s.Tenant)
		}
		return all
	}
	r.same("dead, leased", names(), []string{"a", "b", "c"})
	r.settled(0, q, millrace.Ack, h.item(0))
	r.same("after an ack", names(), []string{"a", "c"})
	_, _, err := r.DropDead(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: q, All: true, Max: 5})
	r.ok(err)
	r.same("after a drop", names(), []string{"c"})
	r.tenant(0, q, "d", 2, 0)
	r.settled(0, q, millrace.Ack, h.item(1))
	r.same("settings only", names(), []string{"d"})
	r.ok(r.SetTenant(r.ctx(), 0, q, "d", nil))
	r.same("nobody", names(), []string{})
}

func (r *rig) purge(lane int, queue, tenant string, limit int) []int {
	r.Helper()
	done, left, err := r.Purge(r.ctx(), lane, millrace.Purge{Now: r.now, Queue: queue, Tenant: tenant, Max: limit})
	r.ok(err)
	return []int{done, left}
}

func purgeRemoves(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	r.each(func(lane int) {
		r.fill(lane, other, "z1")
		r.bury(lane, q, "a1")
		r.fill(lane, q, "a2", "a3", "b1", "b2", "c1")
		h := r.leased(lane, q, 3) // a2, b1, c1
		later := h.item(2)
		later.Delay = time.Hour
		r.settled(lane, q, millrace.Retry, later)
		r.settled(lane, q, millrace.Retry, h.item(1))
		r.same("purged", r.purge(lane, q, "", 100), []int{4, 0})
		r.counts(lane, q, 0, 1, 0, 1)
		r.same("dropped", r.stats(lane, q).Dropped, int64(4))
		got := r.lease(lane, q, 9)
		r.same("messages, tenants in the ring", []int{len(got.Messages), got.Tenants}, []int{0, 0})
		r.settled(lane, q, millrace.Ack, h.item(0))
		r.pass(2 * time.Hour)
		r.same("nothing returns", r.step(lane).Returned, 0)
		r.counts(lane, other, 1, 0, 0, 0)
	})
}

func purgeTenant(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "b1", "a2", "b2")
	item := r.leased(0, q, 1).item(0)
	item.Delay = time.Second
	r.settled(0, q, millrace.Retry, item)
	r.same("purged", r.purge(0, q, "a", 100), []int{2, 0})
	r.same("again", r.purge(0, q, "a", 100), []int{0, 0})
	r.pass(time.Second)
	r.same("returned", r.step(0).Returned, 0)
	r.same("left", r.lease(0, q, 9).names(), []string{"b1", "b2"})
}

func purgeBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "a3", "b1", "b2")
	r.same("of a", r.purge(0, q, "a", 2), []int{2, 1})
	r.same("of all", r.purge(0, q, "", 2), []int{2, 1})
	r.counts(0, q, 1, 0, 0, 0)
	r.same("the rest", r.purge(0, q, "", 2), []int{1, 0})
}

func purgedComesBack(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	q := r.queue(0)
	r.fill(0, q, "a1", "a2", "b1")
	r.purge(0, q, "a", 9)
	r.fill(0, q, "a3")
	r.same("messages", len(r.lease(0, q, 9).Messages), 2)
	r.fill(0, q, "c1")
	r.purge(0, q, "", 9)
	r.same("nothing", len(r.lease(0, q, 9).Messages), 0)
	seen := h.count(millrace.HintQueue, 0, q)
	r.fill(0, q, "c2")
	r.waitFor("a hint", func() bool { return h.count(millrace.HintQueue, 0, q) > seen })
	r.same("messages", r.lease(0, q, 9).names(), []string{"c2"})
}

func purgeKeepsBodies(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	r.publish(0, event("a", "x", one, two), event("b", "y", two, one))
	r.purge(0, one, "", 9)
	r.same("the other", r.lease(0, two, 9).names(), []string{"x", "y"})
}

func unknownIsNotFound(t *testing.T, c Config) {
	r := open(t, c)
	ctx, nobody := r.ctx(), "00000000000000ee"
	_, err := r.Release(ctx, 0, millrace.Release{Now: r.now, Queue: nobody, Consumer: "me", Max: 1})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Peek(ctx, 0, millrace.Peek{Queue: nobody, Limit: 1})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Dead(ctx, 0, millrace.DeadPage{Queue: nobody, Limit: 1})
	r.refused(err, millrace.CodeNotFound)
	_, _, err = r.DropDead(ctx, 0, millrace.DeadOf{Now: r.now, Queue: nobody, All: true, Max: 1})
	r.refused(err, millrace.CodeNotFound)
	_, _, err = r.Purge(ctx, 0, millrace.Purge{Now: r.now, Queue: nobody, Max: 1})
	r.refused(err, millrace.CodeNotFound)
	r.refused(r.SetTenant(ctx, 0, nobody, "a", &millrace.TenantSettings{Weight: 1}), millrace.CodeNotFound)
	_, err = r.Tenants(ctx, 0, nobody, "", 1)
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Tenant(ctx, 0, nobody, "a")
	r.refused(err, millrace.CodeNotFound)
	r.refused(r.Inject(ctx, 0, millrace.Inject{Now: r.now, Queue: nobody}), millrace.CodeNotFound)
}
