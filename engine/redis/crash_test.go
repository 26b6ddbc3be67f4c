package redis_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// trial is a store under load whose servers are about to suffer.
type trial struct {
	*testing.T
	engine *redis.Engine
	load   *enginetest.Load
}

func newTrial(t *testing.T, url string, o millrace.EngineOptions) *trial {
	t.Helper()
	o.Logger = quiet
	e, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := enginetest.Prepare(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return &trial{T: t, engine: e, load: &enginetest.Load{Engine: e, Ledger: enginetest.NewLedger(), Name: "load", Pace: 2 * time.Millisecond}}
}

// through runs the load while the servers suffer, and judges the store by it.
func (tr *trial) through(faults func()) enginetest.History {
	tr.Helper()
	h := enginetest.Through(tr.Context(), tr.load, faults)
	for _, op := range []string{"publish", "lease", "settle", "take", "outcome"} {
		if n := h.Acknowledged(op); n < 20 {
			tr.Errorf("only %d calls of %s were acknowledged: there is too little to judge", n, op)
		}
	}
	if err := enginetest.Audit(context.Background(), tr.engine, h); err != nil {
		tr.Error(err)
	}
	return h
}

// outcomes counts the calls of a history by how they ended. A cancel that came too late is
// refused by the operation, whatever the servers suffer: it does not count.
func outcomes(h enginetest.History) map[enginetest.Phase]int {
	n := map[enginetest.Phase]int{}
	for _, e := range h {
		if e.Op != "cancel" || e.Phase != enginetest.Refused {
			n[e.Phase]++
		}
	}
	return n
}

func TestARedisKilledUnderLoadLosesNothingAcknowledged(t *testing.T) {
	s := redistest.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	tr := newTrial(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	if d := tr.engine.Durability(); d != millrace.Fsync {
		t.Fatalf("the durability is %s", d)
	}
	pid, kills := s.Pid(), 0
	h := tr.through(func() {
		for range 5 {
			<-time.After(300 * time.Millisecond)
			s.Kill()
			s.Restart()
			kills++
		}
		<-time.After(500 * time.Millisecond)
	})
	if s.Pid() == pid || kills != 5 {
		t.Error("the server was never killed")
	}
	t.Logf("outcomes: %v", outcomes(h))
}

func TestAFlushOfTheScriptsUnderLoadIsSeenByNobody(t *testing.T) {
	s := redistest.Single(t)
	tr := newTrial(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	flushes := 0
	h := tr.through(func() {
		for range 30 {
			<-time.After(50 * time.Millisecond)
			s.Do("SCRIPT", "FLUSH")
			flushes++
		}
	})
	n := outcomes(h)
	if n[enginetest.Refused]+n[enginetest.Uncertain]+n[enginetest.Forbidden] > 0 || flushes == 0 {
		t.Errorf("outcomes: %v after %d flushes", n, flushes)
	}
}

// TestAServerPausedPastTheTimeoutLosesNothingAcknowledged freezes a server for
// longer than a caller waits for its answer.
func TestAServerPausedPastTheTimeoutLosesNothingAcknowledged(t *testing.T) {
	s := redistest.Single(t)
	tr := newTrial(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	tr.load.Timeout = time.Second
	h := tr.through(func() {
		<-time.After(300 * time.Millisecond)
		s.Pause()
		tr.awaitUncertain()
		s.Resume()
		<-time.After(500 * time.Millisecond)
	})
	t.Logf("outcomes: %v", outcomes(h))
}

// awaitUncertain waits until the load has seen a call whose outcome nobody knows.
func (tr *trial) awaitUncertain() {
	tr.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for outcomes(tr.load.Ledger.History())[enginetest.Uncertain] == 0 {
		if time.Now().After(deadline) {
			tr.Error("no call met the fault")
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func TestNothingIsAcknowledgedWhileTheReplicaIsFrozen(t *testing.T) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	tr := newTrial(t, master.URL(), millrace.EngineOptions{Lanes: 1, WaitReplicas: 1})
	frozen, thawed := 0, 0
	h := tr.through(func() {
		<-time.After(300 * time.Millisecond)
		replica.Pause()
		frozen = tr.load.Ledger.Len()
		tr.awaitUncertain()
		thawed = tr.load.Ledger.Len()
		replica.Resume()
		<-time.After(500 * time.Millisecond)
	})
	invoked := map[string]bool{}
	for _, e := range h[frozen:thawed] {
		if e.Phase == enginetest.Invoked && e.Op == "publish" {
			invoked[e.Call] = true
		}
		if e.Phase == enginetest.Done && invoked[e.Call] {
			t.Errorf("publish %s was acknowledged while the replica was frozen", e.Call)
		}
	}
	if len(invoked) == 0 {
		t.Error("nothing was published while the replica was frozen")
	}
	t.Logf("outcomes: %v", outcomes(h))
}

// TestASlotMovedUnderLoadIsSeenByNobody moves the slot of every lane to another master and on.
func TestASlotMovedUnderLoadIsSeenByNobody(t *testing.T) {
	c := redistest.Cluster(t, 3)
	tr := newTrial(t, c.URL(), millrace.EngineOptions{Lanes: 4})
	slots := slotsOf(t, c)
	if len(slots) < 4 {
		t.Fatalf("the store lies in %d slots, want one for each lane at least", len(slots))
	}
	moves := 0
	h := tr.through(func() {
		<-time.After(200 * time.Millisecond)
		for range 2 {
			for slot := range slots {
				c.MoveSlot(slot, (c.Owner(slot)+1)%len(c.Servers))
				moves++
			}
		}
		<-time.After(300 * time.Millisecond)
	})
	n := outcomes(h)
	if n[enginetest.Refused]+n[enginetest.Uncertain]+n[enginetest.Forbidden] > 0 || moves == 0 {
		t.Errorf("outcomes: %v after %d moves", n, moves)
	}
	t.Logf("outcomes: %v after %d moves", n, moves)
}

// slotsOf are the slots that hold anything.
func slotsOf(t *testing.T, c *redistest.Nodes) map[int]bool {
	t.Helper()
	slots := map[int]bool{}
	for _, s := range c.Servers {
		reply, err := s.Call("KEYS", "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range reply.([]any) {
			slot, err := strconv.Atoi(s.Do("CLUSTER", "KEYSLOT", key.(string)))
			if err != nil {
				t.Fatal(err)
			}
			slots[slot] = true
		}
	}
	return slots
}
