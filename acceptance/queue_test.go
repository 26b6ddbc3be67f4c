package acceptance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// burst is n events of a tenant, each of a key of its own.
func burst(tenant string, n int) []millrace.Event {
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = order(tenant, fmt.Sprint(tenant, "-k", i), i)
	}
	return events
}

func retryAtOnce(t *testing.T, b millrace.Backbone, queue string, m millrace.Message) millrace.SettleResult {
	t.Helper()
	at := time.Duration(0)
	r, err := b.Queues().Retry(t.Context(), queue, millrace.Settlement{Receipt: m.Receipt, Delay: &at, Error: "boom"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func counts(t *testing.T, b millrace.Backbone, queue string) millrace.QueueCounts {
	t.Helper()
	q, err := b.Queues().Get(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	return q.QueueCounts
}

func TestATenantIsServedByItsWeightAndNotAtAllWithNone(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		for tenant, weight := range map[string]int{"heavy": 3, "off": 0} {
			got, err := h.Queues().PutTenant(t.Context(), "all", tenant, millrace.TenantSettings{Weight: weight, Limit: -1})
			if err != nil || got.Weight != weight {
				t.Fatalf("got %+v %v", got, err)
			}
		}
		for _, tenant := range []string{"heavy", "light", "off"} {
			publish(t, h, burst(tenant, 60)...)
		}
		served := map[string]int{}
		for _, m := range leaseAll(t, h, "all", 60) {
			served[m.Event.Tenant]++
		}
		if served["off"] != 0 || served["heavy"] < 40 || served["light"] < 10 {
			t.Errorf("got %v, want three of heavy to one of light and none of off", served)
		}
		if err := h.Queues().DeleteTenant(t.Context(), "all", "off"); err != nil {
			t.Fatal(err)
		}
		for _, m := range leaseAll(t, h, "all", 60) {
			served[m.Event.Tenant]++
		}
		if served["off"] == 0 {
			t.Errorf("got %v: the tenant stays paused", served)
		}
	})
}

func TestNoTenantHasMoreInFlightThanItsLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".", func(s *millrace.QueueSpec) { s.TenantLimit = 2 })
		publish(t, h, burst("acme", 20)...)
		s, err := h.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most := 2 * s.Lanes // the limit holds in each lane
		var held []millrace.Message
		for {
			got, err := h.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Max: 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			held = append(held, got...)
		}
		if len(held) > most || len(held) < 2 {
			t.Fatalf("%d in flight, want 2 to %d", len(held), most)
		}
		ack(t, h, "all", held...)
		for n := len(held); n < 20; { // each ack makes room for another
			got := lease(t, h, "all", 20)
			if len(got) == 0 {
				t.Fatalf("got %d of 20", n)
			}
			ack(t, h, "all", got...)
			n += len(got)
		}
	})
}

func TestAnOrderedQueueHasOneMessageOfAKeyInFlight(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "line", ".", func(s *millrace.QueueSpec) { s.Ordered, s.OnExhausted = true, millrace.ExhaustedBlock })
		for n := range 5 {
			publish(t, h, order("acme", "a", n), order("acme", "b", n))
		}
		next := map[string]int{}
		for range 10 {
			held := leaseAll(t, h, "line", 1)
			more, err := h.Queues().Lease(t.Context(), "line", millrace.LeaseOptions{Max: 10})
			if err != nil {
				t.Fatal(err)
			}
			keys := map[string]bool{}
			for _, m := range append(held, more...) {
				if keys[m.Event.Key] {
					t.Fatalf("two messages of key %s in flight", m.Event.Key)
				}
				keys[m.Event.Key] = true
				if want := fmt.Sprintf(`{"n":%d}`, next[m.Event.Key]); string(m.Event.Data) != want {
					t.Fatalf("key %s: got %s, want %s", m.Event.Key, m.Event.Data, want)
				}
				if m.Attempt == 1 && next[m.Event.Key]%2 == 0 {
					retryAtOnce(t, h, "line", m) // it stays the first of its key
					continue
				}
				ack(t, h, "line", m)
				next[m.Event.Key]++
			}
			if next["a"] == 5 && next["b"] == 5 {
				none(t, h, "line")
				return
			}
		}
		t.Errorf("got as far as %v", next)
	})
}

