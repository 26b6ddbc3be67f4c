package acceptance

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

func order(tenant, key string, n int) millrace.Event {
	return millrace.Event{
		ID: fmt.Sprintf("%s-%s-%d", tenant, key, n), Topic: "orders", Type: "created", Tenant: tenant, Key: key,
		Data: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func TestAnAnsweredEventIsInEveryMatchingQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ":orders:")
		h.queue(t, "acme", "^acme:")
		h.queue(t, "other", ":pages:")
		got := publish(t, h, order("acme", "a", 1), order("beta", "b", 1))
		if got[0].Sinks != 2 || got[1].Sinks != 1 {
			t.Errorf("got %d and %d sinks, want 2 and 1", got[0].Sinks, got[1].Sinks)
		}
		all := leaseAll(t, h, "all", 2)
		for _, m := range all {
			if m.Attempt != 1 || m.Event.Topic != "orders" || string(m.Event.Data) != `{"n":1}` || m.Event.Seq == 0 || m.Event.RecordedAt.IsZero() {
				t.Errorf("got %+v", m)
			}
		}
		acme := leaseAll(t, h, "acme", 1)
		if got := acme[0].Event.ID; got != "acme-a-1" {
			t.Errorf("got %s", got)
		}
		none(t, h, "other")
		ack(t, h, "all", all...)
		ack(t, h, "acme", acme...)
		none(t, h, "all")
	})
}

func TestTheSameIDAgainIsStoredOnceAndAnswersAsTheFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		first := publish(t, h, order("acme", "a", 1), order("acme", "a", 2))
		again := publish(t, h, order("acme", "a", 1), order("acme", "a", 2), order("acme", "a", 3))
		for i := range first {
			want := first[i]
			want.Duplicate = true
			if again[i] != want {
				t.Errorf("got %+v, want %+v", again[i], want)
			}
		}
		if again[2].Duplicate || again[2].Prev != first[1].Seq {
			t.Errorf("got %+v, want a new event after seq %d", again[2], first[1].Seq)
		}
		leaseAll(t, h, "all", 3)
		none(t, h, "all")
	})
}

func TestTheEventsOfAKeyAreChained(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		var last uint64
		for n := range 20 {
			got := publish(t, h, order("acme", "k", n))[0]
			if got.Prev != last || got.Seq <= last || got.Seq >= 1<<53 {
				t.Fatalf("got seq %d, prev %d after %d", got.Seq, got.Prev, last)
			}
			last = got.Seq
		}
	})
}

func TestEveryTenantGetsItsTurn(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		var events []millrace.Event
		for n := range 200 {
			events = append(events, order("noisy", fmt.Sprint("k", n), n))
		}
		publish(t, h, events...)
		for _, quiet := range []string{"a", "b", "c"} {
			publish(t, h, order(quiet, "k", 1))
		}
		served := map[string]int{}
		for range 60 { // on several lanes a noisy tenant may have a turn in each
			for _, m := range lease(t, h, "all", 1) {
				served[m.Event.Tenant]++
			}
			if served["a"]+served["b"]+served["c"] == 3 {
				return
			}
		}
		t.Errorf("after 60 messages: %v", served)
	})
}

func TestAnExpiredLeaseComesBackAndItsReceiptIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".", func(s *millrace.QueueSpec) { s.Lease = 300 * time.Millisecond })
		publish(t, h, order("acme", "a", 1))
		first := leaseAll(t, h, "all", 1)[0]
		second := leaseAll(t, h, "all", 1)[0] // the reaper brings it back
		if second.Attempt != 2 || second.ID != first.ID || second.Event.Seq != first.Event.Seq || second.Receipt == first.Receipt {
			t.Errorf("got %+v after %+v", second, first)
		}
		r, err := h.Queues().Ack(t.Context(), "all", settlements(first)...)
		if err != nil || r.Settled != 0 || len(r.Lost) != 1 {
			t.Errorf("got %+v %v, want the old receipt lost", r, err)
		}
		if r, err = h.Queues().Extend(t.Context(), "all", time.Minute, second.Receipt); err != nil || r.Settled != 1 {
			t.Fatalf("extend: %+v %v", r, err)
		}
		ack(t, h, "all", second)
		none(t, h, "all")
	})
}

