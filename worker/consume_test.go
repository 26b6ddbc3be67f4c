package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWorkerKnowsOnlyTheWords(t *testing.T) { importguard.Check(t, ".", "internal/tracing") }

var quiet = slog.New(slog.DiscardHandler)

func open(t *testing.T, change ...func(*millrace.QueueSpec)) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), "memory:", broker.Options{Logger: quiet})
	return with(t, b, err, change...)
}

// openModel opens a broker that lives on the clock of a synctest bubble.
func openModel(t *testing.T, change ...func(*millrace.QueueSpec)) *broker.Broker {
	t.Helper()
	b, err := broker.New(t.Context(), enginetest.NewModel(1, time.Now), broker.Options{Logger: quiet})
	return with(t, b, err, change...)
}

// with is a broker that was opened, with a queue.
func with(t *testing.T, b *broker.Broker, err error, change ...func(*millrace.QueueSpec)) *broker.Broker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	spec := millrace.DefaultQueueSpec(".")
	spec.BackoffFirst, spec.BackoffMax = time.Millisecond, time.Millisecond
	for _, f := range change {
		f(&spec)
	}
	if _, _, err := b.Queues().Put(t.Context(), "q", spec); err != nil {
		t.Fatal(err)
	}
	return b
}

func publish(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{Topic: "t", Type: "x", ID: fmt.Sprint(i)}
	}
	if _, err := b.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

// consume runs Consume until the test has seen enough, and returns its error.
func consume(t *testing.T, b *broker.Broker, h worker.Handler, o worker.Options) (stop func() error) {
	t.Helper()
	o.Logger = quiet
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Consume(ctx, b, "q", h, o) }()
	var once sync.Once
	var err error
	stop = func() error { once.Do(func() { cancel(); err = <-done }); return err }
	t.Cleanup(func() { _ = stop() })
	return stop
}

// eventually waits until a queue's counts are as wanted.
func eventually(t *testing.T, b *broker.Broker, want millrace.QueueCounts) {
	t.Helper()
	var got millrace.QueueCounts
	until(t, func() string { return fmt.Sprintf("got %+v, want %+v", got, want) }, func() bool {
		q, err := b.Queues().Get(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		got = q.QueueCounts
		return got == want
	})
}

// until waits for a condition, or says what is the matter.
func until(t *testing.T, matter func() string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(matter())
		}
	}
}

func TestAHandledMessageIsAcked(t *testing.T) {
	b := open(t)
	publish(t, b, 300)
	var handled sync.Map
	stop := consume(t, b, func(_ context.Context, m millrace.Message) error {
		handled.Store(m.Event.ID, true)
		return nil
	}, worker.Options{Concurrency: 16})
	eventually(t, b, millrace.QueueCounts{})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n := 0
	handled.Range(func(any, any) bool { n++; return true })
	if n != 300 {
		t.Errorf("handled %d, want 300", n)
	}
}

func TestAnErrorOrAPanicMeansAnotherAttempt(t *testing.T) {
	b := open(t)
	publish(t, b, 1)
	var attempts atomic.Int64
	consume(t, b, func(_ context.Context, m millrace.Message) error {
		switch attempts.Add(1) {
		case 1:
			return errors.New("boom")
		case 2:
			panic("bang")
		}
		if m.Attempt != 3 {
			t.Errorf("got attempt %d, want 3", m.Attempt)
		}
		return nil
	}, worker.Options{})
	eventually(t, b, millrace.QueueCounts{})
	if got := attempts.Load(); got != 3 {
		t.Errorf("got %d attempts, want 3", got)
	}
}

func TestRetryAfterWaitsAndBuryEndsAtOnce(t *testing.T) {
	b := open(t)
	publish(t, b, 2)
	consume(t, b, func(_ context.Context, m millrace.Message) error {
		if m.Event.ID == "0" {
			return worker.Bury(errors.New("never"))
		}
		return fmt.Errorf("later: %w", worker.RetryAfter(time.Hour, errors.New("busy")))
	}, worker.Options{})
	eventually(t, b, millrace.QueueCounts{Delayed: 1, Dead: 1})
}

