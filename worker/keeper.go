package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// keeper keeps the leases of all messages that a consumer holds: it extends
// them together, at each third of a lease.
type keeper struct {
	queues millrace.QueueService
	queue  string
	lease  time.Duration
	log    *slog.Logger
	lost   func(millrace.Message)

	mu   sync.Mutex
	held map[string]*heldMessage // by receipt
}

type heldMessage struct {
	message   millrace.Message
	stop      func(cause error) // of its handler, once it has begun: ErrCancelled, or nil when its lease is lost
	gone      bool              // its lease is lost
	cancelled bool              // its operation is to be cancelled
}

func newKeeper(queues millrace.QueueService, queue string, o Options) *keeper {
	return &keeper{queues: queues, queue: queue, lease: o.Lease, log: o.Logger, lost: o.Hooks.Lost, held: map[string]*heldMessage{}}
}

// hold keeps messages from now on.
func (k *keeper) hold(messages []millrace.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		k.held[m.Receipt] = &heldMessage{message: m}
	}
}

// begin says what to call if the message's lease is lost or its operation is to be cancelled, or has been.
func (k *keeper) begin(m millrace.Message, stop func(cause error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[m.Receipt]
	if h == nil {
		return
	}
	h.stop = stop
	if h.gone {
		stop(nil)
	}
	if h.cancelled {
		stop(ErrCancelled)
	}
}

// cancelled reports whether a message's operation is to be cancelled, as far as is known.
func (k *keeper) cancelled(m millrace.Message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[m.Receipt]
	return h != nil && h.cancelled
}

// drop lets a message go.
func (k *keeper) drop(m millrace.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, m.Receipt)
}

// start extends until stop is called.
func (k *keeper) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for sleep(ctx, k.lease/3) {
			k.extend(ctx)
		}
	})
	return func() { cancel(); done.Wait() }
}

// extend prolongs every lease that is held. Those that cannot be are lost, and
// their handlers are told: another consumer may have the message by now.
func (k *keeper) extend(ctx context.Context) {
	receipts := k.receipts()
	for len(receipts) > 0 {
		n := min(len(receipts), millrace.MaxLeaseCount)
		r, err := k.queues.Extend(ctx, k.queue, k.lease, receipts[:n]...)
		if err != nil && ctx.Err() == nil {
			k.log.Warn("extend leases", "queue", k.queue, "messages", n, "error", err)
		}
		for _, receipt := range r.Lost {
			k.lose(receipt)
		}
		for _, receipt := range r.Cancelled {
			k.cancel(receipt)
		}
		receipts = receipts[n:]
	}
}

func (k *keeper) receipts() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]string, 0, len(k.held))
	for receipt, h := range k.held {
		if !h.gone {
			list = append(list, receipt)
		}
	}
	return list
}

func (k *keeper) lose(receipt string) {
	k.mu.Lock()
	h := k.held[receipt]
	if h != nil {
		h.gone = true
	}
	k.mu.Unlock()
	if h == nil {
		return // settled while it was being extended
	}
	k.log.Warn("lease lost while its message was held", "queue", k.queue, "message", h.message.ID, "attempt", h.message.Attempt)
	if k.lost != nil {
		k.lost(h.message)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.stop != nil {
		h.stop(nil)
	}
}

// cancel tells a handler that its message's operation is to be cancelled. The lease is kept until it returns.
func (k *keeper) cancel(receipt string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[receipt]
	if h == nil || h.cancelled {
		return
	}
	h.cancelled = true
	if h.stop != nil {
		h.stop(ErrCancelled)
	}
}
