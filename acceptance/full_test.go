package acceptance

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestAFullStoreRefusesEventsAndStillDelivers(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		stillDelivers(t, "embedded:"+t.TempDir(), func(h *house) {
			shut(t, h.Backbone.(*broker.Broker))
			h.options.Engine.Reserve = 1 << 60 // more than any disk has
			h.Backbone = h.broker(t)
		})
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Single(t, "--maxmemory-policy", "noeviction")
		stillDelivers(t, server.URL(), func(*house) { server.Do("CONFIG", "SET", "maxmemory", "1mb") }) // it has more than that
	})
}

// stillDelivers fills a store while a receiver is away.
func stillDelivers(t *testing.T, store string, fill func(*house)) {
	h := &house{store: store, options: broker.Options{
		Logger: slog.New(slog.DiscardHandler), Engine: millrace.EngineOptions{Lanes: 1, Reserve: -1},
		MaxBytes: 1 << 60, // a Redis' own bound would have batches dropped
	}}
	allowLoopback(h)
	h.Backbone = h.broker(t)
	r := newReceiver(t, dead)
	h.subscribe(t, r)
	publish(t, h, burst("acme", 10)...)
	fill(h)
	if _, err := h.Publish(t.Context(), order("acme", "late", 1)); millrace.CodeOf(err) != millrace.CodeStoreFull {
		t.Errorf("got %v, want the event refused", err)
	}
	before := h.shop(t).Failed
	eventually(t, "failures are recorded", func() bool { return h.shop(t).Failed >= before+2 })
	r.answers(nil)
	eventually(t, "what it holds is delivered", func() bool { s := h.shop(t); return s.Sent == 10 && s.Queued == 0 })
	if slices.ContainsFunc(r.taken(), func(e pushed) bool { return e.Key == "late" }) {
		t.Error("a refused event was delivered")
	}
}
