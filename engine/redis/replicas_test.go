package redis_test

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestACommitWaitsForItsReplicasOnAClusterToo(t *testing.T) {
	t.Parallel() // it mostly waits
	c := redistest.Cluster(t, 3)
	plain := withQueue(t, opened(t, c.URL(), millrace.EngineOptions{Lanes: 2}))
	c.AddReplicas()
	e := opened(t, c.URL(), millrace.EngineOptions{WaitReplicas: 1})
	if d := e.Durability(); d != millrace.Replicated {
		t.Errorf("the durability is %s", d)
	}
	for lane := range 2 {
		if _, err := e.Publish(t.Context(), lane, commitOf("acme", "x")); err != nil {
			t.Errorf("lane %d: %v", lane, err)
		}
	}
	const slot = 16*256 + 128
	c.MoveSlot(slot, (c.Owner(slot)+1)%3)
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "y")); err != nil {
		t.Errorf("after the lane moved: %v", err)
	}
	for _, r := range c.Replicas {
		r.Pause()
	}
	_, err := e.Publish(t.Context(), 0, commitOf("acme", "z"))
	wantCode(t, err, millrace.CodeNotReplicated)
	if err := e.Ping(t.Context()); err != nil {
		t.Errorf("the store is not ready because replicas are away: %v", err)
	}
	if n, err := e.Bytes(t.Context()); err != nil || n == 0 {
		t.Errorf("the size without replicas: %d, %v", n, err)
	}
	for want := range 3 {
		got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 1, MaxBytes: 1 << 20, For: time.Minute, Token: millrace.Token{byte(want)}})
		if err != nil || len(got.Messages) != 1 || got.Messages[0].Attempt != 1 {
			t.Errorf("lease %d while replicas are away: %+v, %v", want, got.Messages, err)
		}
	}
	for _, r := range c.Replicas {
		r.Resume()
	}
	if err := plain.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFailoverByASentinelIsLivedThrough(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Sentinel(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "before")); err != nil {
		t.Fatal(err)
	}
	old := s.Master()
	s.Failover()
	if s.Master() == old {
		t.Fatal("the master did not change")
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := e.Publish(t.Context(), 0, commitOf("acme", "after"))
		if err == nil {
			break
		}
		if code := millrace.CodeOf(err); code != millrace.CodeUnavailable && code != millrace.CodeOutcomeUnknown || time.Now().After(deadline) {
			t.Fatalf("after the failover: %v", err)
		}
	}
	got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 10, MaxBytes: 1 << 20, For: time.Minute})
	if err != nil || len(got.Messages) < 2 || string(got.Messages[0].Body) != "before" {
		t.Errorf("leased %d: %v", len(got.Messages), err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
