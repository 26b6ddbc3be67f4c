package acceptance

import (
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"time"

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
	awaitReplica(t, master)
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

// awaitReplica waits until the replica has said that it has everything.
func awaitReplica(t *testing.T, master *redistest.Server) {
	t.Helper()
	said := regexp.MustCompile(`(?s)slave0:.*?,offset=(\d+),.*master_repl_offset:(\d+)`)
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
		info := master.Do("INFO", "replication")
		if m := said.FindStringSubmatch(info); m != nil && m[1] == m[2] {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica lags behind: %s", info)
		}
	}
}

// useManyConnections publishes and leases from many goroutines at once.
func useManyConnections(t *testing.T, b millrace.Backbone) {
	t.Helper()
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 20 {
				_, failed := b.Publish(t.Context(), millrace.Event{Topic: "orders", Type: "created"})
				leased, err := b.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Max: 5})
				if failed != nil || err != nil {
					t.Errorf("publish: %v; lease: %v", failed, err)
					return
				}
				if _, err := b.Queues().Ack(t.Context(), "all", settlements(leased...)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
}
