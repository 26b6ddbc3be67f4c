package embedded_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// pulse publishes to a queue, leases and acks, one by one, while on says so, and
// returns how long the slowest hundredth of the calls took at least.
func pulse(t *testing.T, e *embedded.Engine, queue string, on func(i int) bool) time.Duration {
	t.Helper()
	var took []time.Duration
	timed := func(f func()) {
		begin := time.Now()
		f()
		took = append(took, time.Since(begin))
	}
	for i := 0; on(i); i++ {
		timed(func() {
			c := benchCommit(1, 0, 1)
			c.Events[0].Queues, c.Version = []string{queue}, 9
			if _, err := e.Publish(context.Background(), 0, c); err != nil {
				t.Fatal(err)
			}
		})
		timed(func() {
			if got := leaseAndAckFrom(t, e, queue, uint64(i+1), 1); got != 1 {
				t.Fatalf("leased %d, want 1", got)
			}
		})
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

func TestSweepingADeletedQueueStallsNoOther(t *testing.T) {
	waiting := 100_000
	if os.Getenv("MILLRACE_LONG") != "" {
		waiting = 1_000_000
	}
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	const other = "00000000000000bb"
	define(t, e, benchQueue, other)
	for from := 0; from < waiting; from += 1000 {
		if _, err := e.Publish(context.Background(), 0, benchCommit(1000, from, 100)); err != nil {
			t.Fatal(err)
		}
	}
	before := pulse(t, e, other, func(i int) bool { return i < 200 })
	swept := make(chan int)
	go func() {
		defer close(swept)
		swept <- deleteAndSweep(t, e)
	}()
	n := 0
	during := pulse(t, e, other, func(int) bool {
		select {
		case n = <-swept:
			return false
		default:
			return true
		}
	})
	<-swept
	t.Logf("a hundredth of the calls took %v before, and %v while %d messages were swept", before, during, n)
	if n != waiting {
		t.Errorf("swept %d, want %d", n, waiting)
	}
	if most := max(10*before, 250*time.Millisecond); during > most {
		t.Errorf("a hundredth of the calls took %v while a queue was swept, want %v at most", during, most)
	}
}

// deleteAndSweep does what a broker does with a deleted queue, in steps of its size.
func deleteAndSweep(t *testing.T, e *embedded.Engine) (n int) {
	if _, err := e.Apply(context.Background(), 0, millrace.Apply{Version: 9, Removed: []string{benchQueue}}); err != nil {
		t.Error(err)
		return 0
	}
	for {
		freed, err := e.Sweep(context.Background(), 0, 500)
		if err != nil {
			t.Error(err)
		}
		n += freed
		if err != nil || freed < 500 {
			return n
		}
	}
}
