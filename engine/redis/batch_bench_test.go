package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// BenchmarkBatches measures what events cost Redis on their way to subscriptions, in
// commits of a hundred and batches of a hundred: published, then taken and settled.
// cpu-µs/event is the server's, of one event in one subscription.
func BenchmarkBatches(b *testing.B) {
	for _, n := range []int{1, 20, 100} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) { benchBatches(b, n) })
	}
}

func benchBatches(b *testing.B, n int) {
	s := redistest.Single(b)
	e, err := redis.Open(context.Background(), s.URL(), millrace.EngineOptions{Lanes: 1, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	var a millrace.Apply
	c := millrace.Commit{Events: make([]millrace.CommitEvent, 100)}
	for i := range n {
		uid := fmt.Sprintf("%016x", i)
		a.Subscriptions = append(a.Subscriptions, millrace.SubscriptionSettings{
			UID: uid, Timeout: time.Hour, MaxEvents: 100, MaxBytes: 1 << 20, Concurrency: 64, Format: "events",
		})
		for j := range c.Events {
			c.Events[j].Batches = append(c.Events[j].Batches, uid)
		}
	}
	for j := range c.Events {
		c.Events[j].Tenant, c.Events[j].Topic, c.Events[j].Body = "acme", "orders", make([]byte, 256)
	}
	if _, err := e.Apply(b.Context(), 0, a); err != nil {
		b.Fatal(err)
	}
	var publishing, sending time.Duration
	for b.Loop() {
		start := cpuOf(b, s)
		for range 10 {
			if _, err := e.Publish(b.Context(), 0, c); err != nil {
				b.Fatal(err)
			}
		}
		middle := cpuOf(b, s)
		deliverAll(b, e, 10*n)
		publishing, sending = publishing+middle-start, sending+cpuOf(b, s)-middle
	}
	events := float64(b.N * 10 * n * len(c.Events))
	b.ReportMetric(float64(publishing.Nanoseconds())/1000/events, "publish-cpu-µs/event")
	b.ReportMetric(float64(sending.Nanoseconds())/1000/events, "deliver-cpu-µs/event")
}

// deliverAll takes batches, up to 16 at a time, and says that they were sent.
func deliverAll(b *testing.B, e *redis.Engine, batches int) {
	for batches > 0 {
		token := millrace.Token{1}
		got, err := e.Take(b.Context(), 0, millrace.Take{Max: 16, MaxBytes: 1 << 30, For: time.Hour, Token: token})
		if err != nil || len(got.Batches) == 0 {
			b.Fatalf("took %d of %d: %v", len(got.Batches), batches, err)
		}
		var o millrace.Outcomes
		for _, t := range got.Batches {
			o.Items = append(o.Items, millrace.Outcome{Subscription: t.Subscription, Name: t.Name, Token: token, OK: true, Log: make([]byte, 200)})
		}
		if _, err := e.SettleBatches(b.Context(), 0, o); err != nil {
			b.Fatal(err)
		}
		batches -= len(got.Batches)
	}
}
