package acceptance

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestAStoreThatNearsItsBoundDropsTheOldestBatchesAndNoMoreThanItMust(t *testing.T) {
	t.Parallel() // most of it is waiting for the next look at the store's size
	engines(t, func(t *testing.T, h *house) {
		if h.store[0] == 'r' {
			h.store = redistest.Single(t).URL() // its size is that of all it holds
		}
		h.options.Engine.Lanes = 1
		allowLoopback(h)
		r := newReceiver(t, nil)
		const events = 200
		full := fillUp(t, h, r, events)
		h.options.MaxBytes = full * 100 / 90
		h.Backbone = h.broker(t)
		eventually(t, "it has dropped enough", func() bool { return percent(t, h) <= 75 })
		if now := percent(t, h); now < 65 {
			t.Errorf("%.1f%% are left of 90%%", now)
		}
		if err := h.Subscriptions().Resume(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the rest arrives", func() bool { return h.shop(t).Queued == 0 })
		s := h.shop(t)
		if s.Dropped < events/10 || s.Dropped > events/3 || s.Dropped+s.Sent != events {
			t.Errorf("%d of %d events were dropped and %d sent", s.Dropped, events, s.Sent)
		}
		arrived(t, r, int(s.Dropped), events)
		leaseAll(t, h, "kept", 20)
	})
}

// fillUp gives a paused subscription events of 100 kB, one a batch, and a queue some others; it
// returns how large the store is then.
func fillUp(t *testing.T, h *house, r *receiver, events int) int64 {
	t.Helper()
	b := h.broker(t)
	h.Backbone = b
	h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.MaxEvents, s.Ordered = 1, true })
	if err := h.Subscriptions().Pause(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	h.queue(t, "kept", ":bills:")
	noise := make([]byte, 75_000) // that no engine can compress
	for i := range events {
		_, _ = rand.Read(noise) // it never fails
		e := order("acme", "a", i)
		e.ID, e.Data = strconv.Itoa(i), fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(noise))
		publish(t, h, e)
	}
	for i := range 20 {
		publish(t, h, millrace.Event{ID: strconv.Itoa(i), Topic: "bills", Type: "sent"})
	}
	s, err := h.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shut(t, b)
	return s.Bytes
}

// percent is how much of its bound a store has.
func percent(t *testing.T, h *house) float64 {
	t.Helper()
	s, err := h.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return float64(s.Bytes) * 100 / float64(h.options.MaxBytes)
}

// arrived checks that exactly the events from one number to another have come, in their order.
func arrived(t *testing.T, r *receiver, from, to int) {
	t.Helper()
	got := r.taken()
	if len(got) != to-from {
		t.Fatalf("%d events arrived, want %d", len(got), to-from)
	}
	for i, e := range got {
		if e.ID != strconv.Itoa(from+i) {
			t.Fatalf("event %s is number %d of those that arrived, want %d", e.ID, i, from+i)
		}
	}
}
