package millrace

import (
	"context"
	"time"
)

// Backbone is what a program does with Millrace. A broker offers it in-process
// and a client over HTTP, with the same meaning and the same errors.
type Backbone interface {
	// Publish commits events to every sink that wants them and returns one
	// result per event, in order. All faults are found before anything is
	// stored. Events of one commit (one lane, at most
	// 10,000 appends) share their fate; if some failed, the
	// error is CodePartlyCommitted and its Events say which were stored.
	// Repeating the same events with the same ids is safe.
	Publish(ctx context.Context, events ...Event) ([]Published, error)

	// Queues is what is done with queues.
	Queues() QueueService

	// Topics is what is done with topics.
	Topics() TopicService

	// Stats describes the store.
	Stats(ctx context.Context) (Stats, error)

	// Nodes lists the processes that have joined the store.
	Nodes(ctx context.Context) ([]Node, error)
}

// QueueService is what a program does with queues. A name that is not a queue is CodeNotFound.
type QueueService interface {
	// Put defines a queue or replaces its definition, and returns it. Once it
	// has answered, every later publish obeys it. created says that it is new.
	Put(ctx context.Context, name string, spec QueueSpec) (q Queue, created bool, err error)
	Get(ctx context.Context, name string) (Queue, error)

	// List returns queues by name, from a page's cursor on, and the cursor of
	// the next page, empty after the last.
	List(ctx context.Context, page Page) (queues []Queue, next string, err error)

	// Delete removes a queue with all it holds; with ifEmpty only if it holds nothing (CodeNotEmpty).
	Delete(ctx context.Context, name string, ifEmpty bool) error

	// Lease takes messages in fair turns. It answers at the first message, or
	// with none at the end of the wait.
	Lease(ctx context.Context, name string, o LeaseOptions) ([]Message, error)

	// Ack ends leases with success, Retry for another attempt after each item's
	// delay (or the queue's backoff), Bury for good. Extend prolongs them.
	Ack(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Retry(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Bury(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Extend(ctx context.Context, name string, lease time.Duration, receipts ...string) (SettleResult, error)
}

// Queue is a queue's definition and what it holds.
type Queue struct {
	Name    string
	Version int // how often it was defined
	State   string
	Spec    QueueSpec
	QueueStats
}

// Page asks for a part of a list.
type Page struct {
	Limit  int // 100 if 0, at most 1000
	Cursor string
}

// Limits of a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// LeaseOptions says what a consumer wants.
type LeaseOptions struct {
	Max   int           // messages; 1 if 0, at most MaxLeaseCount
	Wait  time.Duration // for the first message; at most MaxWait
	Lease time.Duration // the queue's if 0
}

// Settlement is one receipt to settle.
type Settlement struct {
	Receipt string
	Delay   *time.Duration // with Retry; nil for the queue's backoff
	Error   string         // with Retry and Bury; cut at MaxErrorLen bytes
}

// SettleResult says what became of a settlement's receipts.
type SettleResult struct {
	Settled     int
	Lost        []string  // never given, of another queue, spent or expired: they changed nothing
	Dead        int       // whose attempts were spent
	LeasedUntil time.Time // with Extend
}

// TopicService is what a program does with topics.
type TopicService interface {
	Get(ctx context.Context, name string) (Topic, error)
	List(ctx context.Context, page Page) (topics []Topic, next string, err error)

	// Put hands a topic to a publisher, or to nobody if it is empty.
	Put(ctx context.Context, name, publisher string) (Topic, error)

	// Delete forgets a topic's record and claim. Sinks are not touched.
	Delete(ctx context.Context, name string) error
}

// Topic is what is known of a topic.
type Topic struct {
	TopicStats
	Publisher string // whose it is; empty for nobody's
}

// Stats describes the store.
type Stats struct {
	Identity
	Durability Durability
	Bytes      int64
	LaneStats
	Refused int64 // publishes that this node refused since it started
	Queues  QueueCounts
}
