package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-dev/millrace"
)

// ears remembers what an observer is told.
type ears struct {
	mu   sync.Mutex
	told []string
}

func (e *ears) hear(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprintf(format, args...))
}

func (e *ears) Published(stored, unrouted, duplicates int) {
	e.hear("published %d %d %d", stored, unrouted, duplicates)
}
func (e *ears) Leased(queue string, n int) { e.hear("leased %s %d", queue, n) }
func (e *ears) Settled(queue string, v millrace.Verb, r millrace.SettleResult) {
	e.hear("settled %s %c %d %d %d", queue, v, r.Settled, r.Dead, len(r.Lost))
}

func (e *ears) Delivered(d Delivered) {
	e.hear("delivered %s %s %d %d", d.Subscription, d.Outcome, d.Attempt, len(d.Ages))
}

// want checks what was told since it was last asked.
func (e *ears) want(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if diff := cmp.Diff(want, e.told); diff != "" {
		t.Error(diff)
	}
	e.told = nil
}

func TestAnObserverIsToldWhatWasDoneAndNothingElse(t *testing.T) {
	engine, e := openMemory(t, 2), &ears{}
	b := start(t, engine, e)
	define(t, b, "q", ":orders:")
	keys := keysOf(2)
	engine.refuse[1] = millrace.Errorf(millrace.CodeUnavailable, "no")
	if _, err := b.Publish(t.Context(), keyed(keys[0]), keyed(keys[1])); millrace.CodeOf(err) != millrace.CodePartlyCommitted {
		t.Fatal(err)
	}
	e.want(t, "published 1 0 0")
	if _, err := b.Publish(t.Context(), keyed(keys[1])); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Fatal(err)
	}
	if _, err := b.Queues().Lease(t.Context(), "nothing", millrace.LeaseOptions{}); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Fatal(err)
	}
	if _, err := b.Queues().Ack(t.Context(), "nothing", millrace.Settlement{Receipt: "x"}); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Fatal(err)
	}
	e.want(t)
	messages, err := b.Queues().LeaseAny(t.Context(), map[string]int{"q": 1}, millrace.LeaseOptions{Max: 5, Wait: 20 * time.Second})
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	if _, err := b.Queues().Bury(t.Context(), "q", millrace.Settlement{Receipt: messages[0].Receipt}, millrace.Settlement{Receipt: "x"}); err != nil {
		t.Fatal(err)
	}
	e.want(t, "leased q 1", "settled q b 1 0 1")
}

func TestAnObservationAddsUpTheLanes(t *testing.T) {
	b := start(t, openMemory(t, 4))
	define(t, b, "b", ":orders:")
	define(t, b, "a", "nothing")
	for _, key := range keysOf(4) {
		if _, err := b.Publish(t.Context(), keyed(key)); err != nil {
			t.Fatal(err)
		}
	}
	o, err := b.Observe(t.Context())
	if err != nil || len(o.Queues) != 2 || o.Bytes <= 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	if a, b := o.Queues[0], o.Queues[1]; a.Name != "a" || a.Ready != 0 || b.Name != "b" || b.Ready != 4 || b.UID == a.UID {
		t.Errorf("got %+v", o.Queues)
	}
}

// BenchmarkPublish is one event into one queue, in memory: as it is, with the
// provider that does nothing, and in a caller's trace, which the event then carries.
func BenchmarkPublish(b *testing.B) {
	traced := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	for _, c := range []struct {
		name string
		ctx  context.Context
		o    Options
	}{
		{"plain", context.Background(), Options{}},
		{"noop", context.Background(), Options{TracerProvider: noop.NewTracerProvider()}},
		{"carried", traced, Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.o.Logger = slog.New(slog.DiscardHandler)
			node, err := Open(b.Context(), "memory:", c.o)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = node.Close(context.Background()) }()
			if _, _, err := node.Queues().Put(b.Context(), "q", millrace.DefaultQueueSpec(".")); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := node.Publish(c.ctx, millrace.Event{Topic: "orders", Type: "created", Tenant: "acme"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
