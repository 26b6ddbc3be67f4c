package millrace

import (
	"context"
	"log/slog"
	"time"
)

// Format is the version of the stored form. A store of another format is refused.
const Format = 1

// Engine is an opened store. Its methods may be called from many goroutines.
//
// A method that names a lane is one atomic transition in that lane: it happens
// whole or not at all, on disk as in memory. A request's now is an argument; the
// zero time means the lane's own clock, read once inside the transition. A
// lane's clock never goes back: a now before the last one counts as the last
// one, and every transition that answers without an error stores its now. Times
// are whole milliseconds; durations are rounded up to them. Randomness is an
// argument too.
//
// No answer leaves before everything it was computed from is as durable as the
// store's level says. CodeLaneMissing: the lane has vanished from the store.
// CodeUnavailable: nothing happened, it may be tried again. CodeOutcomeUnknown:
// it may have happened.
type Engine interface {
	Store
	Registry
	Publisher
	Queues
	Batches
	Operations
	Triggers
	Topics
	Nodes
	Lives
}

// Store is the part of an engine that is about the store itself.
type Store interface {
	// Identity says what the store is. It never changes while it is open.
	Identity() Identity

	// Durability is the level that answers have now.
	Durability() Durability

	// Watch hands every hint to f from now on, until stop is called. f must not
	// block. Hints may be lost or repeated; a HintAll comes first, when the
	// watch stands, and again whenever some may have been lost. At most one
	// watcher at a time.
	Watch(f func(Hint)) (stop func())

	// Step does up to max (at most 1,000 messages) of what is due in a lane, at
	// or before now: leases that have ended go back to their own facet, or to
	// the dead letters when their attempts are spent; retries whose delay is
	// over go back to theirs; delayed events are handed out; dead letters whose
	// retention is over go. In the order of time; at one millisecond, retries
	// before delayed events, leases and dead letters, each by uid; retries and
	// dead letters of one queue, and delayed events, by name; lease groups (a
	// token and a deadline) by token, and their messages in the order in which
	// they joined the group. What is left of a group stays due. What is due of
	// subscriptions is said with Batches; each batch, and each end of a park, is one of max.
	// So is each operation that is forgotten.
	Step(ctx context.Context, lane int, now time.Time, max int) (Stepped, error)

	// Sweep frees up to max entries (messages, events of batches) of what removed
	// sinks left in a lane and returns how many it freed; fewer than max means that
	// there is no more. They count as dropped in the lane.
	Sweep(ctx context.Context, lane int, max int) (int, error)

	// LaneStats returns a lane's counters.
	LaneStats(ctx context.Context, lane int) (LaneStats, error)

	// Bytes is the size of the store, on disk or in memory, wherever it lies.
	Bytes(ctx context.Context) (int64, error)

	// Ping reports whether the store can answer now.
	Ping(ctx context.Context) error

	// Check verifies the engine's invariants and names every one that does not
	// hold. It reads everything; nothing else should run.
	Check(ctx context.Context) error

	// Close stops the engine. What was answered is kept; calls still under way
	// fail with CodeUnavailable or CodeOutcomeUnknown.
	Close() error
}

// Identity is what is recorded in a store when it is created.
type Identity struct {
	Engine    string // "embedded" or "redis"
	StoreID   string
	Format    int
	Lanes     int
	Namespace string
	Created   bool // this opening created the store
}

// Durability names what an answer means.
type Durability string

// The levels of durability.
const (
	Durable    Durability = "durable"    // embedded: fsynced
	Buffered   Durability = "buffered"   // embedded: in the operating system's cache, fsynced in intervals
	InMemory   Durability = "memory"     // in memory only
	EverySec   Durability = "everysec"   // Redis: up to 2 s and one fsync can go
	Fsync      Durability = "fsync"      // Redis: appendfsync always
	Replicated Durability = "replicated" // Redis: acknowledged by the replicas asked for
	Unknown    Durability = "unknown"    // Redis: its CONFIG is forbidden
)

// EngineOptions are the settings of every engine. The zero value is usable.
type EngineOptions struct {
	Lanes        int           // when the store is created; 0: the engine's default. A mismatch with an existing store is CodeMismatch
	Namespace    string        // "millrace" if empty
	Existing     bool          // do not create a store: CodeNotFound if there is none
	DedupeWindow time.Duration // how long given ids are remembered at least; 10 minutes if 0
	SyncInterval time.Duration // embedded: fsync in intervals instead of before each answer
	Reserve      int64         // embedded: bytes of free space below which publish is refused; 512 MiB if 0, none if negative
	WaitReplicas int           // Redis: replicas that must have each commit before it is answered
	RedisPublish *bool         // Redis: PUBLISH each event for any client of the server; if nil, unless it is a Cluster
	Logger       *slog.Logger  // slog.Default() if nil
}

// DefaultNamespace prefixes every key and channel unless another is chosen.
const DefaultNamespace = "millrace"

// DefaultDedupeWindow is how long given ids are remembered at least.
const DefaultDedupeWindow = 10 * time.Minute

// Stepped is the outcome of a step.
type Stepped struct {
	Expired   int // leases that had ended
	Returned  int // retries whose delay was over
	Dead      int // of the expired, those whose attempts were spent
	Forgotten int // dead letters and dead batches whose retention was over
	Promoted  int // batches whose time had come
	Scrubbed  int // batches that were pending too long, and so failed
	Ended     int // operations whose retention was over
	// Events are delayed events that are due, to be routed and published From
	// their names. They stay held and are handed out again after 10 s.
	Events []HeldEvent
	Exits  []Exit        // which leases had ended and which dead letters went, in no given order: for logs
	More   bool          // something is still due
	Due    time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// LaneStats are a lane's counters since the store was created, and its registry version.
type LaneStats struct {
	Version     uint64
	Published   int64
	Duplicates  int64
	Unrouted    int64
	Dropped     int64
	Held        int64         // delayed events that wait
	ClockOffset time.Duration // by which the lane's clock runs ahead of the machine's, after that went back
}

// Plus is the counters of two lanes together.
func (s LaneStats) Plus(o LaneStats) LaneStats {
	s.Version = max(s.Version, o.Version)
	s.Published += o.Published
	s.Duplicates += o.Duplicates
	s.Unrouted += o.Unrouted
	s.Dropped += o.Dropped
	s.Held += o.Held
	s.ClockOffset = max(s.ClockOffset, o.ClockOffset)
	return s
}

// HintKind is what a hint is about.
type HintKind byte

// The kinds of hints.
const (
	HintAll       HintKind = iota // anything may have happened: look everywhere
	HintQueue                     // a queue that was wanted has messages in a lane
	HintDue                       // a lane's next due entry is now In away
	HintRegistry                  // the registry has changed
	HintBatch                     // a lane that was wanted has batches to send
	HintOperation                 // an operation that is watched has changed
)

// Hint says that something may be worth a look.
type Hint struct {
	Kind  HintKind
	Lane  int
	Queue string        // uid, of a HintQueue
	In    time.Duration // of a HintDue

	Operation uint64 // number, of a HintOperation
}