func TestNoMoreHandlersRunThanAllowed(t *testing.T) {
	b := open(t)
	publish(t, b, 100)
	var now, most atomic.Int64
	consume(t, b, func(context.Context, millrace.Message) error {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(time.Millisecond)
		return nil
	}, worker.Options{Concurrency: 4})
	eventually(t, b, millrace.QueueCounts{})
	if got := most.Load(); got > 4 || got < 2 {
		t.Errorf("%d handlers ran at a time, want up to 4", got)
	}
}

func TestALeaseIsExtendedWhileItsHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t, func(s *millrace.QueueSpec) { s.Lease = 30 * time.Second })
		publish(t, b, 1)
		var calls atomic.Int64
		stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
			calls.Add(1)
			return pause(ctx, 2*time.Minute) // four leases long
		}, worker.Options{Concurrency: 2})
		eventually(t, b, millrace.QueueCounts{Leased: 1})
		time.Sleep(3 * time.Minute)
		eventually(t, b, millrace.QueueCounts{})
		if got := calls.Load(); got != 1 {
			t.Errorf("handled %d times, want once", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestALostLeaseEndsTheHandlersContext(t *testing.T) {
	b := open(t, func(s *millrace.QueueSpec) { s.Lease = 300 * time.Millisecond })
	publish(t, b, 1)
	ended := make(chan struct{})
	consume(t, b, func(ctx context.Context, m millrace.Message) error {
		if _, err := b.Queues().Ack(context.WithoutCancel(ctx), "q", millrace.Settlement{Receipt: m.Receipt}); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the receipt is spent: it cannot be extended
		close(ended)
		return nil
	}, worker.Options{})
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the handler was not told")
	}
}

func TestADrainLetsHandlersFinishAndSettles(t *testing.T) {
	b := open(t)
	publish(t, b, 1)
	began, finish := make(chan struct{}), make(chan struct{})
	stop := consume(t, b, func(context.Context, millrace.Message) error {
		close(began)
		<-finish
		return nil
	}, worker.Options{})
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case err := <-stopped:
		t.Fatalf("returned before its handler: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	eventually(t, b, millrace.QueueCounts{})
}

func TestAfterTheDrainTimeHandlersAreCancelled(t *testing.T) {
	b := open(t)
	publish(t, b, 1)
	began := make(chan struct{})
	stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}, worker.Options{Drain: 20 * time.Millisecond})
	<-began
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeConsumedIsAnErrorAtOnce(t *testing.T) {
	b := open(t)
	nothing := func(context.Context, millrace.Message) error { return nil }
	if err := worker.Consume(t.Context(), b, "nosuch", nothing, worker.Options{}); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("an unknown queue: got %v", err)
	}
	if err := worker.Consume(t.Context(), b, "q", nil, worker.Options{}); err == nil {
		t.Error("no handler: got no error")
	}
	if err := worker.Consume(t.Context(), b, "q", nothing, worker.Options{Concurrency: -1}); err == nil {
		t.Error("a negative concurrency: got no error")
	}
}

func TestMiddlewareWrapsTheHandlerInItsOrder(t *testing.T) {
	b := open(t)
	publish(t, b, 1)
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); defer mu.Unlock(); order = append(order, s) }
	wrap := func(name string) worker.Middleware {
		return func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, m millrace.Message) error {
				note(name + " in")
				defer note(name + " out")
				return next(ctx, m)
			}
		}
	}
	consume(t, b, func(context.Context, millrace.Message) error { note("handler"); return nil },
		worker.Options{Middleware: []worker.Middleware{wrap("a"), wrap("b")}})
	eventually(t, b, millrace.QueueCounts{})
	mu.Lock()
	defer mu.Unlock()
	if got, want := fmt.Sprint(order), "[a in b in handler b out a out]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestABatchBeginsWhenItIsFullOrItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t)
		publish(t, b, 25)
		var sizes []int
		var times []time.Duration
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- worker.ConsumeBatches(ctx, b, "q", func(_ context.Context, batch []millrace.Message) error {
				sizes, times = append(sizes, len(batch)), append(times, time.Since(began))
				return nil
			}, worker.Options{BatchSize: 10, BatchWithin: 200 * time.Millisecond, Logger: quiet})
		}()
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(sizes, times), "[10 10 5] [0s 0s 200ms]"; got != want {
			t.Errorf("got batches of %s, want %s", got, want)
		}
	})
}

