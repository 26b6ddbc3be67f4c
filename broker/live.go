package broker

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace"
)

// What is kept of events that the node has not looked at yet. Past it they are missed.
const (
	liveBacklog      = 10000
	liveBacklogBytes = 16 << 20
)

// gallery is where readers watch events go by. The engine is watched while there
// is a reader. What the engine shows is only laid down by it; the gallery's own
// goroutine decodes and matches it, so that readers hold up no publish.
type gallery struct {
	engine millrace.Engine
	log    *slog.Logger

	door    sync.Mutex // held while the watch of the engine begins or ends
	watched func()     // ends it; nil while nobody reads

	mu      sync.Mutex
	closed  bool
	readers map[*reader]struct{}
	backlog []millrace.LiveEvent // not looked at yet
	bytes   int                  // of their bodies
	skipped int                  // events after these that had no place
	laid    uint64               // events ever shown by the engine
	arrived chan struct{}        // holds a sign while there is a backlog
}

func newGallery(e millrace.Engine, log *slog.Logger) *gallery {
	return &gallery{engine: e, log: log, readers: map[*reader]struct{}{}, arrived: make(chan struct{}, 1)}
}

// Live watches the events that a filter lets through; see millrace.Backbone.
func (b *Broker) Live(ctx context.Context, f millrace.LiveFilter) (iter.Seq2[millrace.LiveItem, error], error) {
	if err := b.gate.enter(); err != nil {
		return nil, err
	}
	defer b.gate.leave()
	r, err := newReader(f)
	if err != nil {
		return nil, err
	}
	if err := b.gallery.enter(ctx, r); err != nil {
		return nil, err
	}
	// A caller that never begins to read leaves with its ctx.
	stop := context.AfterFunc(ctx, func() { b.gallery.leave(r) })
	return func(yield func(millrace.LiveItem, error) bool) {
		defer b.gallery.leave(r)
		defer stop()
		r.read(ctx, yield)
	}, nil
}

// enter adds a reader; when it returns, the reader sees what is published.
func (g *gallery) enter(ctx context.Context, r *reader) error {
	g.door.Lock()
	defer g.door.Unlock()
	if g.watched == nil {
		stop, err := g.engine.Live(ctx, g.lay)
		if err != nil {
			return err
		}
		g.watched = stop
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r.from = g.laid
	if g.closed {
		r.end()
	}
	g.readers[r] = struct{}{}
	return nil
}

// leave takes a reader away, and ends the watch after the last.
func (g *gallery) leave(r *reader) {
	r.end()
	g.door.Lock()
	defer g.door.Unlock()
	g.mu.Lock()
	delete(g.readers, r)
	left := len(g.readers)
	g.mu.Unlock()
	if left == 0 && g.watched != nil {
		g.watched()
		g.watched = nil
	}
}

// close ends every reader, also those to come.
func (g *gallery) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for r := range g.readers {
		r.end()
	}
}

// lay takes what the engine shows. It does not block.
func (g *gallery) lay(e millrace.LiveEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.laid++
	if g.skipped > 0 || len(g.backlog) >= liveBacklog || g.bytes > liveBacklogBytes {
		g.skipped++
	} else {
		g.backlog = append(g.backlog, e)
		g.bytes += len(e.Body)
	}
	select {
	case g.arrived <- struct{}{}:
	default:
	}
}

// run shows readers what is laid down, until ctx ends.
func (g *gallery) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.arrived:
			g.show()
		}
	}
}

// batch is what was laid down and not yet looked at, and who reads.
type batch struct {
	first   uint64 // number of the first event
	events  []millrace.LiveEvent
	skipped int // events after these
	readers []*reader
}

func (g *gallery) take() batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := batch{first: g.laid - uint64(g.skipped) - uint64(len(g.backlog)), events: g.backlog, skipped: g.skipped}
	for r := range g.readers {
		b.readers = append(b.readers, r)
	}
	g.backlog, g.bytes, g.skipped = nil, 0, 0
	return b
}

// show matches what is laid down and hands it to the readers that want it.
func (g *gallery) show() {
	b := g.take()
	if len(b.readers) == 0 {
		return
	}
	for i := range b.events {
		g.showOne(b.first+uint64(i), &b.events[i], b.readers)
	}
	if b.skipped == 0 {
		return
	}
	g.log.Warn("events go by faster than they can be shown", "missed", b.skipped)
	end := b.first + uint64(len(b.events)+b.skipped)
	for _, r := range b.readers {
		if r.from < end {
			r.miss(int(min(uint64(b.skipped), end-r.from)))
		}
	}
}

func (g *gallery) showOne(no uint64, live *millrace.LiveEvent, readers []*reader) {
	var e millrace.Event
	if !live.Lost {
		var err error
		// The store may still hold the body; what readers get is a copy, the same for all of them.
		if e, err = millrace.DecodeEvent(slices.Clone(live.Body)); err != nil {
			g.log.Error("an event that went by cannot be read", "lane", live.Lane, "seq", live.Seq, "error", err)
			return
		}
		e.Seq, e.Prev, e.RecordedAt = live.Seq, live.Prev, live.RecordedAt
	}
	address := e.Address()
	for _, r := range readers {
		switch {
		case no < r.from:
		case live.Lost:
			r.miss(1)
		case r.wants(&e, address):
			r.add(&e)
		}
	}
}