func TestDeadLettersAreListedRedrivenAndDropped(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".", func(s *millrace.QueueSpec) { s.MaxAttempts = 1 })
		publish(t, h, order("acme", "a", 1), order("beta", "b", 1), order("beta", "c", 1))
		for _, m := range leaseAll(t, h, "all", 3) {
			if r := retryAtOnce(t, h, "all", m); r.Dead != 1 {
				t.Fatalf("got %+v", r)
			}
		}
		dead, next, err := h.Queues().Dead(t.Context(), "all", "", millrace.Page{Limit: 2})
		if err != nil || len(dead) != 2 || next == "" {
			t.Fatalf("got %d %q %v", len(dead), next, err)
		}
		rest, next, err := h.Queues().Dead(t.Context(), "all", "", millrace.Page{Limit: 2, Cursor: next})
		if err != nil || len(rest) != 1 || next != "" {
			t.Fatalf("got %d %q %v", len(rest), next, err)
		}
		d := dead[0]
		if d.Reason != millrace.ReasonAttempts || d.Error != "boom" || d.Attempts != 1 || d.DeadAt.IsZero() || d.Event.Seq == 0 {
			t.Errorf("got %+v", d)
		}
		done, left, err := h.Queues().Redrive(t.Context(), "all", millrace.DeadSelection{IDs: []string{d.ID}})
		if err != nil || done != 1 || left != 0 {
			t.Errorf("redrive one: got %d %d %v", done, left, err)
		}
		again := leaseAll(t, h, "all", 1)[0]
		if again.ID != d.ID || again.Attempt != 1 || again.Event.Seq != d.Event.Seq {
			t.Errorf("got %+v, want %+v again", again, d)
		}
		if _, _, err := h.Queues().DropDead(t.Context(), "all", millrace.DeadSelection{IDs: []string{d.ID}}); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("drop one that is not dead: got %v", err)
		}
		done, left, err = h.Queues().Redrive(t.Context(), "all", millrace.DeadSelection{All: true, Tenant: again.Event.Tenant})
		if err != nil || left != 0 {
			t.Errorf("redrive a tenant's: got %d %d %v", done, left, err)
		}
		dropped, left, err := h.Queues().DropDead(t.Context(), "all", millrace.DeadSelection{All: true})
		if err != nil || left != 0 || dropped+done != 2 {
			t.Errorf("drop all: got %d, %d left, %v", dropped, left, err)
		}
	})
}

func TestPausePeekAndPurge(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		publish(t, h, append(burst("acme", 3), burst("beta", 2)...)...)
		if err := errors.Join(h.Queues().Pause(t.Context(), "all"), h.Queues().Pause(t.Context(), "all")); err != nil {
			t.Fatal(err)
		}
		none(t, h, "all")
		if q, err := h.Queues().Get(t.Context(), "all"); err != nil || q.State != millrace.StatePaused || q.Version != 1 {
			t.Errorf("got %+v %v", q, err)
		}
		seen, err := h.Queues().Peek(t.Context(), "all", "beta", 10)
		if err != nil || len(seen) != 2 || seen[0].Event.Tenant != "beta" {
			t.Errorf("peek: got %+v %v", seen, err)
		}
		if seen, err = h.Queues().Peek(t.Context(), "all", "", 4); err != nil || len(seen) != 4 {
			t.Errorf("peek: got %d %v", len(seen), err)
		}
		if err := h.Queues().Resume(t.Context(), "all"); err != nil {
			t.Fatal(err)
		}
		first := leaseAll(t, h, "all", 1)[0]
		done, left, err := h.Queues().Purge(t.Context(), "all", "acme")
		if err != nil || left != 0 {
			t.Fatalf("purge: got %d %d %v", done, left, err)
		}
		want := millrace.QueueCounts{Ready: 4 - int64(done), Leased: 1}
		if got := counts(t, h, "all"); got != want || done < 2 {
			t.Errorf("got %+v after %d purged, want %+v", got, done, want)
		}
		ack(t, h, "all", first)
	})
}

