package millrace

import (
	"context"
	"time"
	"unicode/utf8"
)

// Message is an event in a queue, leased to a consumer.
type Message struct {
	ID          string // names the message for life
	Queue       string
	Receipt     string
	Attempt     int // from 1
	LeasedUntil time.Time
	Operation   string // id; empty if the queue is not tracked
	Event       Event
}

// QueueCounts says how many messages a queue holds, by state.
type QueueCounts struct {
	Ready, Leased, Delayed, Dead int64
}

// QueueStats is what one lane knows of a queue.
type QueueStats struct {
	QueueCounts
	Tenants int64     // that have something waiting
	Oldest  time.Time // of the unsettled, to the minute; zero if there is none
	Dropped int64     // by a limit or a removal
	Acked   int64     // settled by an ack
	Spent   int64     // that went to the dead letters

	Cancelled int64 // of what waits or is delayed: those whose operation was cancelled
}

// Plus is what two lanes know of a queue together.
func (s QueueStats) Plus(o QueueStats) QueueStats {
	s.QueueCounts = s.QueueCounts.Plus(o.QueueCounts)
	s.Tenants += o.Tenants
	if s.Oldest.IsZero() || (!o.Oldest.IsZero() && o.Oldest.Before(s.Oldest)) {
		s.Oldest = o.Oldest
	}
	s.Dropped += o.Dropped
	s.Acked += o.Acked
	s.Spent += o.Spent
	s.Cancelled += o.Cancelled
	return s
}

// Plus adds counts up.
func (c QueueCounts) Plus(o QueueCounts) QueueCounts {
	return QueueCounts{c.Ready + o.Ready, c.Leased + o.Leased, c.Delayed + o.Delayed, c.Dead + o.Dead}
}

// Lease asks one lane for messages of a queue.
type Lease struct {
	Now      time.Time     // zero: the lane's clock
	Queue    string        // uid
	Max      int           // messages, 1 to 1,000
	MaxBytes int           // of bodies; a message that would exceed it stays, its tenant next; the first is given whatever its size
	For      time.Duration // 0: at most once; the messages are gone, as if acked, when they are given
	Token    Token         // random; no two lease calls share one
	Consumer string        // who asks, for Release; may be empty
}

// LeasedMessage is one message that a lane has leased out.
type LeasedMessage struct {
	Name       uint64 // of the message in its lane, for its receipt and its id
	Seq        uint64 // of the event; the same as Name unless the event was injected
	Prev       uint64
	RecordedAt time.Time
	Tenant     string
	Attempt    int
	Body       []byte // must not be changed

	Operation OperationID // zero if the queue is not tracked
}

