package broker

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace"
)

// What is kept for a reader that is slower than publishers. Past it events are missed.
const (
	readerEvents = 1000
	readerBytes  = 4 << 20 // of their data
)

// reader is one who watches events go by.
type reader struct {
	filter millrace.LiveFilter
	match  *millrace.Match // nil: every address
	from   uint64          // number of the first event it may see
	over   chan struct{}   // closed when it may read no more
	ready  chan struct{}   // holds a sign while there is something to read

	mu     sync.Mutex
	ended  bool
	items  []millrace.LiveItem
	bytes  int // of their data
	missed int // after them
}

func newReader(f millrace.LiveFilter) (*reader, error) {
	if err := millrace.Invalid(f.Faults()); err != nil {
		return nil, err
	}
	r := &reader{filter: f, over: make(chan struct{}), ready: make(chan struct{}, 1)}
	if f.Match != "" {
		var err error
		if r.match, err = millrace.CompileMatch(f.Match); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// wants reports whether the filter lets an event through.
func (r *reader) wants(e *millrace.Event, address string) bool {
	switch {
	case r.filter.Tenant != "" && r.filter.Tenant != e.Tenant, r.filter.Key != "" && r.filter.Key != e.Key:
		return false
	case r.match == nil:
		return true
	case r.match.Topic() != "" && r.match.Topic() != e.Topic:
		return false
	}
	return r.match.Matches(address)
}

// add keeps an event for the reader, or counts it as missed if there is no room.
func (r *reader) add(e *millrace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
	case len(r.items) >= readerEvents || r.bytes > readerBytes:
		r.missed++
	default:
		r.tellMissed()
		r.items = append(r.items, millrace.LiveItem{Event: *e})
		r.bytes += len(e.Data)
	}
	r.sign()
}

// miss says that so many events were missed after those that are kept.
func (r *reader) miss(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed += n
	r.sign()
}

// tellMissed puts what was missed in its place; the lock is held.
func (r *reader) tellMissed() {
	if r.missed > 0 {
		r.items = append(r.items, millrace.LiveItem{Missed: r.missed})
		r.missed = 0
	}
}

func (r *reader) sign() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// end makes the reader read no more.
func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended, r.items, r.bytes = true, nil, 0
		close(r.over)
	}
}

// pop is what the reader reads next, if there is anything.
func (r *reader) pop() (item millrace.LiveItem, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.items) == 0 {
		r.tellMissed()
	}
	if len(r.items) == 0 {
		return item, false
	}
	item, r.items[0] = r.items[0], millrace.LiveItem{}
	r.items = r.items[1:]
	r.bytes -= len(item.Event.Data)
	return item, true
}

// read hands out what the reader sees, until it or ctx ends, or the caller has enough.
func (r *reader) read(ctx context.Context, yield func(millrace.LiveItem, error) bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.over:
			if ctx.Err() == nil {
				yield(millrace.LiveItem{}, millrace.Errorf(millrace.CodeUnavailable, "the watch has ended; nothing is shown later"))
			}
			return
		case <-r.ready:
		}
		for item, ok := r.pop(); ok; item, ok = r.pop() {
			if ctx.Err() != nil || !yield(item, nil) {
				return
			}
		}
	}
}