func TestAFullTenantIsRefusedOrLosesItsOldestAndNobodyElse(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "strict", ":orders:", func(s *millrace.QueueSpec) { s.MaxLength = 2 })
		key := func(n int) millrace.Event { e := order("acme", "k", n); return e }
		publish(t, h, key(1), key(2))
		_, err := h.Publish(t.Context(), key(3))
		var full *millrace.Error
		if !errors.As(err, &full) || full.Code != millrace.CodeFull || full.Sink != "strict" {
			t.Fatalf("got %v, want full, naming the queue", err)
		}
		publish(t, h, order("beta", "k", 1))
		h.queue(t, "strict", ":orders:", func(s *millrace.QueueSpec) {
			s.MaxLength, s.Overflow = 2, millrace.OverflowDropOldest
		})
		publish(t, h, key(4))
		ids := map[string]bool{}
		for _, m := range leaseAll(t, h, "strict", 3) {
			ids[m.Event.ID] = true
		}
		if ids["acme-k-1"] || !ids["acme-k-4"] || !ids["beta-k-1"] {
			t.Errorf("got %v, want the oldest of acme gone", ids)
		}
		if q, err := h.Queues().Get(t.Context(), "strict"); err != nil || q.Dropped != 1 {
			t.Errorf("got %d dropped, %v", q.Dropped, err)
		}
	})
}

func TestADelayedEventWaitsIsFoundAndCanBeTakenBack(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		soon, late := order("acme", "a", 1), order("acme", "b", 2)
		soon.Delay, late.DeliverAt = 400*time.Millisecond, time.Now().Add(time.Hour)
		got := publish(t, h, soon, late)
		for _, p := range got {
			if p.DueAt.IsZero() || p.Seq != 0 {
				t.Errorf("got %+v, want a due time and no seq", p)
			}
		}
		none(t, h, "all")
		held, err := h.Held(t.Context(), "acme", late.ID)
		if err != nil || held.ID != late.ID || string(held.Data) != `{"n":2}` || held.DueAt.Before(time.Now().Add(50*time.Minute)) {
			t.Errorf("got %+v %v", held, err)
		}
		if again := publish(t, h, late)[0]; !again.Duplicate || again.DueAt.IsZero() {
			t.Errorf("the same again: got %+v", again)
		}
		m := leaseAll(t, h, "all", 1)[0]
		if m.Event.ID != soon.ID || m.Event.Seq == 0 {
			t.Errorf("got %+v", m.Event)
		}
		if err := h.CancelHeld(t.Context(), "acme", late.ID); err != nil {
			t.Error(err)
		}
		for _, id := range []string{late.ID, soon.ID} {
			if _, err := h.Held(t.Context(), "acme", id); !errors.Is(err, millrace.ErrNotFound) {
				t.Errorf("%s: got %v", id, err)
			}
		}
	})
}

