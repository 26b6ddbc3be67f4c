package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/worker"
)

// start opens a backbone in memory with a queue of orders.
func start(ctx context.Context) *broker.Broker {
	b, err := broker.Open(ctx, "memory:", broker.Options{})
	must(err)
	_, _, err = b.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(":orders:"))
	must(err)
	return b
}

func send(ctx context.Context, b *broker.Broker, types ...string) {
	for _, typ := range types {
		_, err := b.Publish(ctx, millrace.Event{Topic: "orders", Type: typ, Tenant: "acme", Data: []byte(`{"total":12}`)})
		must(err)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleConsume() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b := start(ctx)
	send(ctx, b, "created")

	must(worker.Consume(ctx, b, "emails", func(_ context.Context, m millrace.Message) error {
		fmt.Println(m.Event.Type, string(m.Event.Data), "attempt", m.Attempt)
		stop() // this example has seen enough
		return nil
	}, worker.Options{Concurrency: 8}))
	must(b.Close(context.Background()))
	// Output: created {"total":12} attempt 1
}

// What a handler returns decides what becomes of its message.
func ExampleHandler() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b := start(ctx)
	send(ctx, b, "created", "refunded", "garbled")

	handler := func(_ context.Context, m millrace.Message) error {
		switch {
		case m.Event.Type == "garbled":
			return worker.Bury(errors.New("no sense in it")) // a dead letter at once
		case m.Event.Type == "refunded" && m.Attempt == 1:
			return worker.RetryAfter(10*time.Millisecond, errors.New("the bank is closed"))
		}
		return nil // done for good
	}
	left := 4 // outcomes to come: one message takes two
	done := func(m millrace.Message, err error, _ time.Duration) {
		fmt.Println(m.Event.Type, "attempt", m.Attempt, "error:", err)
		if left--; left == 0 {
			stop()
		}
	}
	must(worker.Consume(ctx, b, "emails", handler, worker.Options{Hooks: worker.Hooks{Done: done}}))
	must(b.Close(context.Background()))
	// Unordered output:
	// created attempt 1 error: <nil>
	// refunded attempt 1 error: the bank is closed
	// garbled attempt 1 error: no sense in it
	// refunded attempt 2 error: <nil>
}

func ExampleConsumeBatches() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b := start(ctx)
	send(ctx, b, "created", "paid", "shipped")

	must(worker.ConsumeBatches(ctx, b, "emails", func(_ context.Context, batch []millrace.Message) error {
		fmt.Println(len(batch), "messages in one statement")
		stop()
		return nil // acknowledges all of them
	}, worker.Options{BatchSize: 3, BatchWithin: time.Minute}))
	must(b.Close(context.Background()))
	// Output: 3 messages in one statement
}
