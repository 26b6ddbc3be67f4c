package millrace

import (
	"context"
	"time"
)

// Message is an event in a queue, leased to a consumer.
type Message struct {
	ID          string // names the message for life
	Queue       string
	Receipt     string
	Attempt     int // from 1
	LeasedUntil time.Time
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
	return s
}

// Plus adds counts up.
func (c QueueCounts) Plus(o QueueCounts) QueueCounts {
	return QueueCounts{c.Ready + o.Ready, c.Leased + o.Leased, c.Delayed + o.Delayed, c.Dead + o.Dead}
}

// Lease asks one lane for messages of a queue.
type Lease struct {
	Now      time.Time // zero: the lane's clock
	Queue    string    // uid
	Max      int       // messages, 1 to 1,000
	MaxBytes int       // of bodies; a message that would exceed it stays, its tenant next; the first is given whatever its size
	For      time.Duration
	Token    Token // random; no two lease calls share one
}

// LeasedMessage is one message that a lane has leased out.
type LeasedMessage struct {
	Seq        uint64
	Prev       uint64
	RecordedAt time.Time
	Tenant     string
	Attempt    int
	Body       []byte // must not be changed
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
	Seq   uint64
	Token Token
	Delay time.Duration // with Retry
	Error string        // with Retry and Bury: why, at most MaxErrorLen bytes
}

// MaxErrorLen is how much of a failure's text is kept.
const MaxErrorLen = 1 << 10

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
	Lost  []int
	Until time.Time
	Due   time.Duration
}

// Queues is the part of an engine that holds queues. A queue exists in every
// lane; each method is one atomic step in one lane. A uid that the lane does not
// know is CodeNotFound, and nothing changes.
//
// The ring of a queue holds each tenant that has something waiting, once, in
// the order of its turns. A tenant enters at the tail when it gets its first
// waiting message; it is served one message a turn and goes to the tail; it
// leaves when it has nothing more. Within a tenant the lowest seq is first.
type Queues interface {
	// Lease gives the next messages of the ring to a consumer, until now+For.
	// A lease that leaves the ring empty, having found nothing or taken the
	// last, marks the queue wanted in the same step; whatever makes the ring
	// non-empty clears the mark and sends one HintQueue.
	Lease(ctx context.Context, lane int, l Lease) (Leased, error)

	// Settle ends each item's lease if seq is leased under token and now is
	// before its deadline; otherwise the item is lost and nothing changes. An
	// item twice in one call: the second is lost. A lease ends at its deadline,
	// not when Step gets to it. At most 1,000 items.
	Settle(ctx context.Context, lane int, s Settle) (Settled, error)

	// Extend moves each live item's deadline to now+For, under the same token.
	// The other messages of the same lease call keep theirs.
	Extend(ctx context.Context, lane int, e Extend) (Extended, error)

	// Stats counts the queue's messages in the lane. An unknown uid has none.
	Stats(ctx context.Context, lane int, queue string) (QueueStats, error)
}