func TestEachMessageOfABatchCanHaveItsOwnResult(t *testing.T) {
	b := open(t)
	publish(t, b, 3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.ConsumeBatches(ctx, b, "q", func(_ context.Context, batch []millrace.Message) error {
			results := make(worker.Results, len(batch))
			for i, m := range batch {
				switch m.Event.ID {
				case "0":
					results[i] = worker.Bury(errors.New("never"))
				case "1":
					results[i] = worker.RetryAfter(time.Hour, errors.New("later"))
				}
			}
			return results
		}, worker.Options{BatchSize: 3, Logger: quiet})
	}()
	eventually(t, b, millrace.QueueCounts{Delayed: 1, Dead: 1})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestARestartedConsumerTakesBackWhatItHeld(t *testing.T) {
	b := open(t)
	publish(t, b, 3)
	if _, err := b.Queues().Lease(t.Context(), "q", millrace.LeaseOptions{Max: 3, Lease: time.Hour, Consumer: "w-1"}); err != nil {
		t.Fatal(err)
	}
	consume(t, b, func(context.Context, millrace.Message) error { return nil }, worker.Options{Consumer: "w-1"})
	eventually(t, b, millrace.QueueCounts{})
}

func TestHooksSeeMessagesGoBy(t *testing.T) {
	b := open(t)
	publish(t, b, 5)
	var leased, started, done, acked atomic.Int64
	consume(t, b, func(context.Context, millrace.Message) error { return nil }, worker.Options{Hooks: worker.Hooks{
		Leased:  func(n int) { leased.Add(int64(n)) },
		Started: func(millrace.Message) { started.Add(1) },
		Done:    func(_ millrace.Message, err error, _ time.Duration) { done.Add(1) },
		Settled: func(_ millrace.Verb, n, _ int, _ error) { acked.Add(int64(n)) },
	}})
	eventually(t, b, millrace.QueueCounts{})
	until(t, func() string { return "the settlements are not told of" }, func() bool { return acked.Load() == 5 })
	if leased.Load() != 5 || started.Load() != 5 || done.Load() != 5 || acked.Load() != 5 {
		t.Errorf("got %d leased, %d started, %d done, %d settled", leased.Load(), started.Load(), done.Load(), acked.Load())
	}
}

func TestWhatWasFetchedAheadIsGivenBackWhenTheConsumerStops(t *testing.T) {
	b := open(t)
	publish(t, b, 10)
	began := make(chan struct{}, 10)
	stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, worker.Options{Concurrency: 1, Prefetch: 5, Drain: 50 * time.Millisecond})
	<-began
	eventually(t, b, millrace.QueueCounts{Ready: 4, Leased: 6})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, b, millrace.QueueCounts{Ready: 10}) // the one that failed comes back after its backoff
}

func TestABadDelayOfOneMessageDoesNotSpoilTheOthers(t *testing.T) {
	b := open(t)
	publish(t, b, 3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.ConsumeBatches(ctx, b, "q", func(_ context.Context, batch []millrace.Message) error {
			results := make(worker.Results, len(batch))
			for i := range batch {
				results[i] = worker.RetryAfter(time.Hour, errors.New("later"))
			}
			results[0] = worker.RetryAfter(100*millrace.MaxDelay, errors.New("much later"))
			return results
		}, worker.Options{BatchSize: 3, BatchWithin: time.Minute, Logger: quiet})
	}()
	eventually(t, b, millrace.QueueCounts{Delayed: 3})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