func TestAMessageWhoseAttemptsAreSpentIsADeadLetter(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".", func(s *millrace.QueueSpec) { s.MaxAttempts = 2 })
		publish(t, h, order("acme", "a", 1))
		at := time.Duration(0)
		for attempt := 1; attempt <= 2; attempt++ {
			m := leaseAll(t, h, "all", 1)[0]
			if m.Attempt != attempt {
				t.Fatalf("got attempt %d, want %d", m.Attempt, attempt)
			}
			r, err := h.Queues().Retry(t.Context(), "all", millrace.Settlement{Receipt: m.Receipt, Delay: &at, Error: "boom"})
			if err != nil || r.Settled != 1 || r.Dead != attempt-1 {
				t.Fatalf("got %+v %v", r, err)
			}
		}
		none(t, h, "all")
		q, err := h.Queues().Get(t.Context(), "all")
		if err != nil || q.QueueCounts != (millrace.QueueCounts{Dead: 1}) {
			t.Errorf("got %+v %v", q.QueueCounts, err)
		}
	})
}

func TestARetryComesBackAfterItsDelay(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		publish(t, h, order("acme", "a", 1))
		m := leaseAll(t, h, "all", 1)[0]
		later := 300 * time.Millisecond
		if _, err := h.Queues().Retry(t.Context(), "all", millrace.Settlement{Receipt: m.Receipt, Delay: &later}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		again := leaseAll(t, h, "all", 1)[0]
		if waited := time.Since(began); waited < later/2 || waited > 5*time.Second || again.Attempt != 2 {
			t.Errorf("came back after %v as attempt %d", waited, again.Attempt)
		}
	})
}

func TestBadInputIsRefusedWholeWithEveryFault(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		bad, worse := order("acme", "a", 2), order("acme", "a", 3)
		bad.Tenant, worse.Type = "a:b", ""
		_, err := h.Publish(t.Context(), order("acme", "a", 1), bad, worse)
		var e *millrace.Error
		if !errors.As(err, &e) || e.Code != millrace.CodeInvalid || len(e.Faults) != 2 {
			t.Fatalf("got %v, want two faults", err)
		}
		none(t, h, "all")
		if _, _, err := h.Queues().Put(t.Context(), "bad", millrace.DefaultQueueSpec("[")); !errors.Is(err, millrace.ErrInvalid) {
			t.Errorf("a bad pattern: got %v", err)
		}
		if _, err := h.Queues().Get(t.Context(), "bad"); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("a refused queue: got %v", err)
		}
		if _, err := h.Queues().Lease(t.Context(), "nosuch", millrace.LeaseOptions{}); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("an unknown queue: got %v", err)
		}
	})
}

func TestAWaitingLeaseIsWokenByAPublish(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		const waiters = 5
		var waiting sync.WaitGroup
		took := make(chan time.Time, waiters)
		for range waiters {
			waiting.Go(func() {
				got, err := h.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Wait: 20 * time.Second})
				if err != nil || len(got) != 1 {
					t.Errorf("got %d messages, %v", len(got), err)
				}
				took <- time.Now()
			})
		}
		for n := range waiters {
			time.Sleep(100 * time.Millisecond) // for the waiters to be asleep: nothing tells
			at := time.Now()
			publish(t, h, order("acme", fmt.Sprint("k", n), n))
			if woke := <-took; woke.Sub(at) > 2*time.Second {
				t.Errorf("publish %d woke a waiter after %v", n, woke.Sub(at))
			}
		}
		waiting.Wait()
	})
}

func TestADeletedQueueIsGoneAndANewOneOfItsNameIsEmpty(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ".")
		publish(t, h, order("acme", "a", 1), order("beta", "b", 1))
		m := leaseAll(t, h, "all", 1)[0]
		if err := h.Queues().Delete(t.Context(), "all", true); millrace.CodeOf(err) != millrace.CodeNotEmpty {
			t.Errorf("delete if empty: got %v", err)
		}
		if err := h.Queues().Delete(t.Context(), "all", false); err != nil {
			t.Fatal(err)
		}
		if err := h.Queues().Delete(t.Context(), "all", false); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("delete again: got %v", err)
		}
		h.queue(t, "all", ".")
		none(t, h, "all")
		r, err := h.Queues().Ack(t.Context(), "all", settlements(m)...)
		if err != nil || len(r.Lost) != 1 {
			t.Errorf("an old receipt on the new queue: got %+v %v", r, err)
		}
		publish(t, h, order("acme", "c", 1))
		leaseAll(t, h, "all", 1)
	})
}

func TestTheSameDefinitionAgainChangesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		spec := millrace.DefaultQueueSpec(":orders:")
		first, created, err := h.Queues().Put(t.Context(), "q", spec)
		if err != nil || !created || first.Version != 1 {
			t.Fatalf("got %+v %v %v", first, created, err)
		}
		same, created, err := h.Queues().Put(t.Context(), "q", spec)
		if err != nil || created || same.Version != 1 {
			t.Errorf("the same: got version %d, created %v, %v", same.Version, created, err)
		}
		spec.MaxAttempts = 3
		other, created, err := h.Queues().Put(t.Context(), "q", spec)
		if err != nil || created || other.Version != 2 || other.Spec.MaxAttempts != 3 {
			t.Errorf("another: got %+v, created %v, %v", other, created, err)
		}
	})
}

func TestTopicsAndStatsCountWhatWasPublished(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "all", ":orders:")
		publish(t, h, order("acme", "a", 1), order("beta", "b", 1))
		publish(t, h, order("acme", "a", 1))
		publish(t, h, millrace.Event{Topic: "pages", Type: "view"})
		topic, err := h.Topics().Get(t.Context(), "orders")
		if err != nil || topic.Events != 2 || topic.LastEventAt.IsZero() {
			t.Errorf("got %+v %v", topic, err)
		}
		if topic, err = h.Topics().Put(t.Context(), "orders", "shop"); err != nil || topic.Publisher != "shop" {
			t.Errorf("hand over: got %+v %v", topic, err)
		}
		list, next, err := h.Topics().List(t.Context(), millrace.Page{Limit: 1})
		if err != nil || len(list) != 1 || list[0].Name != "orders" || next == "" {
			t.Errorf("got %+v %q %v", list, next, err)
		}
		list, next, err = h.Topics().List(t.Context(), millrace.Page{Limit: 1, Cursor: next})
		if err != nil || len(list) != 1 || list[0].Name != "pages" || next != "" {
			t.Errorf("got %+v %q %v", list, next, err)
		}
		if err := h.Topics().Delete(t.Context(), "pages"); err != nil {
			t.Error(err)
		}
		if _, err := h.Topics().Get(t.Context(), "pages"); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		s, err := h.Stats(t.Context())
		if err != nil || s.Published != 3 || s.Duplicates != 1 || s.Unrouted != 1 || s.Queues.Ready != 2 {
			t.Errorf("got %+v %v", s, err)
		}
		nodes, err := h.Nodes(t.Context())
		if err != nil || len(nodes) != 1 || len(nodes[0].Roles) != 3 {
			t.Errorf("got %+v %v", nodes, err)
		}
	})
}

func TestWhatWasAnsweredIsThereAfterARestart(t *testing.T) {
	h := &house{store: "embedded:" + t.TempDir(), options: broker.Options{Engine: millrace.EngineOptions{Lanes: 4, Reserve: -1}}}
	b := h.broker(t)
	h.Backbone = b
	h.queue(t, "all", ".")
	first := publish(t, h, order("acme", "a", 1), order("acme", "a", 2), order("beta", "b", 1))
	held := leaseAll(t, h, "all", 2)
	ack(t, h, "all", held[0])
	shut(t, b)
	h.Backbone = h.broker(t)
	q, err := h.Queues().Get(t.Context(), "all")
	if err != nil || q.Ready+q.Leased != 2 {
		t.Errorf("got %+v %v", q.QueueCounts, err)
	}
	ack(t, h, "all", held[1])
	leaseAll(t, h, "all", 1)
	again := publish(t, h, order("acme", "a", 2), order("acme", "a", 3))
	if !again[0].Duplicate || again[0].Seq != first[1].Seq || again[1].Prev != first[1].Seq {
		t.Errorf("got %+v after %+v", again, first)
	}
}

func TestARegistrationOnOneNodeIsObeyedByEveryNode(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		if h.store[:5] != "redis" {
			t.Skip("an embedded store has one node")
		}
		other := h.open(t)
		for n := range 20 {
			name := fmt.Sprint("q", n)
			h.queue(t, name, ".")
			if got := publish(t, other, order("acme", fmt.Sprint("k", n), n))[0].Sinks; got != n+1 {
				t.Fatalf("got %d sinks after %d registrations", got, n+1)
			}
		}
		leaseAll(t, other, "q0", 20)
		none(t, h, "q0")
		nodes, err := h.Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Errorf("got %d nodes, %v", len(nodes), err)
		}
	})
}
