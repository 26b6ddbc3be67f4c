package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/worker"
)

func tracked(s *millrace.QueueSpec) { s.Tracked = true }

func started(t *testing.T, b *broker.Broker, subject string) string {
	t.Helper()
	o, err := b.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "q", Type: "SYNC", Subject: subject})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// consumeBatches runs ConsumeBatches until the test has seen enough, and returns its error.
func consumeBatches(t *testing.T, b *broker.Broker, h worker.BatchHandler, o worker.Options) (stop func() error) {
	t.Helper()
	o.Logger = quiet
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.ConsumeBatches(ctx, b, "q", h, o) }()
	return func() error { cancel(); return <-done }
}

// finished waits for an operation to finish and returns it.
func finished(t *testing.T, b *broker.Broker, id string) millrace.TrackedOperation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	changes, err := b.Operations().Watch(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var last millrace.TrackedOperation
	for o, err := range changes {
		if err != nil {
			t.Fatal(err)
		}
		last = o
	}
	if !last.Status.Finished() {
		t.Fatalf("operation is still %s", last.Status)
	}
	return last
}

func TestAHandlerTellsProgressAndKeepsItsOutput(t *testing.T) {
	b := open(t, tracked)
	id := started(t, b, "link:1")
	var seen millrace.TrackedOperation
	stop := consume(t, b, func(ctx context.Context, _ millrace.Message) (err error) {
		if err = worker.Progress(ctx, 40, "cloning"); err != nil {
			return err
		}
		if seen, err = b.Operations().Get(ctx, id); err != nil {
			return err
		}
		return errors.Join(worker.Output(ctx, "first"), worker.Output(ctx, map[string]int{"pr": 12}))
	}, worker.Options{})
	o := finished(t, b, id)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if seen.Status != millrace.OperationRunning || seen.Progress == nil || *seen.Progress != (millrace.Progress{Percent: 40, Note: "cloning"}) {
		t.Errorf("while it ran: %s, progress %+v", seen.Status, seen.Progress)
	}
	if o.Status != millrace.OperationSuccess || string(o.Output) != `{"pr":12}` {
		t.Errorf("it ended in %s with %s", o.Status, o.Output)
	}
}

func TestTheOutputOfAnAttemptThatFailsIsNotKept(t *testing.T) {
	b := open(t, tracked)
	id := started(t, b, "link:1")
	stop := consume(t, b, func(ctx context.Context, m millrace.Message) error {
		if m.Attempt > 1 {
			return nil
		}
		if err := worker.Output(ctx, "half done"); err != nil {
			t.Error(err)
		}
		return errors.New("no network")
	}, worker.Options{})
	o := finished(t, b, id)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if o.Status != millrace.OperationSuccess || o.Output != nil || o.Attempts != 2 || o.Error != "no network" {
		t.Errorf("it ended as %+v", o)
	}
}

func TestWhatCannotBeAnOutputOrProgressIsRefusedAndTheHandlerGoesOn(t *testing.T) {
	b := open(t, tracked)
	id := started(t, b, "link:1")
	var long, deep, noJSON, percent error
	stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
		long = worker.Output(ctx, strings.Repeat("x", millrace.MaxOutput))
		var nested any
		for range millrace.MaxOutputDepth + 1 {
			nested = []any{nested}
		}
		deep = worker.Output(ctx, nested)
		noJSON = worker.Output(ctx, func() {})
		percent = worker.Progress(ctx, 101, "")
		return nil
	}, worker.Options{})
	o := finished(t, b, id)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if millrace.CodeOf(long) != millrace.CodeTooLarge || millrace.CodeOf(deep) != millrace.CodeInvalid || noJSON == nil || millrace.CodeOf(percent) != millrace.CodeInvalid {
		t.Errorf("got %v; %v; %v", long, noJSON, percent)
	}
	if o.Status != millrace.OperationSuccess || o.Output != nil || o.Progress != nil {
		t.Errorf("it ended as %+v", o)
	}
}

