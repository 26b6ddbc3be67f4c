package broker

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// watchAgain is how often a watched operation is looked at though nobody hinted at it.
const watchAgain = 10 * time.Second

// lookout is where those wait who watch operations. A hint wakes all who watch its operation; each then looks, and
// asks for the next hint with the same look.
type lookout struct {
	mu      sync.Mutex
	closed  bool
	waiting map[uint64]map[chan struct{}]bool // by number
}

func newLookout() *lookout { return &lookout{waiting: map[uint64]map[chan struct{}]bool{}} }

// enter waits for the changes of one operation until leave is called.
func (l *lookout) enter(number uint64) (woken chan struct{}, leave func()) {
	woken = make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		wakeOne(woken)
	}
	if l.waiting[number] == nil {
		l.waiting[number] = map[chan struct{}]bool{}
	}
	l.waiting[number][woken] = true
	return woken, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.waiting[number], woken); len(l.waiting[number]) == 0 {
			delete(l.waiting, number)
		}
	}
}

func wakeOne(woken chan struct{}) {
	select {
	case woken <- struct{}{}:
	default:
	}
}

func (l *lookout) wake(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for woken := range l.waiting[number] {
		wakeOne(woken)
	}
}

func (l *lookout) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.waiting {
		for woken := range all {
			wakeOne(woken)
		}
	}
}

// close wakes all who wait, now and later.
func (l *lookout) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wakeAll()
}

// Await returns an operation when its status is another; see millrace.OperationService.
func (s Operations) Await(ctx context.Context, id string, seen millrace.OperationStatus, wait time.Duration) (millrace.TrackedOperation, error) {
	if err := s.b.gate.enter(); err != nil {
		return millrace.TrackedOperation{}, err
	}
	defer s.b.gate.leave()
	if err := awaitFaults(seen, wait); err != nil {
		return millrace.TrackedOperation{}, err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	var last millrace.TrackedOperation
	err := s.follow(ctx, id, over.C, func(o millrace.TrackedOperation) bool {
		last = o
		if seen == "" {
			seen = o.Status
		}
		return o.Status == seen && !o.Status.Finished()
	})
	return last, err
}

func awaitFaults(seen millrace.OperationStatus, wait time.Duration) error {
	var faults []millrace.Fault
	if wait < 0 || wait > millrace.MaxWait {
		faults = append(faults, millrace.Fault{Location: "wait", Message: "must be between 0s and " + millrace.MaxWait.String()})
	}
	if m := seen.Fault(); m != "" {
		faults = append(faults, millrace.Fault{Location: "seen", Message: m})
	}
	return millrace.Invalid(faults)
}

// follow hands an operation to show as it is now and after each hint at a change, until show wants no more, over ends it, or
// the node stops.
func (s Operations) follow(ctx context.Context, id string, over <-chan time.Time, show func(millrace.TrackedOperation) bool) error {
	parsed, ok := millrace.ParseOperationID(id)
	if !ok {
		return errNoOperation()
	}
	woken, leave := s.b.lookout.enter(parsed.Number)
	defer leave()
	again := time.NewTicker(watchAgain)
	defer again.Stop()
	for {
		o, err := s.read(ctx, id, true)
		if err != nil {
			return err
		}
		if !show(shownOperation(o)) {
			return nil
		}
		select {
		case <-woken:
		case <-again.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.b.gate.isClosed() {
			return nil
		}
	}
}

// Watch shows an operation at each change; see millrace.OperationService.
func (s Operations) Watch(ctx context.Context, id string) (iter.Seq2[millrace.TrackedOperation, error], error) {
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	return func(yield func(millrace.TrackedOperation, error) bool) {
		if err := s.b.gate.enter(); err != nil {
			yield(millrace.TrackedOperation{}, err)
			return
		}
		defer s.b.gate.leave()
		var last *millrace.TrackedOperation
		more := true
		err := s.follow(ctx, id, nil, func(o millrace.TrackedOperation) bool {
			if last == nil || changed(last, &o) {
				last = &o
				more = yield(o, nil)
			}
			return more && !o.Status.Finished()
		})
		switch {
		case !more || ctx.Err() != nil || last != nil && last.Status.Finished():
		case err != nil:
			yield(millrace.TrackedOperation{}, err)
		default:
			yield(millrace.TrackedOperation{}, millrace.Errorf(millrace.CodeUnavailable, "the node stops; watch again on another"))
		}
	}, nil
}

// changed reports whether somebody who watches should see an operation again.
func changed(a, b *millrace.TrackedOperation) bool {
	if (a.Progress == nil) != (b.Progress == nil) || a.Progress != nil && *a.Progress != *b.Progress {
		return true
	}
	return a.Status != b.Status || a.Attempts != b.Attempts || a.CancelRequested != b.CancelRequested || !a.StartedAt.Equal(b.StartedAt)
}
