package worker

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-dev/millrace"
)

// Results is a batch handler's error that settles each message by itself: the
// i-th by the i-th error, those beyond by nil.
type Results []error

// Error joins the errors of the messages that failed.
func (r Results) Error() string {
	if err := errors.Join(r...); err != nil {
		return err.Error()
	}
	return "all succeeded"
}

// Unwrap returns the errors of the messages.
func (r Results) Unwrap() []error { return r }

// gather takes messages until the batch is full or its time is over; none when
// there will be no more.
func (c *consumer) gather() []millrace.Message {
	first, ok := <-c.fetched
	if !ok {
		return nil
	}
	batch := []millrace.Message{first}
	over := time.NewTimer(c.options.BatchWithin)
	defer over.Stop()
	for len(batch) < c.options.BatchSize {
		select {
		case m, ok := <-c.fetched:
			if !ok {
				return batch
			}
			batch = append(batch, m)
		case <-over.C:
			return batch
		}
	}
	return batch
}

// handleBatch runs the handler on a batch and settles its messages. The context
// ends when the lease of any of them is lost.
func (c *consumer) handleBatch(work context.Context, batch []millrace.Message, h BatchHandler) {
	defer c.release(len(batch))
	ctx, cancel := context.WithCancel(work)
	defer cancel()
	given := make(jobs, len(batch))
	ctx, span := c.tracer.HandleBatch(context.WithValue(ctx, jobKey{}, given), batch)
	for _, m := range batch {
		given[m.Receipt] = c.begin(ctx, m, cancel)
	}
	err := c.call(batch[0], func() error { return h(ctx, batch) })
	span.End(err)
	var each Results
	single := err != nil && errors.As(err, &each)
	for i, m := range batch {
		result := err
		if single {
			result = nil
			if i < len(each) {
				result = each[i]
			}
		}
		c.settle(given[m.Receipt], result)
	}
}
