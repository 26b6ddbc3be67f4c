package millrace

import (
	"context"
	"encoding/binary"
	"math/bits"
	"time"
)

// OperationStatus is where an operation stands.
type OperationStatus string

// The statuses of an operation. From QUEUED it goes to RUNNING or CANCELLED, from RUNNING back to QUEUED or to
// SUCCESS, ERROR or CANCELLED; the last three are for good.
const (
	OperationQueued    OperationStatus = "QUEUED"    // its message waits, or waits for its next attempt
	OperationRunning   OperationStatus = "RUNNING"   // its message is leased
	OperationSuccess   OperationStatus = "SUCCESS"   // its message was acked
	OperationError     OperationStatus = "ERROR"     // its message is, or was, a dead letter
	OperationCancelled OperationStatus = "CANCELLED" // its message will not be leased again
)

// Finished reports whether a status is for good.
func (s OperationStatus) Finished() bool {
	return s == OperationSuccess || s == OperationError || s == OperationCancelled
}

// OperationSecret is the random part of an operation's id.
type OperationSecret [16]byte

// OperationID names an operation: by the number that its lane gave it, which also says the lane, and by 128
// random bits, so that it may be given to a browser.
type OperationID struct {
	Number uint64
	Secret OperationSecret
}

// String is the id's text: opaque to its holder.
func (id OperationID) String() string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:8], id.Number)
	copy(b[8:], id.Secret[:])
	return receiptEncoding.EncodeToString(b[:])
}

// ParseOperationID reads an id's text. A text that never was an id is one that is not found: ok is false.
func ParseOperationID(s string) (id OperationID, ok bool) {
	var b [24]byte
	if len(s) != receiptEncoding.EncodedLen(len(b)) {
		return OperationID{}, false
	}
	if _, err := receiptEncoding.Decode(b[:], []byte(s)); err != nil {
		return OperationID{}, false
	}
	id.Number = binary.BigEndian.Uint64(b[:8])
	copy(id.Secret[:], b[8:])
	return id, true
}

// Operation is the tracked life of one piece of queued work.
type Operation struct {
	Queue   string // name
	Tenant  string
	Type    string
	Subject string // what it is about; may be empty
	Event   string // the id of its message's event
	Payload []byte // JSON, without what its queue redacts; nil for none

	Status    OperationStatus
	Attempts  int // how often its message was leased
	QueuedAt  time.Time
	StartedAt time.Time // of the latest attempt; zero before the first
	ExpiresAt time.Time // when it is forgotten; zero until it has finished

	FinishedAt      time.Time
	Progress        *Progress // of the latest attempt; nil if it told none
	Output          []byte    // JSON, of a success; nil for none
	Error           string    // of the latest attempt that failed
	CancelRequested bool      // it was running when it was to be cancelled
}

// Progress is how far the latest attempt of an operation has come.
type Progress struct {
	Percent int // 0 to 100; it never falls within an attempt
	Note    string
}

// Bounds of what an operation keeps.
const (
	MaxOutput       = 64 << 10 // bytes of JSON
	MaxOutputDepth  = 61       // of nesting: an ack carries it three deep, and a request may nest 64
	MaxNoteLen      = 256      // bytes
	MaxListExamined = 1000     // operations that one page of a list looks at in a lane
)

// ErrorLeaseEnded is the error of an attempt whose lease ended before it was settled.
const ErrorLeaseEnded = "the lease ended"

// Opening begins an operation, in the step that puts its message into a tracked queue.
type Opening struct {
	Queue   string // uid
	Name    string // of the queue
	Secret  OperationSecret
	Type    string
	Subject string
	Event   string // id
	Payload []byte // JSON, without what the queue redacts; nil for none
}

// StoredOperation is an operation as its lane knows it.
type StoredOperation struct {
	ID      OperationID
	UID     string // of the queue
	Message uint64 // the name of its message
	Operation
}

// Start enqueues one piece of work in one lane.
type Start struct {
	Now    time.Time // zero: the lane's clock
	Tenant string
	Key    string        // of the event, for an ordered queue; it is in no key's chain
	Body   []byte        // from AppendEvent
	Delay  time.Duration // above 0: the message is delayed until then; not in an ordered queue

	Opening Opening

	Dedupe  Digest // what must not be open twice
	Deduped bool   // Dedupe counts
}

