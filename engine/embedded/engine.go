// Package embedded is the engine that keeps a store in one directory: Pebble
// for durability, and per lane an index in memory that grows with tenants, work in
// flight and batches, never with the messages and events that wait.
package embedded

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
)

// Engine is an opened store. It fulfils millrace.Engine.
type Engine struct {
	identity   millrace.Identity
	durability millrace.Durability
	window     time.Duration // of remembered ids
	interval   time.Duration // of syncs; 0: every commit is synced
	log        *slog.Logger
	clock      func() time.Time

	db       *pebble.DB
	lock     *pebble.Lock // of the directory
	lanes    []*lane
	registry *registry
	nodes    nodes
	space    space
	watcher  atomic.Pointer[func(millrace.Hint)]
	live     viewer

	journals  []*journal
	wake      chan struct{}
	stop      chan struct{}
	committed chan struct{} // closed when the committer has ended
	applied   chan []flight // from the committer to the syncer
	synced    chan struct{} // closed when the syncer has ended

	life   sync.RWMutex // read-locked by every call, so that Close can wait for them
	loaded atomic.Bool  // the index is rebuilt
	closed atomic.Bool
	broken chan struct{} // closed by the first failure
	reason atomic.Pointer[error]
}

// Open opens the store in a directory of the machine, or creates it.
func Open(ctx context.Context, dir string, o millrace.EngineOptions) (*Engine, error) {
	e := newEngine(o, millrace.Durable)
	e.space.use(vfs.Default, dir, o.Reserve)
	return e.open(ctx, vfs.Default, dir, o)
}

// OpenMemory creates a store that lives in memory and ends with Close.
func OpenMemory(ctx context.Context, o millrace.EngineOptions) (*Engine, error) {
	return newEngine(o, millrace.InMemory).open(ctx, vfs.NewMem(), "millrace", o)
}

// OpenFS opens the store in a directory of any file system, or creates it. Free
// space is not watched there.
func OpenFS(ctx context.Context, fs vfs.FS, dir string, o millrace.EngineOptions) (*Engine, error) {
	return newEngine(o, millrace.Durable).open(ctx, fs, dir, o)
}

func newEngine(o millrace.EngineOptions, d millrace.Durability) *Engine {
	e := &Engine{
		durability: d, window: o.DedupeWindow, interval: o.SyncInterval, log: o.Logger, clock: time.Now,
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
		committed: make(chan struct{}), broken: make(chan struct{}),
		applied: make(chan []flight, 16), synced: make(chan struct{}),
	}
	if e.window <= 0 {
		e.window = millrace.DefaultDedupeWindow
	}
	if e.log == nil {
		e.log = slog.Default()
	}
	if d == millrace.Durable && e.interval > 0 {
		e.durability = millrace.Buffered
	}
	return e
}

// Identity says what the store is.
func (e *Engine) Identity() millrace.Identity { return e.identity }

// Durability is the level that answers have.
func (e *Engine) Durability() millrace.Durability { return e.durability }

// Watch hands every hint to f from now on, a HintAll first, until stop is called.
func (e *Engine) Watch(f func(millrace.Hint)) (stop func()) {
	p := &f
	e.watcher.Store(p)
	f(millrace.Hint{Kind: millrace.HintAll})
	return func() { e.watcher.CompareAndSwap(p, nil) }
}

// LaneStats returns a lane's counters.
func (e *Engine) LaneStats(ctx context.Context, lane int) (millrace.LaneStats, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.LaneStats{}, err
	}
	defer e.leave()
	var s millrace.LaneStats
	err = l.do(ctx, func(*group) error {
		m := &l.meta
		s = millrace.LaneStats{
			Version: m.version, Published: m.published, Duplicates: m.duplicates, Unrouted: m.unrouted,
			Dropped: m.dropped, Held: int64(len(l.held)), ClockOffset: time.Duration(m.offset) * time.Millisecond,
		}
		return nil
	})
	return s, err
}

// Bytes is the size of the store's files.
func (e *Engine) Bytes(ctx context.Context) (int64, error) {
	if err := e.enterStore(ctx); err != nil {
		return 0, err
	}
	defer e.leave()
	return int64(e.db.Metrics().DiskSpaceUsage()), nil
}

// Ping reports whether the store can answer now.
func (e *Engine) Ping(ctx context.Context) error {
	if err := e.enterStore(ctx); err != nil {
		return err
	}
	e.leave()
	return nil
}

// Close stops the engine: it waits for the calls under way, writes what is
// only counted so far, and gives the directory free.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	e.life.Lock()
	defer e.life.Unlock()
	close(e.stop)
	return e.closeStore()
}

// closeStore ends the committer and Pebble. After a failure Pebble may never
// answer again; then it is left as it is, and ends with the process.
func (e *Engine) closeStore() error {
	select {
	case <-e.synced:
	case <-e.broken:
	}
	if err := e.failure(); err != nil {
		return e.abandon(err)
	}
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "flush the store")
	}
	select {
	case <-flushed:
	case <-e.broken: // Pebble tries a flush that fails again and again
		return e.abandon(e.failure())
	}
	if err := errors.Join(e.db.Close(), e.lock.Close()); err != nil {
		return millrace.Wrap(millrace.CodeInternal, err, "close the store")
	}
	return nil
}

// enter begins a call that names a lane; leave ends it.
func (e *Engine) enter(ctx context.Context, lane int) (*lane, error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, err
	}
	if lane < 0 || lane >= len(e.lanes) {
		e.leave()
		return nil, millrace.Errorf(millrace.CodeLaneMissing, "the store has no lane %d", lane)
	}
	return e.lanes[lane], nil
}

func (e *Engine) enterStore(ctx context.Context) error {
	if err := e.refusal(ctx); err != nil {
		return err
	}
	e.life.RLock()
	if err := e.refusal(ctx); err != nil {
		e.life.RUnlock()
		return err
	}
	return nil
}

func (e *Engine) leave() { e.life.RUnlock() }

// refusal says why nothing can be done now, or nil.
func (e *Engine) refusal(ctx context.Context) error {
	if err := e.failure(); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "the store has stopped after a failure")
	}
	if e.closed.Load() {
		return millrace.Errorf(millrace.CodeUnavailable, "the store is closed")
	}
	if err := ctx.Err(); err != nil {
		return millrace.Wrap(millrace.CodeUnavailable, err, "the caller has given up")
	}
	return nil
}

var _ millrace.Engine = (*Engine)(nil)
