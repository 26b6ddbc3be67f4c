package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	settleTimeout = 10 * time.Second
	maxOutputs    = millrace.MaxRequestSize / 2 // bytes of outputs in one call; the rest is for receipts
)

// settler settles messages in batches: while one call is under way, what is to
// be settled next gathers for the next.
type settler struct {
	queues  millrace.QueueService
	queue   string
	log     *slog.Logger
	settled func(verb millrace.Verb, messages, lost int, err error)
	wake    chan struct{}

	mu      sync.Mutex
	pending map[millrace.Verb][]millrace.Settlement
}

func newSettler(queues millrace.QueueService, queue string, o Options) *settler {
	return &settler{
		queues: queues, queue: queue, log: o.Logger, settled: o.Hooks.Settled,
		wake: make(chan struct{}, 1), pending: map[millrace.Verb][]millrace.Settlement{},
	}
}

// add takes a settlement.
func (s *settler) add(verb millrace.Verb, item millrace.Settlement) {
	s.mu.Lock()
	s.pending[verb] = append(s.pending[verb], item)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// start settles what is added until stop is called, which settles the rest.
func (s *settler) start() (stop func()) {
	stopping := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-s.wake:
				s.flush()
			case <-stopping:
				s.flush()
				return
			}
		}
	})
	return func() { close(stopping); done.Wait() }
}

// flush settles all that is pending. What cannot be settled comes back when its
// lease ends: that is what leases are for.
func (s *settler) flush() {
	s.mu.Lock()
	pending := s.pending
	s.pending = map[millrace.Verb][]millrace.Settlement{}
	s.mu.Unlock()
	for verb, items := range pending {
		for len(items) > 0 {
			n := fitting(items)
			s.settle(verb, items[:n])
			items = items[n:]
		}
	}
}

// fitting is how many settlements one call takes: outputs must fit into a request.
func fitting(items []millrace.Settlement) int {
	bytes := 0
	for i := range items {
		if bytes += len(items[i].Output); i == millrace.MaxLeaseCount || i > 0 && bytes > maxOutputs {
			return i
		}
	}
	return len(items)
}

func (s *settler) settle(verb millrace.Verb, items []millrace.Settlement) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	do := s.queues.Ack
	switch verb {
	case millrace.Retry:
		do = s.queues.Retry
	case millrace.Bury:
		do = s.queues.Bury
	}
	r, err := do(ctx, s.queue, items...)
	switch {
	case err != nil:
		s.log.Warn("settle", "queue", s.queue, "messages", len(items), "error", err)
	case len(r.Lost) > 0:
		s.log.Warn("leases had ended before they were settled", "queue", s.queue, "messages", len(r.Lost))
	}
	if s.settled != nil {
		s.settled(verb, len(items), len(r.Lost), err)
	}
}
