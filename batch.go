package millrace

import (
	"context"
	"time"
)

// BatchState is where a batch stands. Exactly one of these, until it is gone.
type BatchState string

// The states of a batch.
const (
	BatchEarly   BatchState = "early"   // collecting, or waiting for its next attempt
	BatchReady   BatchState = "ready"   // to be sent when its subscription's turn comes
	BatchPending BatchState = "pending" // being sent, under a token
	BatchDead    BatchState = "dead"    // its attempts are spent
)

// SubscriptionSettings is what the lanes themselves must know of a subscription.
type SubscriptionSettings struct {
	UID     string
	Version uint64 // of the definition; a lane that has settings of a later one keeps those

	Timeout   time.Duration // how long a new batch collects
	MaxEvents int           // of a batch
	MaxBytes  int           // of a batch's bodies; never less than a body may have

	Ordered     bool            // one batch at a time, in the order of names; cannot change
	Concurrency int             // most batches pending in the lane
	Schedule    []time.Duration // the waits after a batch's attempts; one attempt more than waits
	Retention   time.Duration   // after which a dead batch goes; 0 for never
	Format      string          // a word that a batch keeps from when it is opened

	Paused   bool // collects, sends nothing
	Disabled bool // collects nothing, sends nothing, keeps what it has
}

// Jitter spreads a wait: it is from 0 to 1,000 and stands for 0.8 to 1.2 times. 500 changes nothing.
type Jitter int

// NoJitter leaves a wait as it is.
const NoJitter Jitter = 500

// Spread is a wait with its jitter, in whole milliseconds, rounded down; one at
// least, so that nothing a step makes wait is due in the same step.
func (j Jitter) Spread(d time.Duration) time.Duration {
	ms := d.Milliseconds() * (8000 + 4*int64(j)) / 10000
	return time.Duration(max(1, ms)) * time.Millisecond
}

// Take asks one lane for batches to send.
type Take struct {
	Now      time.Time     // zero: the lane's clock
	Max      int           // batches, 1 to 64
	MaxBytes int           // of bodies; a batch that would exceed it stays, its subscription next; the first is given whatever its size
	For      time.Duration // how long they are pending before they count as failed
	Token    Token         // random; no two calls share one
	Node     string        // who sends them, for listings
}

