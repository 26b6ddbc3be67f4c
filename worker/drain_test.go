package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/worker"
)

// lastAttempts publishes messages and uses up all their attempts but one.
func lastAttempts(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	publish(t, b, n)
	messages, err := b.Queues().Lease(t.Context(), "q", millrace.LeaseOptions{Max: n})
	if err != nil || len(messages) != n {
		t.Fatalf("%d leased, %v", len(messages), err)
	}
	at := time.Duration(0)
	for _, m := range messages {
		if _, err := b.Queues().Retry(t.Context(), "q", millrace.Settlement{Receipt: m.Receipt, Delay: &at}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatWasFetchedAheadOnItsLastAttemptIsHandledWhenTheConsumerStops(t *testing.T) {
	b := open(t, func(s *millrace.QueueSpec) { s.MaxAttempts = 2 })
	lastAttempts(t, b, 10)
	began, finish := make(chan struct{}, 10), make(chan struct{})
	var handled atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.Consume(ctx, b, "q", func(context.Context, millrace.Message) error {
			began <- struct{}{}
			<-finish
			handled.Add(1)
			return nil
		}, worker.Options{Concurrency: 1, Prefetch: 5, Logger: quiet})
	}()
	<-began
	eventually(t, b, millrace.QueueCounts{Ready: 4, Leased: 6})
	cancel()
	close(finish)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, b, millrace.QueueCounts{Ready: 4})
	if n := handled.Load(); n != 6 {
		t.Errorf("%d were handled, want the 6 that were leased", n)
	}
}

func TestABatchThatStopsIsHandledWithItsLastAttemptsAlone(t *testing.T) {
	b := open(t, func(s *millrace.QueueSpec) { s.MaxAttempts = 2 })
	lastAttempts(t, b, 2)
	if _, err := b.Publish(t.Context(), millrace.Event{Topic: "t", Type: "x", ID: "fresh"}); err != nil {
		t.Fatal(err)
	}
	var sizes atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.ConsumeBatches(ctx, b, "q", func(_ context.Context, batch []millrace.Message) error {
			sizes.Add(int64(len(batch)))
			return nil
		}, worker.Options{BatchSize: 100, BatchWithin: time.Hour, Logger: quiet})
	}()
	eventually(t, b, millrace.QueueCounts{Leased: 3})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, b, millrace.QueueCounts{Ready: 1})
	if n := sizes.Load(); n != 2 {
		t.Errorf("%d were handled, want the 2 on their last attempt", n)
	}
}

func TestNothingIsLeasedAheadFromAQueueOfOneAttempt(t *testing.T) {
	b := open(t, func(s *millrace.QueueSpec) { s.MaxAttempts = 1 })
	publish(t, b, 10)
	began, finish := make(chan struct{}, 10), make(chan struct{})
	var leased atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- worker.Consume(ctx, b, "q", func(context.Context, millrace.Message) error {
			began <- struct{}{}
			<-finish
			return nil
		}, worker.Options{Concurrency: 2, Prefetch: 5, Logger: quiet, Hooks: worker.Hooks{Leased: func(n int) { leased.Add(int64(n)) }}})
	}()
	<-began
	<-began
	cancel()
	close(finish)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	q, err := b.Queues().Get(t.Context(), "q")
	if n := leased.Load(); err != nil || n != 2 || q.Dead != 0 || q.Ready != 8 {
		t.Errorf("%d were leased; %+v, %v", n, q.QueueCounts, err)
	}
}
