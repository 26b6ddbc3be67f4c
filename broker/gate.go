package broker

import (
	"context"
	"sync/atomic"

	"github.com/millrace-dev/millrace"
)

// gate counts the requests inside and, once closed, lets nobody in.
type gate struct {
	closed atomic.Bool
	inside atomic.Int64
	empty  chan struct{} // holds a sign when the last one has left a closed gate
}

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

// enter lets a request in, which must leave.
func (g *gate) enter() error {
	g.inside.Add(1) // before the look: whoever closes it then sees this one
	if g.closed.Load() {
		g.leave()
		return millrace.Errorf(millrace.CodeDraining, "this node is stopping; ask another")
	}
	return nil
}

func (g *gate) leave() {
	if g.inside.Add(-1) > 0 || !g.closed.Load() {
		return
	}
	select {
	case g.empty <- struct{}{}:
	default:
	}
}

func (g *gate) isClosed() bool { return g.closed.Load() }

func (g *gate) close() { g.closed.Store(true) }

// wait waits until nobody is inside a closed gate, or ctx ends. One waits at a time.
func (g *gate) wait(ctx context.Context) error {
	for g.inside.Load() > 0 {
		select {
		case <-g.empty:
		case <-ctx.Done():
			return millrace.Wrap(millrace.CodeUnavailable, ctx.Err(), "requests were still under way at the end of the drain time")
		}
	}
	return nil
}
