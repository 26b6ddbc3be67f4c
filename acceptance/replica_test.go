package acceptance

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// The connections are many and used by then: a WAIT that went down another one
// than its commit would be satisfied by what that one had written before.
func TestACommitThatNoReplicaHasIsNotAcknowledgedAndItsRepeatIsSafe(t *testing.T) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	b, err := broker.Open(t.Context(), master.URL(), broker.Options{
		Engine: millrace.EngineOptions{WaitReplicas: 1}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	if _, _, err := b.Queues().Put(t.Context(), "all", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	useManyConnections(t, b)
	replica.Pause()
	last := order("acme", "k", 1)
	_, err = b.Publish(t.Context(), last)
	if code := millrace.CodeOf(err); code != millrace.CodeNotReplicated {
		t.Errorf("got %v, want %s", err, millrace.CodeNotReplicated)
	}
	replica.Resume()
	if got := publish(t, b, last)[0]; !got.Duplicate {
		t.Errorf("the repeat was stored again: %+v", got)
	}
}

// useManyConnections publishes and leases from many goroutines at once.
func useManyConnections(t *testing.T, b millrace.Backbone) {
	t.Helper()
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 20 {
				publish(t, b, millrace.Event{Topic: "orders", Type: "created"})
				ack(t, b, "all", lease(t, b, "all", 5)...)
			}
		})
	}
	users.Wait()
}
