package broker

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace"
)

// gate counts the requests inside and, once closed, lets nobody in.
type gate struct {
	mu     sync.RWMutex
	closed bool
	inside sync.WaitGroup
}

// enter lets a request in, which must leave.
func (g *gate) enter() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return millrace.Errorf(millrace.CodeDraining, "this node is stopping; ask another")
	}
	g.inside.Add(1)
	return nil
}

func (g *gate) leave() { g.inside.Done() }

func (g *gate) isClosed() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait waits until nobody is inside, or ctx ends.
func (g *gate) wait(ctx context.Context) error {
	empty := make(chan struct{})
	go func() { g.inside.Wait(); close(empty) }()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return millrace.Wrap(millrace.CodeUnavailable, ctx.Err(), "requests were still under way at the end of the drain time")
	}
}
