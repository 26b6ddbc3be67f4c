package redis

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace"
)

// inFlight is how many gathered calls of a lane are under way at most: while
// one is computed, the next one travels.
const inFlight = 2

// gatherer turns the requests of many goroutines into few calls: while its
// calls are in flight, further requests gather into the next one. Each request
// keeps its own outcome. It starts a goroutine only while there is something to
// do; the engine's Close waits for it.
type gatherer[Q, A any] struct {
	take func(waiting []*request[Q, A]) int                // how many of the first go into one call, at least 1; it may reorder them
	call func(ctx context.Context, batch []*request[Q, A]) // gives each its outcome
	ctx  context.Context
	wg   *sync.WaitGroup

	mu      sync.Mutex
	waiting []*request[Q, A]
	flying  int
	closed  bool
}

// request is one caller's part of a call.
type request[Q, A any] struct {
	ask    Q
	answer A
	err    error
	done   chan struct{}
}

// do hands a request in and waits for its outcome.
func (g *gatherer[Q, A]) do(ctx context.Context, ask Q) (A, error) {
	r := &request[Q, A]{ask: ask, done: make(chan struct{})}
	if err := g.add(r); err != nil {
		return r.answer, err
	}
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	var none A
	if g.withdraw(r) {
		return none, millrace.Wrap(millrace.CodeUnavailable, ctx.Err(), "the call was given up before it began")
	}
	return none, millrace.Wrap(millrace.CodeOutcomeUnknown, ctx.Err(), "the call was given up while it was under way")
}

func (g *gatherer[Q, A]) add(r *request[Q, A]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return millrace.Errorf(millrace.CodeUnavailable, "the engine is closed")
	}
	g.waiting = append(g.waiting, r)
	if g.flying < inFlight {
		g.flying++
		g.wg.Add(1)
		go g.drain()
	}
	return nil
}

// withdraw takes a request back that is not in flight yet.
func (g *gatherer[Q, A]) withdraw(r *request[Q, A]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.waiting {
		if g.waiting[i] == r {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// drain makes calls until nothing waits.
func (g *gatherer[Q, A]) drain() {
	defer g.wg.Done()
	for {
		batch := g.next()
		if batch == nil {
			return
		}
		g.call(g.ctx, batch)
		for _, r := range batch {
			close(r.done)
		}
	}
}

func (g *gatherer[Q, A]) next() []*request[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.flying--
		return nil
	}
	n := g.take(g.waiting)
	batch := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	return batch
}

// close refuses further requests, and those that wait.
func (g *gatherer[Q, A]) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, r := range g.waiting {
		r.err = millrace.Errorf(millrace.CodeUnavailable, "the engine is closed")
		close(r.done)
	}
	g.waiting = nil
}

// fail gives every request of a call the same error.
func fail[Q, A any](batch []*request[Q, A], err error) {
	for _, r := range batch {
		r.err = err
	}
}
