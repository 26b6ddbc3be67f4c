// Package worker runs users' handlers over the messages of a backbone, whether
// it is in this process (broker.Broker) or over HTTP (client.Client).
//
// Consume hands over one message at a time, ConsumeBatches several. Both lease
// ahead by long polls, prolong the leases of what they hold, settle in bulk by
// what handlers return, and drain when their context ends: handlers finish, and
// what was not begun goes back to its queue at once. A handler may see a message
// twice (its lease was lost, or the process died): Message.Attempt and the
// event's id tell.
//
// What goes back has used up an attempt, although no handler has seen it. So a
// message on its last attempt, which would become a dead letter, does not go
// back: it is handled while the drain time lasts. What is left of those when it is over is
// a dead letter, with an error that says so, and can be redriven. From a queue that allows one
// attempt only, nothing is leased ahead.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/tracing"
)

// Source is where messages come from. A broker and a client both are one. One that is also Operated
// takes what handlers tell of their progress.
type Source interface {
	Queues() millrace.QueueService
}

// Handler does the work that one message asks for. What it returns settles the
// message: nil acks it; an error retries it by the queue's backoff; RetryAfter
// and Bury say otherwise. A panic counts as an error. Its context ends when the
// worker must stop, when the lease is lost and another may have the message, or, with cause ErrCancelled, when
// the message's operation is to be cancelled. Of a tracked queue it can tell its Progress and keep an Output.
type Handler func(ctx context.Context, m millrace.Message) error

// BatchHandler does the work that several messages ask for. What it returns
// settles all of them, as a Handler's result does; Results settles each by itself. Of gives the context of
// one message, for Progress and Output.
type BatchHandler func(ctx context.Context, batch []millrace.Message) error

// Middleware wraps a handler, for logging, tracing, limits and the like.
type Middleware func(Handler) Handler

// Options are the settings of a consumer. The zero value is usable.
type Options struct {
	Concurrency int           // handlers at a time; 1 if 0
	Prefetch    int           // messages leased ahead of the handlers; as many as Concurrency if 0, none if negative or if the queue allows one attempt only
	Lease       time.Duration // the queue's if 0; extended while a message is held
	Consumer    string        // a name; what it held before a restart is released when Consume begins
	Drain       time.Duration // for handlers to finish after ctx ends; 25 s if 0
	Middleware  []Middleware  // the first is the outermost; not for batches
	Hooks       Hooks
	Logger      *slog.Logger // slog.Default() if nil

	// TracerProvider is of the OpenTelemetry spans of handlers; there are none if
	// it is nil. A handler's context continues the trace that its event carries
	// in any case; a batch's span links to the traces of its events.
	TracerProvider trace.TracerProvider

	// BatchSize and BatchWithin are ConsumeBatches': a batch begins when it has
	// BatchSize messages (100 if 0), or BatchWithin (50 ms if 0) after its first.
	BatchSize   int
	BatchWithin time.Duration
}

// Hooks are called as messages go by; any may be nil. They must not block.
type Hooks struct {
	Leased  func(n int)                                                 // messages came from the queue
	Started func(m millrace.Message)                                    // a handler begins
	Done    func(m millrace.Message, err error, took time.Duration)     // a handler has returned
	Settled func(verb millrace.Verb, messages int, lost int, err error) // a settlement was answered
	Lost    func(m millrace.Message)                                    // a lease ended while its message was held
}

const (
	defaultDrain  = 25 * time.Second
	defaultBatch  = 100
	defaultWithin = 50 * time.Millisecond
	pollWait      = 20 * time.Second // of one long poll
	pausedWait    = time.Second      // after a long poll that was answered early with nothing: the queue is paused
	firstPause    = 100 * time.Millisecond
	longestPause  = 10 * time.Second
)

// Consume leases messages of a queue and hands each to the handler, until ctx
// ends; then it leases no more, lets handlers finish for the drain time, cancels
// their contexts, and returns when all have returned and are settled. What was
// leased and not begun is given back, unless that would make it a dead letter. A queue that
// does not exist is an error at once.
func Consume(ctx context.Context, s Source, queue string, h Handler, o Options) error {
	if h == nil {
		return errors.New("consume: a handler is required")
	}
	for i := len(o.Middleware) - 1; i >= 0; i-- {
		h = o.Middleware[i](h)
	}
	c, err := newConsumer(ctx, s, queue, o, 0)
	if err != nil {
		return err
	}
	return c.run(ctx, func(work context.Context) {
		for m := range c.fetched {
			for _, m := range c.toHandle(ctx, work, m) {
				c.handle(work, m, h)
			}
		}
	})
}

