package metrics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
	"github.com/millrace-dev/millrace/metrics"
)

// BenchmarkCounting is what is counted of one event that is published by one
// request, leased and acked.
func BenchmarkCounting(b *testing.B) {
	m := metrics.New(metrics.Options{Logger: quiet()})
	b.ReportAllocs()
	for b.Loop() {
		m.Published(1, 0, 0)
		m.Request("POST /v1/topics/{topic}/events", 200, time.Millisecond)
		m.Leased("emails", 1)
		m.Settled("emails", millrace.Ack, millrace.SettleResult{Settled: 1})
	}
}

// BenchmarkReading is one reading of a store with 100 queues in 8 lanes.
func BenchmarkReading(b *testing.B) {
	for name, store := range map[string]func() string{
		"memory": func() string { return "memory:" },
		"redis":  func() string { return redistest.Single(b).URL() },
	} {
		b.Run(name, func(b *testing.B) {
			node, err := broker.Open(b.Context(), store(), broker.Options{Logger: quiet(), Engine: millrace.EngineOptions{Lanes: 8}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = node.Close(b.Context()) }()
			for i := range 100 {
				if _, _, err := node.Queues().Put(b.Context(), fmt.Sprint("q-", i), millrace.DefaultQueueSpec(".")); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if o, err := node.Observe(b.Context()); err != nil || len(o.Queues) != 100 {
					b.Fatalf("%d queues, %v", len(o.Queues), err)
				}
			}
		})
	}
}
