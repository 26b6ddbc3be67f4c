package millrace

import (
	"context"
	"time"
)

// Published is what a publisher learns of one event.
type Published struct {
	ID        string
	Seq       uint64
	Prev      uint64 // of an event with a key
	HasKey    bool   // Prev means something
	Duplicate bool   // the id was known: this is the first answer again, and nothing was stored
	Sinks     int    // how many sinks hold it
	Err       error  // with CodePartlyCommitted: why this event was not stored
}

// Commit is the events of one request that fall into one lane.
type Commit struct {
	Now     time.Time // zero: the lane's clock
	Version uint64    // of the registry that it was routed with
	Events  []CommitEvent
}

// CommitEvent is one event on its way into a lane.
type CommitEvent struct {
	Digest     Digest // of the id that the publisher gave
	Remembered bool   // Digest counts; an id that nobody gave is not remembered
	Tenant     string
	Topic      string
	Key        string
	Body       []byte   // from AppendEvent; the engine may keep it, so it must not change
	Queues     []string // uids of the queues that take it
}

// Stamp is what the lane gave one event of a commit.
type Stamp struct {
	Seq       uint64
	Prev      uint64
	Sinks     int
	Duplicate bool
}

// Committed is the outcome of a commit: a stamp for each event, in order.
type Committed struct {
	Stamps     []Stamp
	RecordedAt time.Time
	Due        time.Duration // until the lane's next due entry; 0 if it is overdue, negative if there is none
}

// Publisher is the part of an engine that takes events.
type Publisher interface {
	// Publish commits a request's events to one lane, in one atomic step: all
	// of them, each in all of its sinks, or none. For each event: a known
	// digest answers with the first stamp and stores nothing; otherwise the
	// event gets the lane's next seq, and with a key the key's last seq as
	// prev; its body is stored once if any sink wants it, a message is appended
	// to its tenant's facet in each queue, and the digest is remembered for the
	// store's window at least. Two events with one digest in one commit: the
	// second is the duplicate of the first.
	//
	// Checked in this order: version, uids, digests. CodeStale: the lane knows a newer registry than c.Version (CurrentVersion
	// says which); nothing is stored. A newer c.Version lifts the lane. A uid
	// that the lane does not know is CodeStale too, with the lane's own version:
	// whoever sees that it is not ahead applies the settings and repeats. CodeStoreFull: no room;
	// nothing is stored. CodeOutcomeUnknown: it may be stored or not.
	//
	// Calls of many goroutines share round trips and fsyncs; each keeps its own
	// outcome. The answer leaves when the commit, and everything it was
	// computed from, is as durable as the store promises.
	Publish(ctx context.Context, lane int, c Commit) (Committed, error)
}