// ConsumeBatches is Consume for a handler of several messages at a time.
// Concurrency is how many batches are handled at a time.
func ConsumeBatches(ctx context.Context, s Source, queue string, h BatchHandler, o Options) error {
	if h == nil {
		return errors.New("consume: a handler is required")
	}
	if o.BatchSize < 0 || o.BatchSize > millrace.MaxLeaseCount || o.BatchWithin < 0 {
		return fmt.Errorf("consume: a batch must be of 1 to %d messages, within a time that is not negative", millrace.MaxLeaseCount)
	}
	o.BatchSize = orDefault(o.BatchSize, defaultBatch)
	o.BatchWithin = orDefault(o.BatchWithin, defaultWithin)
	c, err := newConsumer(ctx, s, queue, o, o.BatchSize*orDefault(o.Concurrency, 1))
	if err != nil {
		return err
	}
	return c.run(ctx, func(work context.Context) {
		for batch := c.gather(); len(batch) > 0; batch = c.gather() {
			if batch = c.toHandle(ctx, work, batch...); len(batch) > 0 {
				c.handleBatch(work, batch, h)
			}
		}
	})
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// consumer is one call of Consume.
type consumer struct {
	queues  millrace.QueueService
	queue   string
	options Options
	last    int // the attempt after which a message is a dead letter; 0 if there is none

	fetched chan millrace.Message // leased, not yet begun; the fetcher closes it
	room    chan struct{}         // one for each message that may be held
	keeper  *keeper
	settler *settler

	operations millrace.OperationService // nil if the source has none
	tracer     tracing.Tracer
}

// newConsumer prepares a consumer that leases at least so many messages ahead, for its batches.
func newConsumer(ctx context.Context, s Source, queue string, o Options, ahead int) (*consumer, error) {
	if o.Concurrency < 0 || o.Lease < 0 || o.Drain < 0 {
		return nil, errors.New("consume: concurrency, lease and drain must not be negative")
	}
	q, err := s.Queues().Get(ctx, queue)
	if err != nil {
		return nil, fmt.Errorf("consume queue %s: %w", queue, err)
	}
	o.Concurrency = orDefault(o.Concurrency, 1)
	last := lastAttempt(&q.Spec)
	if o.Prefetch = orDefault(o.Prefetch, o.Concurrency); last == 1 {
		o.Prefetch = 0
	}
	o.Prefetch = max(ahead, o.Prefetch)
	o.Drain = orDefault(o.Drain, defaultDrain)
	o.Lease = orDefault(o.Lease, q.Spec.Lease)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	held := o.Concurrency + o.Prefetch
	c := &consumer{
		queues: s.Queues(), queue: queue, options: o, last: last,
		fetched: make(chan millrace.Message, held), room: make(chan struct{}, held),
		settler: newSettler(s.Queues(), queue, o), tracer: tracing.New(o.TracerProvider),
	}
	if s, ok := s.(Operated); ok {
		c.operations = s.Operations()
	}
	c.keeper = newKeeper(s.Queues(), queue, o)
	return c, c.takeBack(ctx)
}

// lastAttempt is the attempt after which a queue's messages are dead letters; 0 if they never are.
func lastAttempt(q *millrace.QueueSpec) int {
	if q.OnExhausted == millrace.ExhaustedBlock {
		return 0
	}
	return q.MaxAttempts
}

// takeBack releases what this consumer held before it was restarted.
func (c *consumer) takeBack(ctx context.Context) error {
	if c.options.Consumer == "" {
		return nil
	}
	n, err := c.queues.Release(ctx, c.queue, c.options.Consumer)
	if err != nil {
		return fmt.Errorf("release what consumer %s held: %w", c.options.Consumer, err)
	}
	if n > 0 {
		c.options.Logger.Info("released what was held before a restart", "queue", c.queue, "consumer", c.options.Consumer, "messages", n)
	}
	return nil
}

// run fetches and handles until ctx ends, then drains. The order of stopping:
// the fetcher, the handlers, the keeper of leases, the settler.
func (c *consumer) run(ctx context.Context, handler func(work context.Context)) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	stopSettling := c.settler.start()
	stopKeeping := c.keeper.start(work)
	var handlers sync.WaitGroup
	for range c.options.Concurrency {
		handlers.Go(func() { handler(work) })
	}
	err := c.fetch(ctx)
	timer := time.AfterFunc(c.options.Drain, stopWork)
	handlers.Wait()
	timer.Stop()
	stopKeeping()
	stopSettling()
	return err
}

