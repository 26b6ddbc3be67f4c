package acceptance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// The bounds are loose: on a machine that does nothing else a quiet tenant waits
// at most 1.5 times as long beside a noisy one; here others run too.
const (
	quietTenants  = 99
	mostQuietTime = 50 * time.Millisecond
	mostQuietRise = 3.0
	quietTries    = 3
)

func TestANoisyTenantDoesNotSlowTheQuietOnes(t *testing.T) {
	backlog, span := 100_000, 2*time.Second
	if long() {
		backlog, span = 1_000_000, 20*time.Second
	}
	engines(t, func(t *testing.T, h *house) {
		h.Backbone = h.open(t)
		h.queue(t, "calm", ":calm:")
		h.queue(t, "loud", ":loud:")
		for try := 1; ; try++ {
			pile(t, h, "loud", backlog-int(counts(t, h, "loud").Ready))
			calm, loud := quietP99(t, h, "calm", span), quietP99(t, h, "loud", span)
			rise := float64(loud) / float64(calm)
			t.Logf("p99 from publish to lease: %v alone, %v beside %d waiting: %.2f times", calm, loud, backlog, rise)
			if rise <= mostQuietRise || loud <= mostQuietTime {
				break
			}
			if try == quietTries {
				t.Fatalf("quiet tenants wait %.1f times as long beside a noisy one, want at most %.0f times", rise, mostQuietRise)
			}
		}
		if left := counts(t, h, "loud").Ready; left == 0 {
			t.Error("the noisy tenant was served to its end: it disturbed nobody")
		}
	})
}

// pile lets a noisy tenant have messages waiting.
func pile(t *testing.T, h *house, queue string, n int) {
	t.Helper()
	events := make([]millrace.Event, 1000)
	for i := range events {
		events[i] = millrace.Event{Tenant: "noisy", Topic: queue, Type: "x", Data: []byte(`{}`)}
	}
	for range n / len(events) {
		publish(t, h, events...)
	}
}

// quietP99 publishes for the quiet tenants at a steady rate while consumers take
// what is there, and returns the time within which 99 of 100 events were leased.
func quietP99(t *testing.T, h *house, queue string, span time.Duration) time.Duration {
	t.Helper()
	const consumers, every = 2, 5 * time.Millisecond
	began, got := time.Now(), newArrivals()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range consumers {
		wg.Go(func() { consumeQuiet(ctx, t, h, queue, got) })
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	sent := 0
	for ; time.Since(began) < span; <-tick.C {
		event := millrace.Event{ID: fmt.Sprintf("%s-%d-%d", queue, began.UnixNano(), sent), Tenant: fmt.Sprint("quiet", sent%quietTenants), Topic: queue, Type: "x"}
		got.sent(event.ID)
		publish(t, h, event)
		sent++
	}
	for until := time.Now().Add(20 * time.Second); got.len() < sent; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Errorf("%d of %d events of quiet tenants arrived", got.len(), sent)
			break
		}
	}
	cancel()
	wg.Wait()
	return got.p99()
}

// consumeQuiet leases and acks until ctx ends.
func consumeQuiet(ctx context.Context, t *testing.T, h *house, queue string, got *arrivals) {
	for ctx.Err() == nil {
		messages, err := h.Queues().Lease(ctx, queue, millrace.LeaseOptions{Max: 10, Wait: 5 * time.Second})
		now := time.Now()
		if err != nil || len(messages) == 0 {
			continue
		}
		for _, m := range messages {
			if m.Event.Tenant != "noisy" {
				got.leased(m.Event.ID, now)
			}
		}
		if _, err := h.Queues().Ack(context.WithoutCancel(ctx), queue, settlements(messages...)...); err != nil {
			t.Error(err)
			return
		}
	}
}

// arrivals is when events were published and how long they took.
type arrivals struct {
	mu    sync.Mutex
	since map[string]time.Time
	took  []time.Duration
}

func newArrivals() *arrivals { return &arrivals{since: map[string]time.Time{}} }

func (a *arrivals) sent(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since[id] = time.Now()
}

func (a *arrivals) leased(id string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, at.Sub(a.since[id]))
}

func (a *arrivals) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.took)
}

func (a *arrivals) p99() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.took)
	return a.took[len(a.took)*99/100]
}
