package broker

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
)

func TestAGateThatIsClosedLetsNobodyInAndWaitsForThoseInside(t *testing.T) {
	g := newGate()
	for range 100 {
		if err := g.enter(); err != nil {
			t.Fatal(err)
		}
	}
	g.close()
	if err := g.enter(); !errors.Is(err, millrace.ErrDraining) {
		t.Errorf("got %v", err)
	}
	var leaving sync.WaitGroup
	for range 100 {
		leaving.Go(g.leave)
	}
	if err := g.wait(t.Context()); err != nil {
		t.Error(err)
	}
	leaving.Wait()
}

func TestWhoeverWaitsAtAGateInVainLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g := newGate()
	if err := g.enter(); err != nil {
		t.Fatal(err)
	}
	g.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.wait(ctx); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	goleak.VerifyNone(t, before)
	g.leave()
	if err := g.wait(t.Context()); err != nil {
		t.Errorf("when it has left: %v", err)
	}
}