// Started is the outcome of a start.
type Started struct {
	ID       OperationID
	Status   OperationStatus
	Existing bool          // one of this Dedupe is open: it is this one, and nothing was stored
	Dropped  []Exit        // what went past MaxLength
	Due      time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// ReadOperation asks for one operation.
type ReadOperation struct {
	Now    time.Time // zero: the lane's clock
	Number uint64
	Watch  bool // send a HintOperation at its next change
}

// OperationPage asks one lane for operations, newest first: of a subject, of a queue, or of a subject in a queue.
type OperationPage struct {
	Now     time.Time // zero: the lane's clock
	Subject string
	Queue   string          // uid
	Status  OperationStatus // any if empty
	Tenant  string          // any if empty
	Before  uint64          // number; from the newest if 0
	Limit   int             // at most 1,000
}

// ProgressReport tells how far a leased message's work has come.
type ProgressReport struct {
	Now    time.Time // zero: the lane's clock
	Number uint64    // of the operation
	Name   uint64    // of the message, and the token of its lease
	Token  Token
	Progress
}

// Tally counts what became of operations.
type Tally struct {
	Success, Error, Cancelled, Retried int64
}

// Plus is two tallies together.
func (t Tally) Plus(o Tally) Tally {
	return Tally{t.Success + o.Success, t.Error + o.Error, t.Cancelled + o.Cancelled, t.Retried + o.Retried}
}

// CountBucket is the length of time over which operations are counted together.
type CountBucket byte

// The lengths over which operations are counted.
const (
	Minutes CountBucket = 'm'
	Hours   CountBucket = 'h'
	Days    CountBucket = 'd'
)

// Span is the length of a bucket; they begin at multiples of it since 1970.
func (b CountBucket) Span() time.Duration {
	switch b {
	case Minutes:
		return time.Minute
	case Hours:
		return time.Hour
	}
	return 24 * time.Hour
}

// Kept is how long a bucket is kept after it began.
func (b CountBucket) Kept() time.Duration {
	switch b {
	case Minutes:
		return 2 * 24 * time.Hour
	case Hours:
		return 60 * 24 * time.Hour
	}
	return 2 * 365 * 24 * time.Hour
}

// CountQuery asks one lane for the counts of a queue: of the buckets that begin at or after Since and before Until.
type CountQuery struct {
	Now          time.Time // zero: the lane's clock
	Queue        string    // uid
	Bucket       CountBucket
	Since, Until time.Time
}

// OperationCount is what happened to the operations of a queue within one bucket.
type OperationCount struct {
	At time.Time // when the bucket began
	Tally
	Queued  Spans // of those that were leased for the first time: how long they had been queued
	Running Spans // of those that ended in success or error: how long their last attempt took
}

// Spans counts lengths of time by SpanIndex. Nil is none.
type Spans map[int]int64

// SpanIndex is the class of a length of time, in milliseconds: 0 for none, then eight classes to each power of
// two, so that a class is at most an eighth wide.
func SpanIndex(ms int64) int {
	if ms <= 0 {
		return 0
	}
	e := bits.Len64(uint64(ms))
	return 8*e + int(uint64(ms)*16>>e) - 8
}

// SpanMiddle is the length that stands for a class, in milliseconds: its middle.
func SpanMiddle(index int) int64 {
	if index <= 0 {
		return 0
	}
	e, part := index/8, int64(index%8+8)
	low, next := (part<<e+15)/16, ((part+1)<<e+15)/16
	return (low + max(low, next-1)) / 2
}

// Percentile is the length within which p of 100 lie, in milliseconds; 0 if there are none.
func (s Spans) Percentile(p int) int64 {
	var n int64
	highest := 0
	for i, count := range s {
		n += count
		highest = max(highest, i)
	}
	need := (n*int64(p) + 99) / 100
	for i := 0; i <= highest; i++ {
		if need -= s[i]; need <= 0 {
			return SpanMiddle(i)
		}
	}
	return 0
}

// Operations is the part of an engine that tracks what is queued. The messages of a tracked queue have an
// operation each, opened in the step that puts them there (Publish, Start, Inject, Redrive) and moved in the
// step that moves them: status and queue never disagree. Each method is one atomic step in one lane.
//
// An operation's number is its message's name. An event that is published to several tracked queues has one name in
// all of them: the first of its Operations is numbered by it, each further one by the lane clock's next number, drawn after the event's
// seq and before the next event's. Of a redriven message, which has had an operation before, it is the lane clock's next
// number too, drawn in the order of their names. It begins QUEUED. Lease makes it RUNNING: one attempt more, StartedAt now, no progress. An ack ends it in SUCCESS,
// with the item's Output; a bury, or attempts that are spent, in ERROR; a retry, a lease that ends and a release make it QUEUED
// again, with the item's Error or ErrorLeaseEnded, and count as retried. Purge, DropOldest and Sweep cancel those of
// the messages that they remove. When its message is a dead letter it has finished: what becomes of that is not
// its concern, and a redrive opens another.
//
// A QUEUED one that is cancelled has finished at once. Its message keeps its place, counts as waiting or
// delayed (and as QueueStats.Cancelled), and is not shown by Peek; a lease that comes to it drops it instead of giving it out: it counts as one of
// Max and of its tenant's turn, not of MaxBytes, is gone as if it had been acked, and counts nowhere. A RUNNING one is only marked: Extend
// tells of it, and what would make it wait again, or dead because its attempts are spent, cancels it instead, with that error, and its message is gone and counts nowhere (in Step: ReasonCancelled). An ack or a bury ends it as
// it would any other.
//
// One that has finished is kept for the queue's Retention, or ErrorRetention after ERROR, as they were then:
// ExpiresAt says until when. From then on nothing shows it, and Step forgets it: of those of a queue that expire within one
// minute there is one entry in the due index (kind O, by uid), due when that minute is over. A queue's removal changes nothing for what has finished.
//
// Counted at each move, in the bucket of now and in the queue's total: Success, Error, Cancelled, Retried; at an operation's
// first lease how long it was queued (since QueuedAt, or since its Delay was over); at SUCCESS and ERROR how long its last attempt took.
// Removing a queue removes its counts and what ListOperations knows of it by queue; its operations that are open stay so until Sweep
// cancels them, at the lane's last now and with the Retention that the queue had. They can be cancelled until then.
//
// Reads (Operation, ListOperations, OperationCounts) do not move the lane's clock. A lease at most once of a tracked queue is CodeInvalid.
type Operations interface {
	// Start puts one event into one tracked queue, with an operation, whatever the queue's
	// match: it gets the lane's next seq and no prev, and is in no key's chain, in no topic and not shown live; it counts
	// as published. If an operation of the same Dedupe has not finished, that one is the answer and nothing is stored.
	// CodeNotFound: the lane does not know the uid. CodeNotTracked: the queue is not tracked.
	// CodeFull, CodeStoreFull: as with Publish, with a Delay too. Checked in this order: uid, tracked, Dedupe, room.
	Start(ctx context.Context, lane int, s Start) (Started, error)

	// Operation returns one, or CodeNotFound. With Watch its next change (of status, progress or the wish to cancel)
	// sends one HintOperation; one that has finished does not change. A Report is a change, whatever it says; a second wish to cancel is none.
	Operation(ctx context.Context, lane int, r ReadOperation) (StoredOperation, error)

	// ListOperations returns operations, the highest number first. It looks at MaxListExamined at most, of the subject if there is
	// one and otherwise of the queue, those that have expired but are not forgotten among them, until it has Limit; next is the
	// lowest number it looked at, or 0 if there is no lower one.
	ListOperations(ctx context.Context, lane int, p OperationPage) (list []StoredOperation, next uint64, err error)

	// CancelOperation cancels one, or asks for it if it is running, and returns it then. CodeNotFound,
	// CodeFinished: nothing changes.
	CancelOperation(ctx context.Context, lane int, now time.Time, number uint64) (StoredOperation, error)

	// Report tells of progress: the percent is raised, never lowered, the note is replaced. CodeLost: the
	// operation is unknown or not of this message, or that is not leased under the token, or now is not before its deadline; nothing changes.
	Report(ctx context.Context, lane int, p ProgressReport) error

	// OperationCounts returns the buckets in which anything was counted, by time, unless they began longer than
	// Kept before now (one that began exactly then is there), and the tally since the queue was made. An unknown uid has none.
	OperationCounts(ctx context.Context, lane int, q CountQuery) ([]OperationCount, Tally, error)
}
