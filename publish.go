package millrace

import (
	"context"
	"time"
)

// Published is what a publisher learns of one event.
type Published struct {
	ID        string
	Seq       uint64
	Prev      uint64    // of an event with a key
	HasKey    bool      // Prev means something
	Duplicate bool      // the id was known: this is the first answer again, and nothing was stored
	Sinks     int       // how many sinks hold it
	DueAt     time.Time // of a delayed event: when it is routed; it has no Seq, Prev and Sinks yet
	Err       error     // with CodePartlyCommitted: why this event was not stored
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
	Batches    []string // uids of the subscriptions that take it, each once

	Operations []Opening // one for each of Queues that is tracked, in their order

	ID    string        // with Delay: under which the held event can be found
	Delay time.Duration // above 0: the event is held whole until then, and goes to no sink yet
	From  uint64        // the name of the held event that this is; its digest is not checked again
}

// HeldEvent is a delayed event that waits in its lane.
type HeldEvent struct {
	Name  uint64 // in the lane
	DueAt time.Time
	Body  []byte // from AppendEvent
}

// Stamp is what the lane gave one event of a commit.
type Stamp struct {
	Seq       uint64
	Prev      uint64
	Sinks     int
	Duplicate bool
	DueAt     time.Time // of a held event, which has neither Seq nor Prev nor Sinks
	Gone      bool      // the held event of From was not there any more: nothing was stored
}

// Committed is the outcome of a commit: a stamp for each event, in order.
type Committed struct {
	Stamps     []Stamp
	RecordedAt time.Time
	Dropped    []Exit        // what went past MaxLength, in no given order, for logs; of commits that share a call, one tells of all
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
	// An event with a Delay is held: stored whole under a name of the lane (its
	// clock's next number, as a seq), to be handed out by Step when it is due,
	// and remembered by its digest until then and for the window after, with
	// this first answer; it is not counted as published yet. One with From takes that held event out in
	// the same step; if it is not there any more, the event is skipped (Gone).
	//
	// Checked in this order: version, uids, digests, room. CodeStale: the lane
	// knows a newer registry than c.Version (CurrentVersion says which); nothing
	// is stored. A newer c.Version lifts the lane. A uid that the lane does not
	// know is CodeStale too, with the lane's own version: whoever sees that it is
	// not ahead applies the settings and repeats. CodeFull: a tenant of the
	// commit would have more than MaxLength waiting in a queue that refuses
	// more; Sink is the queue's uid, and nothing is stored. CodeStoreFull: no
	// room; nothing is stored. CodeOutcomeUnknown: it may be stored or not.
	//
	// Calls of many goroutines share round trips and fsyncs; each keeps its own
	// outcome. The answer leaves when the commit, and everything it was
	// computed from, is as durable as the store promises.
	Publish(ctx context.Context, lane int, c Commit) (Committed, error)

	// Held returns the delayed event that has an id and waits in the lane, or
	// CodeNotFound. Of several with one id (they differ in topic, source or
	// key) it is the one held last.
	Held(ctx context.Context, lane int, tenant, id string) (HeldEvent, error)

	// CancelHeld takes the event that Held finds back, or answers CodeNotFound.
	// Its digest is remembered on.
	CancelHeld(ctx context.Context, lane int, tenant, id string) error

	// Inject puts events that were stamped before into one queue or one
	// subscription, in the order given, each under a name of this lane (its
	// clock's next number), with the seq, prev and time it has. No chain, no
	// digest and no topic is touched; MaxLength does not count, and a disabled
	// subscription skips them (their names are spent all the same). CodeNotFound: the lane does not know the uid.
	Inject(ctx context.Context, lane int, in Inject) error
}

// Inject puts events into one queue or one subscription of one lane.
type Inject struct {
	Now          time.Time // zero: the lane's clock
	Queue        string    // uid
	Subscription string    // uid, if Queue is empty
	Events       []InjectEvent
}

// InjectEvent is an event that has its stamps.
type InjectEvent struct {
	Tenant, Key string
	Seq, Prev   uint64
	RecordedAt  time.Time
	Body        []byte // from AppendEvent

	Opening *Opening // for a tracked queue
}
