package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/millrace-dev/millrace"
)

// ErrCancelled is why a handler's context ends (context.Cause) when its message's operation is to be cancelled. What
// the handler returns then settles as usual: nil is a success all the same, and what would be another attempt
// cancels the operation.
var ErrCancelled = errors.New("the operation is to be cancelled")

// Operated is a Source whose queues can be tracked: what Progress needs. A broker and a client both are one.
type Operated interface {
	Operations() millrace.OperationService
}

// jobKey finds in a context the job that it is of, or the jobs of a batch.
type jobKey struct{}

// jobs are the messages of a batch, by receipt.
type jobs map[string]*job

// job is one message that a handler was given.
type job struct {
	message    millrace.Message
	operations millrace.OperationService // nil if the source has none
	own        func() context.Context    // in a tracked batch: what Of gives

	mu     sync.Mutex
	output []byte
}

// Progress tells how far a message's work has come: 0 to 100 percent, which never falls within an attempt, with a note of
// at most millrace.MaxNoteLen bytes. ctx is a handler's, or what Of gives to a batch's. An error is for the
// handler to judge: millrace.CodeLost says that the lease has ended and another may have the message.
func Progress(ctx context.Context, percent int, note string) error {
	j, err := jobOf(ctx)
	if err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	if j.operations == nil {
		return errors.New("report progress: the source of the messages has no operations")
	}
	return j.operations.Report(ctx, j.message.Operation, j.message.Receipt, millrace.Progress{Percent: percent, Note: note})
}

// Output keeps a value, as JSON, with the operation of a message if its handler succeeds; the last one counts. It is
// at most millrace.MaxOutput bytes long. ctx is a handler's, or what Of gives to a batch's.
func Output(ctx context.Context, v any) error {
	j, err := jobOf(ctx)
	if err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	if len(text) > millrace.MaxOutput {
		return millrace.Errorf(millrace.CodeTooLarge, "an output must be at most %d bytes of JSON, not %d: store it elsewhere and keep where", millrace.MaxOutput, len(text))
	}
	if millrace.DeeperThan(text, millrace.MaxOutputDepth) { // it would spoil the settlements of others too
		return millrace.Errorf(millrace.CodeInvalid, "an output must nest at most %d deep", millrace.MaxOutputDepth)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.output = text
	return nil
}

// Of is the context of one message of a batch, for Progress and Output. It ends with the batch's, and with cause
// ErrCancelled when the operation of this message is to be cancelled; the batch's goes on for the others.
func Of(batch context.Context, m millrace.Message) context.Context {
	all, _ := batch.Value(jobKey{}).(jobs)
	j := all[m.Receipt]
	if j == nil {
		return batch
	}
	ctx := batch
	if j.own != nil {
		ctx = j.own()
	}
	return context.WithValue(ctx, jobKey{}, j)
}

func jobOf(ctx context.Context) (*job, error) {
	j, ok := ctx.Value(jobKey{}).(*job)
	if !ok {
		return nil, errors.New("the context is not of one message: take what the handler was given, or in a batch what Of gives")
	}
	if j.message.Operation == "" {
		return nil, millrace.Errorf(millrace.CodeNotTracked, "the messages of the queue have no operations: define it with tracked")
	}
	return j, nil
}

// begin readies a message of a batch for its handler. A lost lease ends the batch's context, a wish to cancel the
// message's own.
func (c *consumer) begin(ctx context.Context, m millrace.Message, lost context.CancelFunc) *job {
	j := &job{message: m, operations: c.operations}
	cancel := func(error) {}
	if m.Operation != "" {
		own, stop := context.WithCancelCause(ctx)
		j.own, cancel = func() context.Context { return own }, stop
	}
	c.keeper.begin(m, func(cause error) {
		if cause == nil {
			lost()
		}
		cancel(cause)
	})
	return j
}

// settle settles a message that was handled by what came of it.
func (c *consumer) settle(j *job, err error) {
	c.keeper.drop(j.message)
	verb, item := settlementOf(j.message, err)
	if verb == millrace.Ack {
		j.mu.Lock()
		item.Output = j.output
		j.mu.Unlock()
	}
	c.settler.add(verb, item)
}