func TestARestartedConsumerTakesBackAtOnceWhatItHeld(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		publish(t, h, burst("acme", 4)...)
		for _, consumer := range []string{"w-1", "w-1", "w-2"} {
			got, err := h.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Max: 1, Lease: time.Hour, Consumer: consumer})
			if err != nil || len(got) != 1 {
				t.Fatalf("got %d %v", len(got), err)
			}
		}
		n, err := h.Queues().Release(t.Context(), "all", "w-1")
		if err != nil || n != 2 {
			t.Errorf("got %d released, %v", n, err)
		}
		if got, want := counts(t, h, "all"), (millrace.QueueCounts{Ready: 3, Leased: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestAtMostOnceLeavesNothingBehind(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		publish(t, h, burst("acme", 3)...)
		seen := 0
		for seen < 3 {
			got, err := h.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Max: 3, AtMostOnce: true, Wait: time.Second})
			if err != nil || len(got) == 0 {
				t.Fatalf("got %d %v", len(got), err)
			}
			for _, m := range got {
				if m.Receipt != "" || !m.LeasedUntil.IsZero() {
					t.Errorf("got %+v, want no receipt", m)
				}
			}
			seen += len(got)
		}
		if got := counts(t, h, "all"); got != (millrace.QueueCounts{}) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestStoredEventsAreInjectedIntoOneQueueAsTheyAre(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "here", ".")
		h.queue(t, "there", "^nobody:")
		publish(t, h, order("acme", "a", 1), order("acme", "a", 2))
		var events []millrace.Event
		for _, m := range leaseAll(t, h, "here", 2) {
			events = append(events, m.Event)
		}
		n, err := h.Queues().Inject(t.Context(), "there", events...)
		if err != nil || n != 2 {
			t.Fatalf("got %d %v", n, err)
		}
		for i, m := range leaseAll(t, h, "there", 2) {
			if m.Event.Seq != events[i].Seq || m.Event.Prev != events[i].Prev || !m.Event.Time.Equal(events[i].Time) || !m.Event.RecordedAt.Equal(events[i].RecordedAt) {
				t.Errorf("got %+v, want %+v", m.Event, events[i])
			}
			ack(t, h, "there", m)
		}
	})
}

func TestSeveralQueuesAreLeasedFromByWeight(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "much", "^acme:")
		h.queue(t, "little", "^beta:")
		publish(t, h, append(burst("acme", 150), burst("beta", 150)...)...)
		first := map[string]int{}
		for range 100 {
			got, err := h.Queues().LeaseAny(t.Context(), map[string]int{"much": 9, "little": 1}, millrace.LeaseOptions{Max: 1})
			if err != nil || len(got) != 1 {
				t.Fatalf("got %d %v", len(got), err)
			}
			first[got[0].Queue]++
		}
		if first["much"] < 75 || first["little"] < 1 { // 90 and 10 expected
			t.Errorf("got %v", first)
		}
	})
}

func TestARouteSaysWhereAnEventWouldGo(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "b", ":orders:")
		h.queue(t, "a", "^acme:")
		h.queue(t, "c", ":pages:")
		if err := h.Queues().Pause(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		r, err := h.Route(t.Context(), "acme", "orders", "created")
		if err != nil || r.Address != "acme:orders:created" || len(r.Sinks) != 2 {
			t.Fatalf("got %+v %v", r, err)
		}
		if r.Sinks[0].Name != "a" || r.Sinks[1].Name != "b" || r.Sinks[1].State != millrace.StatePaused || r.Sinks[1].Match != ":orders:" {
			t.Errorf("got %+v", r.Sinks)
		}
	})
}

func TestTenantsAreListedDeepestFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		for i, tenant := range []string{"small", "large", "middle"} {
			publish(t, h, burst(tenant, []int{1, 9, 4}[i])...)
		}
		list, next, err := h.Queues().Tenants(t.Context(), "all", millrace.Page{Limit: 2})
		if err != nil || len(list) != 2 || list[0].Name != "large" || list[0].Ready != 9 || list[1].Name != "middle" || next == "" {
			t.Fatalf("got %+v %q %v", list, next, err)
		}
		list, next, err = h.Queues().Tenants(t.Context(), "all", millrace.Page{Limit: 2, Cursor: next})
		if err != nil || len(list) != 1 || list[0].Name != "small" || list[0].Weight != 1 || list[0].Oldest.IsZero() || next != "" {
			t.Errorf("got %+v %q %v", list, next, err)
		}
		one, err := h.Queues().Tenant(t.Context(), "all", "nobody")
		if err != nil || one.Ready != 0 || one.Weight != 1 {
			t.Errorf("got %+v %v", one, err)
		}
	})
}