func TestProgressAndOutputNeedATrackedMessage(t *testing.T) {
	if err := worker.Progress(t.Context(), 1, ""); err == nil {
		t.Error("a context of no message took progress")
	}
	b := open(t)
	publish(t, b, 1)
	got := make(chan [2]error, 1)
	stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
		got <- [2]error{worker.Progress(ctx, 1, ""), worker.Output(ctx, 1)}
		return nil
	}, worker.Options{})
	for _, err := range <-got {
		if millrace.CodeOf(err) != millrace.CodeNotTracked {
			t.Errorf("got %v, want %s", err, millrace.CodeNotTracked)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestACancelledOperationEndsItsHandlersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t, tracked)
		id := started(t, b, "link:1")
		var cause error
		stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
			if _, err := b.Operations().Cancel(ctx, id); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}, worker.Options{})
		o := finished(t, b, id)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(cause, worker.ErrCancelled) {
			t.Errorf("the context ended with %v", cause)
		}
		if o.Status != millrace.OperationCancelled || o.Attempts != 1 || o.Error != context.Canceled.Error() {
			t.Errorf("it ended as %+v", o)
		}
	})
}

func TestAHandlerThatSucceedsThoughCancelledHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t, tracked)
		id := started(t, b, "link:1")
		stop := consume(t, b, func(ctx context.Context, _ millrace.Message) error {
			if _, err := b.Operations().Cancel(ctx, id); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		}, worker.Options{})
		o := finished(t, b, id)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if o.Status != millrace.OperationSuccess || !o.CancelRequested {
			t.Errorf("it ended as %+v", o)
		}
	})
}

func TestWhatIsCancelledWhileLeasedAheadIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t, tracked)
		_, second := started(t, b, "link:1"), started(t, b, "link:2")
		stop := consume(t, b, func(ctx context.Context, m millrace.Message) error {
			if m.Operation == second {
				t.Error("an operation that was cancelled has begun")
				return nil
			}
			o, err := b.Operations().Await(ctx, second, millrace.OperationQueued, time.Minute)
			if err != nil || o.Status != millrace.OperationRunning {
				t.Errorf("the second is %s: %v", o.Status, err)
			}
			if _, err := b.Operations().Cancel(ctx, second); err != nil {
				t.Error(err)
			}
			return pause(ctx, millrace.DefaultQueueSpec(".").Lease) // it is told at a third of it
		}, worker.Options{Prefetch: 1})
		o := finished(t, b, second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if o.Status != millrace.OperationCancelled || o.Error != worker.ErrCancelled.Error() {
			t.Errorf("it ended as %+v", o)
		}
	})
}

func TestEachMessageOfABatchHasItsOwnOutputProgressAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openModel(t, tracked, func(s *millrace.QueueSpec) { s.MaxAttempts = 1 })
		ids := map[string]string{"good": "", "bad": "", "cancelled": ""}
		for subject := range ids {
			ids[subject] = started(t, b, subject)
		}
		stop := consumeBatches(t, b, func(ctx context.Context, batch []millrace.Message) error {
			if err := worker.Output(ctx, 1); err == nil {
				t.Error("a batch's context took an output")
			}
			results := make(worker.Results, len(batch))
			for i, m := range batch {
				own := worker.Of(ctx, m)
				if err := errors.Join(worker.Progress(own, 50, m.Event.Key), worker.Output(own, m.Event.Key)); err != nil {
					t.Error(err)
				}
				switch m.Event.Key {
				case "bad":
					results[i] = errors.New("broken")
				case "cancelled":
					if _, err := b.Operations().Cancel(ctx, m.Operation); err != nil {
						t.Error(err)
					}
					<-own.Done()
					results[i] = context.Cause(own)
				}
			}
			if ctx.Err() != nil {
				t.Error("the end of one message ended the batch's context")
			}
			return results
		}, worker.Options{BatchSize: 3, BatchWithin: time.Minute})
		good, bad, cancelled := finished(t, b, ids["good"]), finished(t, b, ids["bad"]), finished(t, b, ids["cancelled"])
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if good.Status != millrace.OperationSuccess || string(good.Output) != `"good"` || good.Progress == nil || good.Progress.Note != "good" {
			t.Errorf("good: %+v", good)
		}
		if bad.Status != millrace.OperationError || bad.Error != "broken" || bad.Output != nil {
			t.Errorf("bad: %+v", bad)
		}
		if cancelled.Status != millrace.OperationCancelled || cancelled.Error != worker.ErrCancelled.Error() {
			t.Errorf("cancelled: %+v", cancelled)
		}
	})
}
