// Package worker runs users' handlers over the messages of a backbone, whether
// it is in this process (broker.Broker) or over HTTP (client.Client).
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// Source is where messages come from. A broker and a client both are one.
type Source interface {
	Queues() millrace.QueueService
}

// Handler does the work that one message asks for. What it returns settles the
// message: nil acks it; an error retries it by the queue's backoff; RetryAfter
// and Bury say otherwise. A panic counts as an error. Its context ends when the
// worker must stop, or when the lease is lost and another may have the message.
type Handler func(ctx context.Context, m millrace.Message) error

// Options are the settings of a consumer. The zero value is usable.
type Options struct {
	Concurrency int           // handlers at a time; 1 if 0
	Lease       time.Duration // the queue's if 0; extended while a handler runs
	Drain       time.Duration // for handlers to finish after ctx ends; 25 s if 0
	Logger      *slog.Logger  // slog.Default() if nil
}

const (
	defaultDrain = 25 * time.Second
	pollWait     = 20 * time.Second // of one long poll
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// RetryAfter is an error that asks for another attempt after a delay.
func RetryAfter(d time.Duration, err error) error { return &verdict{delay: &d, err: err} }

// Bury is an error that asks for no further attempt: the message goes to the dead letters.
func Bury(err error) error { return &verdict{bury: true, err: err} }

// verdict is an error that says how its message is to be settled.
type verdict struct {
	bury  bool
	delay *time.Duration
	err   error
}

func (v *verdict) Error() string {
	if v.err == nil {
		return "no reason given"
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// Consume leases messages of a queue and hands each to the handler, until ctx
// ends; then it leases no more, lets handlers finish for the drain time, cancels
// their contexts, and returns when all have returned and are settled. It leases
// no more than it has free handlers for. A queue that does not exist is an error
// at once.
func Consume(ctx context.Context, s Source, queue string, h Handler, o Options) error {
	if h == nil {
		return errors.New("consume: a handler is required")
	}
	if o.Concurrency < 0 || o.Lease < 0 || o.Drain < 0 {
		return errors.New("consume: concurrency, lease and drain must not be negative")
	}
	q, err := s.Queues().Get(ctx, queue)
	if err != nil {
		return fmt.Errorf("consume queue %s: %w", queue, err)
	}
	c := newConsumer(s.Queues(), q, h, o)
	return c.run(ctx)
}

// consumer is one call of Consume.
type consumer struct {
	queues  millrace.QueueService
	queue   string
	handler Handler
	options Options
	slots   chan struct{} // one for each handler that may run
	settled *settler
	running sync.WaitGroup
}

func newConsumer(queues millrace.QueueService, q millrace.Queue, h Handler, o Options) *consumer {
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Drain == 0 {
		o.Drain = defaultDrain
	}
	if o.Lease == 0 {
		o.Lease = q.Spec.Lease
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &consumer{
		queues: queues, queue: q.Name, handler: h, options: o,
		slots:   make(chan struct{}, o.Concurrency),
		settled: newSettler(queues, q.Name, o.Logger),
	}
}

// run takes messages until ctx ends, then drains.
func (c *consumer) run(ctx context.Context) error {
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	stopSettling := c.settled.start()
	err := c.take(ctx, work)
	timer := time.AfterFunc(c.options.Drain, stopWork)
	c.running.Wait()
	timer.Stop()
	stopSettling()
	return err
}

// take leases as many messages as there are free slots, again and again.
func (c *consumer) take(ctx, work context.Context) error {
	pause := firstPause
	for {
		free, ok := c.reserve(ctx)
		if !ok {
			return nil
		}
		messages, err := c.queues.Lease(ctx, c.queue, millrace.LeaseOptions{Max: free, Wait: pollWait, Lease: c.options.Lease})
		c.release(free - len(messages))
		for _, m := range messages {
			c.running.Go(func() { c.handle(work, m) })
		}
		switch code := millrace.CodeOf(err); {
		case err == nil:
			pause = firstPause
		case ctx.Err() != nil:
			return nil
		case code == millrace.CodeNotFound || code == millrace.CodeForbidden || code == millrace.CodeUnauthenticated || code == millrace.CodeInvalid:
			return fmt.Errorf("lease from queue %s: %w", c.queue, err)
		default:
			c.options.Logger.Warn("lease", "queue", c.queue, "error", err, "again_in", pause)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, longestPause)
		}
	}
}

// reserve waits for a free slot and takes all that are free, up to what one lease may bring.
func (c *consumer) reserve(ctx context.Context) (n int, ok bool) {
	select {
	case c.slots <- struct{}{}:
		n = 1
	case <-ctx.Done():
		return 0, false
	}
	for n < millrace.MaxLeaseCount {
		select {
		case c.slots <- struct{}{}:
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
		<-c.slots
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

// handle runs the handler on one message, keeps its lease alive meanwhile, and
// settles it by what the handler returned.
func (c *consumer) handle(work context.Context, m millrace.Message) {
	defer c.release(1)
	ctx, cancel := context.WithCancel(work)
	defer cancel()
	var keeping sync.WaitGroup
	keeping.Go(func() { c.keep(ctx, cancel, m) })
	err := c.call(ctx, m)
	cancel()
	keeping.Wait()
	c.settled.add(m, err)
}

// call runs the handler; a panic is an error like any other.
func (c *consumer) call(ctx context.Context, m millrace.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.options.Logger.Error("handler panicked", "queue", c.queue, "message", m.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return c.handler(ctx, m)
}

// keep extends the lease at each third of it, until ctx ends. A lease that is
// lost ends the handler's context: another may have the message by now.
func (c *consumer) keep(ctx context.Context, lost context.CancelFunc, m millrace.Message) {
	for sleep(ctx, c.options.Lease/3) {
		r, err := c.queues.Extend(ctx, c.queue, c.options.Lease, m.Receipt)
		if err == nil && len(r.Lost) > 0 {
			c.options.Logger.Warn("lease lost while handling", "queue", c.queue, "message", m.ID, "attempt", strconv.Itoa(m.Attempt))
			lost()
			return
		}
	}
}
