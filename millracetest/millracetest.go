// Package millracetest gives a program's own tests a whole backbone: in memory,
// started in milliseconds, gone when the test ends.
package millracetest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
)

// patience is how long a condition is waited for before a test fails.
const patience = 30 * time.Second

// New starts a backbone on a memory: store of its own. It logs warnings to the
// test, and is closed when the test ends.
func New(t testing.TB) *broker.Broker {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, err := broker.Open(t.Context(), "memory:", broker.Options{Logger: log})
	if err != nil {
		t.Fatalf("open a backbone in memory: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close the backbone: %v", err)
		}
	})
	return b
}

// Serve serves a backbone over HTTP on a free loopback port and returns its URL,
// for client.New or any other program. It stops when the test ends.
func Serve(t testing.TB, b *broker.Broker) (url string) {
	t.Helper()
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	t.Cleanup(server.Close)
	return server.URL
}

// Queue defines a queue with the usual settings.
func Queue(t testing.TB, b millrace.Backbone, name, match string) {
	t.Helper()
	if _, _, err := b.Queues().Put(t.Context(), name, millrace.DefaultQueueSpec(match)); err != nil {
		t.Fatalf("define queue %s: %v", name, err)
	}
}

// WaitSettled returns when nothing in a queue waits, is leased or is delayed: each
// message was acknowledged or is a dead letter. It fails the test after 30 s.
func WaitSettled(t testing.TB, b millrace.Backbone, queue string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		q, err := b.Queues().Get(ctx, queue)
		if err != nil {
			t.Fatalf("look at queue %s: %v", queue, err)
		}
		if q.Ready+q.Leased+q.Delayed == 0 {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("queue %s still has %d ready, %d leased, %d delayed", queue, q.Ready, q.Leased, q.Delayed)
		}
	}
}