// Leased is the outcome of a lease.
type Leased struct {
	Messages []LeasedMessage
	Until    time.Time     // when the leases end
	Tenants  int           // that wait in the ring still; 0 means there is nothing more
	Due      time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// Verb is what a settlement does.
type Verb byte

// The verbs of a settlement.
const (
	Ack   Verb = 'a' // done: the message is gone
	Retry Verb = 'r' // failed: back to its facet after the item's delay, or dead when its attempts are spent
	Bury  Verb = 'b' // failed for good: dead
)

// Settle ends leases of one queue in one lane.
type Settle struct {
	Now   time.Time // zero: the lane's clock
	Queue string    // uid
	Verb  Verb
	Items []SettleItem
}

// SettleItem is one receipt to settle.
type SettleItem struct {
	Name  uint64 // of the message
	Token Token
	Delay time.Duration // with Retry
	Error string        // with Retry and Bury: why, at most MaxErrorLen bytes

	Output []byte // with Ack, in a tracked queue: JSON, at most MaxOutput bytes
}

// MaxErrorLen is how much of a failure's text is kept.
const MaxErrorLen = 1 << 10

// CutError is the beginning of a failure's text that is kept, in whole characters.
func CutError(text string) string {
	if len(text) <= MaxErrorLen {
		return text
	}
	n := MaxErrorLen
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Settled is the outcome of a settlement.
type Settled struct {
	Lost []int         // indexes of the items whose lease is not live; they changed nothing
	Dead int           // how many went to the dead letters because their attempts were spent
	Due  time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// Extend prolongs leases of one queue in one lane.
type Extend struct {
	Now   time.Time // zero: the lane's clock
	Queue string    // uid
	For   time.Duration
	Items []SettleItem // Delay and Error do not count
}

// Extended is the outcome of an extension.
type Extended struct {
	Lost      []int
	Cancelled []int // indexes of the others whose operation is to be cancelled
	Until     time.Time
	Due       time.Duration
}

// Queues is the part of an engine that holds queues. A queue exists in every
// lane; each method is one atomic step in one lane. A uid that the lane does not
// know is CodeNotFound, and nothing changes.
//
// The ring of a queue holds tenants, each at most once, in the order of their
// turns. A tenant enters at the tail when it has a leasable message, has a weight
// above 0, is under its limit and is not in the ring: on publish, return, settle,
// due, redrive, or a change of its weight or limit or of the queue's. A turn is as
// many messages as its weight; then it goes to the tail. It leaves when it is
// served empty or to its limit, or when its turn finds it at weight 0, at its
// limit or empty. A turn that a full lease cuts short goes on in the next call,
// with min(what was left of it, its weight). Nothing in the ring is ever searched.
//
// Within a tenant the lowest name is first. In an ordered queue a key with a
// message leased or delayed is blocked: its others wait and are not leasable, and
// the lowest name among the heads of keys that are not blocked is first; a
// message without a key is a key of its own. A message that returns is its key's
// head again. A key goes on to its next when its head is acked, dead or dropped.
//
// A paused queue leases nothing and says that no tenant waits, so that nobody
// spins; its ring stays as it is, and resuming it sends a hint if it is wanted and
// its ring is not empty.
type Queues interface {
	// Lease gives the next messages of the ring to a consumer, until now+For.
	// A lease that leaves the ring empty, having found nothing or taken the
	// last, marks the queue wanted in the same step; whatever makes the ring
	// non-empty clears the mark and sends one HintQueue.
	Lease(ctx context.Context, lane int, l Lease) (Leased, error)

	// Settle ends each item's lease if it is leased under its token and now is
	// before its deadline; otherwise the item is lost and nothing changes. An
	// item twice in one call: the second is lost. A lease ends at its deadline,
	// not when Step gets to it. At most 1,000 items.
	Settle(ctx context.Context, lane int, s Settle) (Settled, error)

	// Extend moves each live item's deadline to now+For, under the same token.
	// The other messages of the same lease call keep theirs.
	Extend(ctx context.Context, lane int, e Extend) (Extended, error)

	// Release ends at once, as if their deadline had come, up to Max leases that
	// were taken under a consumer's name, oldest group first, and says how many;
	// fewer than Max means that there are no more.
	Release(ctx context.Context, lane int, r Release) (int, error)

	// Peek shows waiting messages in the order in which they would be served if
	// every turn were one message, or one tenant's by name. At most 1,000, of the
	// first 1,000 tenants of the ring; in an ordered queue only heads. It looks at 1,000
	// messages at most, those that it does not show because they were cancelled among them.
	Peek(ctx context.Context, lane int, p Peek) ([]QueuedMessage, error)

	// Dead lists dead letters by name, after one.
	Dead(ctx context.Context, lane int, p DeadPage) ([]QueuedMessage, error)

	// Redrive makes dead letters wait again, with attempts from 0 and at their
	// old place in the facet; in an ordered queue they become the head of their
	// key, unless it is blocked: then the next. It returns how many, and how many
	// dead letters of those it was asked for are left.
	Redrive(ctx context.Context, lane int, d DeadOf) (done, left int, err error)

	// DropDead removes dead letters; they count as dropped.
	DropDead(ctx context.Context, lane int, d DeadOf) (done, left int, err error)

	// Purge removes what waits or is delayed, of one tenant or of all, up to
	// Max; it counts as dropped. What is leased stays. left is what waits or is
	// delayed still.
	Purge(ctx context.Context, lane int, p Purge) (done, left int, err error)

	// SetTenant gives a tenant a weight and a limit; nil takes them away.
	SetTenant(ctx context.Context, lane int, queue, tenant string, s *TenantSettings) error

	// Tenants lists, by name after one, tenants that hold anything or have
	// settings. Tenant shows one, zero but for its name if it has nothing.
	Tenants(ctx context.Context, lane int, queue, after string, limit int) ([]TenantStats, error)
	Tenant(ctx context.Context, lane int, queue, tenant string) (TenantStats, error)

	// Wanted returns the uids of the queues that are marked wanted in the lane, in
	// no given order: a hint will tell of these. Whoever waits for a queue that is
	// not among them has missed its hint.
	Wanted(ctx context.Context, lane int) ([]string, error)

	// Stats counts the queue's messages in the lane. An unknown uid has none.
	Stats(ctx context.Context, lane int, queue string) (QueueStats, error)
}

// Release names the leases of a consumer.
type Release struct {
	Now      time.Time // zero: the lane's clock
	Queue    string    // uid
	Consumer string
	Max      int // at most 1,000
}

// Peek asks what would be served next.
type Peek struct {
	Queue  string // uid
	Tenant string // all of them if empty
	Limit  int
}

// DeadPage asks for dead letters.
type DeadPage struct {
	Queue  string // uid
	Tenant string // of all tenants if empty
	After  uint64 // name
	Limit  int
}

// DeadOf selects dead letters: those named, or up to Max of a tenant or of all, oldest first.
type DeadOf struct {
	Now    time.Time // zero: the lane's clock
	Queue  string    // uid
	Names  []uint64
	All    bool
	Tenant string // with All
	Max    int    // with All, at most 1,000

	// Openings are of Redrive in a tracked queue, one for each of Names; All is not for those (CodeInvalid).
	Openings []Opening
}

// Purge names what is to be removed.
type Purge struct {
	Now    time.Time // zero: the lane's clock
	Queue  string    // uid
	Tenant string    // all of them if empty
	Max    int       // at most 1,000
}

// QueuedMessage is a message that waits or is dead.
type QueuedMessage struct {
	Name       uint64
	Seq, Prev  uint64
	RecordedAt time.Time
	Tenant     string
	Attempts   int
	Body       []byte

	Reason string    // of a dead letter: ReasonAttempts, ReasonBuried
	Error  string    // of a dead letter
	DeadAt time.Time // of a dead letter
}

// Why a message is dead.
const (
	ReasonAttempts = "attempts"
	ReasonBuried   = "buried"
)

// Exit is a message that left its lease or its queue although nobody named it.
type Exit struct {
	Queue  string // uid
	Name   uint64
	Reason string // ReasonLeaseEnded: it waits again; ReasonAttempts: it is dead; the others: it is gone
}

// Why a message left a lease or a queue, besides what makes it dead.
const (
	ReasonLeaseEnded = "lease_ended"
	ReasonRetention  = "dead_retention"
	ReasonMaxLength  = "max_length"
	ReasonCancelled  = "cancelled" // its operation was
)

// TenantSettings are what a tenant has instead of the queue's own.
type TenantSettings struct {
	Weight int // messages a turn; 0 pauses the tenant
	Limit  int // most messages leased; 0 for no limit; negative for the queue's
}

// TenantStats is what one lane knows of a tenant in a queue.
type TenantStats struct {
	Tenant string
	QueueCounts
	Settings *TenantSettings // nil: the queue's
	Oldest   time.Time       // of the waiting, to the minute; zero if there is none
}
