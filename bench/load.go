package main

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// The load, the same for all who are measured.
const (
	singles  = 64    // goroutines that send one message at a time
	batchers = 8     // goroutines that send or take a hundred at a time
	hundred  = 100   // messages of a batch
	inFlight = 10000 // messages that an end-to-end run keeps under way at most
)

// payload is the data of every message: 256 bytes of JSON.
func payload() []byte {
	return []byte(`{"order":"o-20391","customer":{"id":81723,"name":"A. Example"},"total":"129.90","currency":"EUR","note":"` +
		`leave it with the neighbour in number seven, ring twice and mind the dog; if nobody answers try again after six, thank you very much indeed and so on"}`)
}

// quota is a number of messages that several goroutines share out.
type quota struct{ left atomic.Int64 }

func newQuota(n int) *quota {
	q := &quota{}
	q.left.Store(int64(n))
	return q
}

// take takes up to n and returns how many it got.
func (q *quota) take(n int) int {
	after := q.left.Add(int64(-n))
	return max(0, min(n, n+int(after)))
}

// takeLast takes one and reports whether it was the last.
func (q *quota) takeLast() bool { return q.left.Add(-1) == 0 }

// inParallel runs f in n goroutines and waits for all.
func inParallel(n int, f func() error) error {
	var g errgroup.Group
	for range n {
		g.Go(f)
	}
	return g.Wait()
}

// flow bounds what is under way between publishers and consumers, so that an
// end-to-end run measures the slower of the two.
type flow struct{ slots chan struct{} }

func newFlow() flow { return flow{make(chan struct{}, inFlight)} }

// in waits for room for one more; false if the run is over.
func (f flow) in(ctx context.Context) bool {
	select {
	case f.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// out makes room for n. More may come out than went in: a delivery can be repeated.
func (f flow) out(n int) {
	for range n {
		select {
		case <-f.slots:
		default:
		}
	}
}
