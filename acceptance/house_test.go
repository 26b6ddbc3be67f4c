// Package acceptance proves the guarantees as a user meets them: through the
// library and over HTTP, on both engines.
package acceptance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/engine"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(doomedStore) != "" {
		os.Exit(runDoomed())
	}
	code := m.Run()
	for _, stop := range servers.stop {
		stop()
	}
	// The Redis client closes connections that it has no use for any more 5 s late, and does not say when.
	late := goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2")
	if err := goleak.Find(late); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// servers are the Redis servers that all tests share, started when first needed.
var servers struct {
	mu   sync.Mutex
	urls map[string]string
	stop []func()
}

// shared returns the URL of a kind of server that is started once.
func shared(t *testing.T, kind string, start func(dir func() string) (url string, stop func(), err error)) string {
	t.Helper()
	if os.Getenv("MILLRACE_NO_REDIS") == "1" {
		t.Skip("MILLRACE_NO_REDIS=1")
	}
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if url, ok := servers.urls[kind]; ok {
		return url
	}
	url, stop, err := start(func() string {
		dir, err := os.MkdirTemp("", "millrace-redis-")
		if err != nil {
			t.Fatal(err)
		}
		servers.stop = append(servers.stop, func() { _ = os.RemoveAll(dir) })
		return dir
	})
	if err != nil {
		t.Fatal(err)
	}
	if servers.urls == nil {
		servers.urls = map[string]string{}
	}
	servers.urls[kind] = url
	servers.stop = append([]func(){stop}, servers.stop...)
	return url
}

func redis(t *testing.T) string {
	return shared(t, "redis", func(dir func() string) (string, func(), error) {
		s, err := redistest.Start(dir())
		if err != nil {
			return "", nil, err
		}
		return s.URL(), s.Stop, nil
	})
}

func cluster(t *testing.T) string {
	return shared(t, "cluster", func(dir func() string) (string, func(), error) {
		c, err := redistest.StartCluster(3, dir)
		if err != nil {
			return "", nil, err
		}
		return c.URL(), c.Stop, nil
	})
}

// house is one store and a way to it.
type house struct {
	millrace.Backbone
	store   string
	options broker.Options
	http    bool
	wrap    func(millrace.Engine) millrace.Engine // what the broker is given in the engine's place
}

// namespaces keeps the houses on one Redis apart.
var namespaces atomic.Int64

// everywhere runs a test over {library, HTTP} × {embedded, one Redis, Cluster}.
func everywhere(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	everywhereAs(t, func(*house) {}, test)
}

// everywhereAs is everywhere with houses that are prepared before they are opened.
func everywhereAs(t *testing.T, prepare func(*house), test func(t *testing.T, h *house)) {
	t.Helper()
	stores := map[string]func(t *testing.T) (string, int){
		"embedded": func(t *testing.T) (string, int) { return "embedded:" + t.TempDir(), 1 },
		"redis":    func(t *testing.T) (string, int) { return redis(t), 1 },
		"cluster":  func(t *testing.T) (string, int) { return cluster(t), 8 },
	}
	for _, engine := range []string{"embedded", "redis", "cluster"} {
		t.Run(engine, func(t *testing.T) {
			store, lanes := stores[engine](t)
			for _, way := range []string{"library", "http"} {
				if engine == "embedded" && way == "http" {
					store = "embedded:" + t.TempDir()
				}
				t.Run(way, func(t *testing.T) {
					h := &house{store: store, http: way == "http", options: broker.Options{
						Logger: slog.New(slog.DiscardHandler),
						Engine: millrace.EngineOptions{Lanes: lanes, Namespace: fmt.Sprintf("t%d", namespaces.Add(1)), Reserve: -1},
					}}
					prepare(h)
					h.Backbone = h.open(t)
					test(t, h)
				})
			}
		})
	}
}

// open opens the store once more: another node, or the same after a restart.
func (h *house) open(t *testing.T) millrace.Backbone {
	t.Helper()
	b := h.broker(t)
	if !h.http {
		return b
	}
	return serve(t, b)
}

func (h *house) broker(t *testing.T) *broker.Broker {
	t.Helper()
	e, err := engine.Open(t.Context(), h.store, h.options.Engine)
	if err != nil {
		t.Fatal(err)
	}
	if h.wrap != nil {
		e = h.wrap(e)
	}
	b, err := broker.New(t.Context(), e, h.options)
	if err != nil {
		t.Fatal(errors.Join(err, e.Close()))
	}
	t.Cleanup(func() { shut(t, b) })
	return b
}

func shut(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// serve offers a broker over HTTP and returns a client of it.
func serve(t *testing.T, b *broker.Broker) millrace.Backbone {
	t.Helper()
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{Logger: slog.New(slog.DiscardHandler)}))
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); server.Close() })
	return c
}

// queue defines a queue.
func (h *house) queue(t *testing.T, name, match string, change ...func(*millrace.QueueSpec)) {
	t.Helper()
	spec := millrace.DefaultQueueSpec(match)
	for _, f := range change {
		f(&spec)
	}
	if _, _, err := h.Queues().Put(t.Context(), name, spec); err != nil {
		t.Fatal(err)
	}
}

// publish publishes events that must be taken.
func publish(t *testing.T, b millrace.Backbone, events ...millrace.Event) []millrace.Published {
	t.Helper()
	out, err := b.Publish(t.Context(), events...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lease takes up to max messages, waiting a while for the first.
func lease(t *testing.T, b millrace.Backbone, queue string, max int) []millrace.Message {
	t.Helper()
	out, err := b.Queues().Lease(t.Context(), queue, millrace.LeaseOptions{Max: max, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// leaseAll takes messages until there are n.
func leaseAll(t *testing.T, b millrace.Backbone, queue string, n int) []millrace.Message {
	t.Helper()
	var out []millrace.Message
	for len(out) < n {
		got := lease(t, b, queue, n-len(out))
		if len(got) == 0 {
			t.Fatalf("got %d messages of %s, want %d", len(out), queue, n)
		}
		out = append(out, got...)
	}
	return out
}

// none checks that a queue has nothing to lease now.
func none(t *testing.T, b millrace.Backbone, queue string) {
	t.Helper()
	got, err := b.Queues().Lease(t.Context(), queue, millrace.LeaseOptions{Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Fatalf("got %d messages of %s, want none: %+v", len(got), queue, got)
	}
}

func settlements(messages ...millrace.Message) []millrace.Settlement {
	out := make([]millrace.Settlement, len(messages))
	for i, m := range messages {
		out[i].Receipt = m.Receipt
	}
	return out
}

func ack(t *testing.T, b millrace.Backbone, queue string, messages ...millrace.Message) {
	t.Helper()
	r, err := b.Queues().Ack(t.Context(), queue, settlements(messages...)...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Settled != len(messages) || len(r.Lost) != 0 {
		t.Fatalf("got %+v, want %d settled", r, len(messages))
	}
}

// engines runs a test on each engine, with a house that is not open yet.
func engines(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	for _, engine := range []string{"embedded", "redis"} {
		t.Run(engine, func(t *testing.T) {
			store := "embedded:" + t.TempDir()
			if engine == "redis" {
				store = redis(t)
			}
			test(t, &house{store: store, options: broker.Options{
				Logger: slog.New(slog.DiscardHandler),
				Engine: millrace.EngineOptions{Namespace: fmt.Sprintf("t%d", namespaces.Add(1)), Reserve: -1},
			}})
		})
	}
}
