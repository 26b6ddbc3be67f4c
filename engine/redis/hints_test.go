package redis_test

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// awaitHint waits for a hint of a kind.
func awaitHint(t *testing.T, hints <-chan millrace.Hint, kind millrace.HintKind) millrace.Hint {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case h := <-hints:
			if h.Kind == kind {
				return h
			}
		case <-deadline:
			t.Fatalf("no hint of kind %d came", kind)
		}
	}
}

func TestANodeHearsOfWhatAnotherDoes(t *testing.T) {
	for name, url := range map[string]string{"one": redistest.Single(t).URL(), "cluster": redistest.Cluster(t, 3).URL()} {
		t.Run(name, func(t *testing.T) {
			doer := withQueue(t, opened(t, url, millrace.EngineOptions{Lanes: 4}))
			hearer := opened(t, url, millrace.EngineOptions{})
			hints := make(chan millrace.Hint, 1000)
			stop := hearer.Watch(func(h millrace.Hint) { hints <- h })
			defer stop()
			for range 5 { // each lane's channel and the registry's
				awaitHint(t, hints, millrace.HintAll)
			}
			const lane = 3
			l := millrace.Lease{Queue: testQueue, Max: 1, MaxBytes: 1, For: time.Minute}
			if _, err := doer.Lease(t.Context(), lane, l); err != nil {
				t.Fatal(err)
			}
			if _, err := doer.Publish(t.Context(), lane, commitOf("acme", "x")); err != nil {
				t.Fatal(err)
			}
			if h := awaitHint(t, hints, millrace.HintQueue); h.Lane != lane || h.Queue != testQueue {
				t.Errorf("got %+v", h)
			}
			if _, err := doer.Lease(t.Context(), lane, l); err != nil {
				t.Fatal(err)
			}
			if h := awaitHint(t, hints, millrace.HintDue); h.Lane != lane || h.In != time.Minute {
				t.Errorf("got %+v", h)
			}
			if _, err := doer.RaiseVersion(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			awaitHint(t, hints, millrace.HintRegistry)
		})
	}
}

func TestASubscriptionThatWasLostCountsAsAHintForAll(t *testing.T) {
	s := redistest.Single(t)
	e := opened(t, s.URL(), millrace.EngineOptions{})
	hints := make(chan millrace.Hint, 1000)
	stop := e.Watch(func(h millrace.Hint) { hints <- h })
	defer stop()
	awaitHint(t, hints, millrace.HintAll)
	awaitHint(t, hints, millrace.HintAll)
	s.Do("CLIENT", "KILL", "TYPE", "normal")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	awaitHint(t, hints, millrace.HintAll)
}

func TestALaneThatMovedIsHeardAgain(t *testing.T) {
	c := redistest.Cluster(t, 3)
	e := withQueue(t, opened(t, c.URL(), millrace.EngineOptions{Lanes: 1}))
	hints := make(chan millrace.Hint, 1000)
	stop := e.Watch(func(h millrace.Hint) { hints <- h })
	defer stop()
	awaitHint(t, hints, millrace.HintAll)
	awaitHint(t, hints, millrace.HintAll)
	const slot = 32*256 + 128
	c.MoveSlot(slot, (c.Owner(slot)+1)%3)
	awaitHint(t, hints, millrace.HintAll)
	if _, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 1, MaxBytes: 1, For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "x")); err != nil {
		t.Fatal(err)
	}
	awaitHint(t, hints, millrace.HintQueue)
}

func TestAnIdleNodeCostsNextToNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Single(t)
	e := opened(t, s.URL(), millrace.EngineOptions{})
	stop := e.Watch(func(millrace.Hint) {})
	defer stop()
	if err := e.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.Info("total_commands_processed")
	<-time.After(3 * time.Second) // idleness has no condition to wait for
	after := s.Info("total_commands_processed")
	if n := number(t, after) - number(t, before); n > 3 { // one of them is the INFO itself
		t.Errorf("%d commands in 3 s", n)
	}
}