// Taken is the outcome of a take.
type Taken struct {
	Batches []TakenBatch
	More    bool          // the ring is not empty
	Due     time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// TakenBatch is a batch to be sent.
type TakenBatch struct {
	Subscription string // uid
	Version      uint64 // of the definition that the lane has the subscription's settings from: nobody sends it by an older one
	Name         uint64
	Attempt      int // from 1
	CreatedAt    time.Time
	Format       string
	Events       []BatchEvent // in the order in which they were appended
}

// BatchEvent is one event of a batch.
type BatchEvent struct {
	Seq, Prev  uint64
	RecordedAt time.Time
	Body       []byte // must not be changed
}

// Outcomes tell one lane how the sending of batches went.
type Outcomes struct {
	Now   time.Time // zero: the lane's clock
	Items []Outcome // at most 64
}

// Outcome is how the sending of one batch went.
type Outcome struct {
	Subscription string // uid
	Name         uint64
	Token        Token
	OK           bool
	Error        string        // of a failure, at most MaxErrorLen bytes
	After        time.Duration // of a failure: what the receiver asked for; 0 for the schedule
	Jitter       Jitter        // of a failure
	Log          []byte        // unless empty, kept as the newest of the last 100 of the subscription in the lane, also if the item is lost
}

// SettledBatches are what became of outcomes.
type SettledBatches struct {
	Items []SettledBatch
	Due   time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// SettledBatch is what became of one outcome.
type SettledBatch struct {
	Lost         bool      // it is not pending under this token: nothing changed
	Dead         bool      // its attempts were spent
	FailingSince time.Time // the first failure of the subscription in this lane since the last success; zero if there is none
}

// Batch is a batch as listings show it.
type Batch struct {
	Name      uint64
	State     BatchState
	Current   bool // it collects
	Count     int
	Bytes     int
	Attempts  int
	CreatedAt time.Time
	DueAt     time.Time // early: when it is ready; pending: when it counts as failed; dead: when it goes; zero if it does not
	Node      string    // pending: who sends it
	Error     string    // of its last failure
}

// BatchPage asks for batches of a subscription.
type BatchPage struct {
	Subscription string     // uid
	State        BatchState // all of them if empty
	After        uint64     // name
	Limit        int        // at most 1,000
}

// BatchesOf selects batches of a subscription: those named, or up to Max dead ones, oldest first.
type BatchesOf struct {
	Now          time.Time // zero: the lane's clock
	Subscription string    // uid
	Names        []uint64  // at most 1,000
	Dead         bool
	Max          int // with Dead, at most 1,000
}

// SubscriptionStats is what one lane knows of a subscription.
type SubscriptionStats struct {
	Queued  int64 // events in batches that are early, ready or pending
	Dead    int64 // events in dead batches
	Sent    int64 // events
	Failed  int64 // attempts
	Dropped int64 // events, by a limit or a removal
	Skipped int64 // events that came while it was disabled
	Batches int64 // in every state
	Pending int64 // batches

	Oldest        time.Time // when the oldest batch that is not dead was opened; zero if there is none
	Reason        string    // of the last failure since the last success
	FailingSince  time.Time // the first failure since the last success; zero if there is none
	NextAttemptAt time.Time // parked: when it is probed; zero if it is not parked
	Parked        bool      // backing off as a whole: parked, or probing
}

// Batches is the part of an engine that holds what is on its way to
// subscriptions. A subscription exists in every lane; each method is one atomic
// step in one lane. A uid that the lane does not know is CodeNotFound.
//
// Publish appends an event to the current batch of each of its subscriptions, in
// the same step as everything else. If there is none, or the event would take its
// bytes past MaxBytes (then it becomes ready first), a new one is opened: early,
// current, named by the event's seq, due Timeout after now (kind B). One that has
// MaxEvents or more after an append is ready at once. A subscription that is disabled takes nothing; the
// event counts as skipped and not as one of the event's sinks.
//
// An early batch whose time has come is made ready by Step, and is current no
// more. Whoever takes a batch out of a state is the only one who puts it into
// the next: nothing is in two.
//
// A subscription can be served when it is neither paused nor disabled nor parked,
// has a ready batch and fewer batches pending than Concurrency, or than 1 if it is
// ordered or probing; and if it is ordered, no failed batch of it waits for its
// next attempt. The ring of a lane holds subscriptions that can be served, each at
// most once; one enters at the tail when it becomes so, is served one batch a turn,
// the lowest name first, and goes to the tail while it can be. One found unable at
// its turn leaves. A take that finds the ring empty, or leaves it so, marks the lane wanted;
// what makes the ring non-empty clears the mark and sends one HintBatch.
//
// A pending batch is under a token until its deadline (kind T); then it has
// failed, with the error "lost" and NoJitter. When a batch fails: its Attempts count
// what was taken; if they are more than the waits of Schedule it is dead, due Retention
// later if there is one (kind Y: it is gone then, and its events count as dropped); otherwise it is early, not current, due after its
// wait: After if that is more than 0, else Schedule[Attempts-1] with its jitter. An ordered
// subscription waits for it: no other batch is taken until this one is gone or dead.
//
// Backing off as a whole: a failure of a subscription that is not parked counts; the third in a row, or
// one while probing, parks it: until now + (After, else Schedule[min(round, last)] with the jitter), round being
// how often it was parked since the last success, from 0 (kind K). What fails while it is
// parked does not count. When the park ends it is probing: one batch at a time. A success ends
// it all: failures, round, park, probing. While a Schedule has no waits, no failure counts and nothing parks.
//
// Entries of the due index that are of one time go by kind (B, D, E, K, L, O, T, X, Y), then by uid, then by name.
type Batches interface {
	// Take gives ready batches to a node, by the ring, until now+For.
	Take(ctx context.Context, lane int, t Take) (Taken, error)

	// SettleBatches ends each pending batch if it is pending under its token and now is before
	// its deadline; otherwise the item is lost and only its Log counts. A batch that
	// was sent is gone, and its events count as sent. Items of a uid that the lane does not
	// know are lost.
	SettleBatches(ctx context.Context, lane int, o Outcomes) (SettledBatches, error)

	// ListBatches lists batches by name, after one.
	ListBatches(ctx context.Context, lane int, p BatchPage) ([]Batch, error)

	// Batch returns one batch with its events, or CodeNotFound.
	Batch(ctx context.Context, lane int, subscription string, name uint64) (Batch, []BatchEvent, error)

	// RetryBatches makes batches ready at once, whatever they waited for; a dead one's
	// attempts begin anew, another's go on. A park is not ended. What is ready or pending and names that are not there are left alone. It
	// returns how many, and how many dead ones are left.
	RetryBatches(ctx context.Context, lane int, b BatchesOf) (done, left int, err error)

	// DropBatch removes a batch; its events count as dropped. CodePending: it is being
	// sent. CodeNotFound: it is not there.
	DropBatch(ctx context.Context, lane int, subscription string, name uint64) error

	// DropOldest removes up to max (at most 1,000) batches of any subscriptions, lowest name
	// first, of one name by uid, but none that is pending. It returns what it dropped, by subscription; nothing means
	// that there is nothing to drop.
	DropOldest(ctx context.Context, lane int, max int) ([]DroppedBatch, error)

	// AttemptLog returns what Outcomes logged for a subscription, newest first.
	AttemptLog(ctx context.Context, lane int, subscription string) ([][]byte, error)

	// SubscriptionStats counts what the lane knows. An unknown uid has nothing.
	SubscriptionStats(ctx context.Context, lane int, subscription string) (SubscriptionStats, error)
}

// DroppedBatch is a batch that was removed to make room.
type DroppedBatch struct {
	Subscription string // uid
	Name         uint64
	Count        int
}

// MaxAttemptLog is how many attempts a lane remembers of a subscription.
const MaxAttemptLog = 100