// fetch leases messages by long polls, as many as there is room for.
func (c *consumer) fetch(ctx context.Context) error {
	defer close(c.fetched)
	pause := firstPause
	for {
		free, ok := c.reserve(ctx)
		if !ok {
			return nil
		}
		asked := time.Now()
		messages, err := c.queues.Lease(ctx, c.queue, millrace.LeaseOptions{
			Max: free, Wait: pollWait, Lease: c.options.Lease, Consumer: c.options.Consumer,
		})
		c.release(free - len(messages))
		c.accept(messages)
		switch {
		case err == nil:
			pause = firstPause
		case ctx.Err() != nil:
			return nil
		case hopeless(err):
			return fmt.Errorf("lease from queue %s: %w", c.queue, err)
		default:
			c.options.Logger.Warn("lease", "queue", c.queue, "error", err, "again_in", pause)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, longestPause)
		}
		if early := time.Since(asked) < pollWait/2; early && err == nil && len(messages) == 0 && !sleep(ctx, pausedWait) {
			return nil
		}
	}
}

// hopeless reports whether a lease would fail again in the same way.
func hopeless(err error) bool {
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound, millrace.CodeForbidden, millrace.CodeUnauthenticated, millrace.CodeInvalid:
		return true
	}
	return false
}

// accept takes leased messages in; they are kept alive from now on.
func (c *consumer) accept(messages []millrace.Message) {
	if len(messages) == 0 {
		return
	}
	if c.options.Hooks.Leased != nil {
		c.options.Hooks.Leased(len(messages))
	}
	c.keeper.hold(messages)
	for _, m := range messages {
		c.fetched <- m
	}
}

// toHandle is which of some messages that were not begun are to be handled: all of them until
// ctx ends; then, while the work may go on, those on their last attempt. The others are given back, and so are
// those whose operations are to be cancelled.
func (c *consumer) toHandle(ctx, work context.Context, messages ...millrace.Message) (list []millrace.Message) {
	for _, m := range messages {
		last := c.last > 0 && m.Attempt >= c.last && work.Err() == nil
		switch {
		case m.Operation != "" && c.keeper.cancelled(m):
			c.giveBack(m, ErrCancelled.Error())
		case ctx.Err() == nil || last:
			list = append(list, m)
		default:
			c.giveBack(m, "the consumer stopped before it began")
		}
	}
	return list
}

// giveBack returns what was leased and not begun.
func (c *consumer) giveBack(m millrace.Message, why string) {
	at := time.Duration(0)
	c.keeper.drop(m)
	c.settler.add(millrace.Retry, millrace.Settlement{Receipt: m.Receipt, Delay: &at, Error: why})
	c.release(1)
}

// reserve waits for room and takes all there is, up to what one lease may bring.
func (c *consumer) reserve(ctx context.Context) (n int, ok bool) {
	select {
	case c.room <- struct{}{}:
		n = 1
	case <-ctx.Done():
		return 0, false
	}
	for n < millrace.MaxLeaseCount {
		select {
		case c.room <- struct{}{}:
			n++
			continue
		default:
		}
		break
	}
	if ctx.Err() != nil {
		c.release(n)
		return 0, false
	}
	return n, true
}

func (c *consumer) release(n int) {
	for range n {
		<-c.room
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handle runs the handler on one message and settles it by what it returned.
func (c *consumer) handle(work context.Context, m millrace.Message, h Handler) {
	defer c.release(1)
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	c.keeper.begin(m, cancel)
	j := &job{message: m, operations: c.operations}
	ctx, span := c.tracer.Handle(context.WithValue(ctx, jobKey{}, j), &m)
	err := c.call(m, func() error { return h(ctx, m) })
	span.End(err)
	c.settle(j, err)
}

// call runs a handler; a panic is an error like any other.
func (c *consumer) call(m millrace.Message, h func() error) (err error) {
	hooks, began := c.options.Hooks, time.Now()
	if hooks.Started != nil {
		hooks.Started(m)
	}
	defer func() {
		if p := recover(); p != nil {
			c.options.Logger.Error("handler panicked", "queue", c.queue, "message", m.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
		if hooks.Done != nil {
			hooks.Done(m, err, time.Since(began))
		}
	}()
	return h()
}
