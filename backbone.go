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

	// Held returns a delayed event of a tenant that is not due yet, or
	// CodeNotFound; CancelHeld takes it back. Its id is remembered on: the same
	// event published again is a duplicate.
	Held(ctx context.Context, tenant, id string) (Delayed, error)
	CancelHeld(ctx context.Context, tenant, id string) error

	// Route says which sinks an event of this address would reach now.
	Route(ctx context.Context, tenant, topic, typ string) (Route, error)

	// Queues is what is done with queues.
	Queues() QueueService

	// Subscriptions is what is done with subscriptions.
	Subscriptions() SubscriptionService

	// Operations is what is done with operations, Triggers with the secret URLs that begin them.
	Operations() OperationService
	Triggers() TriggerService

	// Topics is what is done with topics.
	Topics() TopicService

	// Definitions is everything that is defined, as one document. Applied again,
	// it changes nothing.
	Definitions(ctx context.Context) (Document, error)

	// Apply makes a document's definitions the store's. All faults are found
	// before anything is changed; the definitions of queues, their removal
	// included, are then written in one step, all or none. Tenants' settings and
	// the lanes follow one by one: an error after that step says so, and the same
	// document again completes it. What stands already is not changed.
	Apply(ctx context.Context, d Document, o ApplyOptions) (Applied, error)

	// Stats describes the store.
	Stats(ctx context.Context) (Stats, error)

	// Nodes lists the processes that have joined the store.
	Nodes(ctx context.Context) ([]Node, error)

	Live
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
	// with none at the end of the wait, or at once when the queue is paused.
	Lease(ctx context.Context, name string, o LeaseOptions) ([]Message, error)

	// LeaseAny leases from several queues, each with a weight of 1 to 1,000: of
	// those that have messages, each is asked first in proportion to its weight.
	// A queue without a Lease of its own in o uses its own lease time.
	LeaseAny(ctx context.Context, weights map[string]int, o LeaseOptions) ([]Message, error)

	// Ack ends leases with success, Retry for another attempt after each item's
	// delay (or the queue's backoff), Bury for good. Extend prolongs them.
	Ack(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Retry(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Bury(ctx context.Context, name string, items ...Settlement) (SettleResult, error)
	Extend(ctx context.Context, name string, lease time.Duration, receipts ...string) (SettleResult, error)

	// Release gives back at once all that was leased under a consumer's name,
	// and says how many: what a consumer does that was restarted.
	Release(ctx context.Context, name, consumer string) (int, error)

	// Pause stops leasing; what is leased can be settled, and events still come
	// in. Resume ends it. Neither is an error when nothing changes.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error

	// Peek shows waiting messages in the order of serving (with several lanes:
	// by turns over the lanes), of one tenant if it is not empty.
	Peek(ctx context.Context, name, tenant string, limit int) ([]StoredMessage, error)

	// Dead lists dead letters, oldest first, of one tenant if it is not empty.
	Dead(ctx context.Context, name, tenant string, page Page) (dead []StoredMessage, next string, err error)

	// Redrive makes dead letters wait again, their attempts from 0; DropDead
	// removes them. Each does at most 1,000 a call and says what is left. An id
	// that names no dead letter is CodeNotFound if it is the only one.
	Redrive(ctx context.Context, name string, which DeadSelection) (done, left int, err error)
	DropDead(ctx context.Context, name string, which DeadSelection) (done, left int, err error)

	// Purge removes what waits or is delayed, of one tenant if it is not empty,
	// and says how much, and what is left because it came in meanwhile.
	Purge(ctx context.Context, name, tenant string) (done, left int, err error)

	// Tenants lists tenants that hold anything or have settings, deepest first;
	// of more than 10,000 the deepest of those examined.
	Tenants(ctx context.Context, name string, page Page) (tenants []Tenant, next string, err error)
	Tenant(ctx context.Context, name, tenant string) (Tenant, error)
	PutTenant(ctx context.Context, name, tenant string, s TenantSettings) (Tenant, error)
	DeleteTenant(ctx context.Context, name, tenant string) error

	// Inject puts events into this queue alone, with the id, seq, prev and times
	// that they have, and says how many. It remembers no ids: repeated, they are
	// in twice. Events of one lane share their fate; if only some are in, the
	// error is CodePartlyCommitted and its Events say which: repeat the others.
	Inject(ctx context.Context, name string, events ...Event) (int, error)
}

// Delayed is an event that waits until it is due.
type Delayed struct {
	Event
	DueAt time.Time
}

// Route is what an address would reach.
type Route struct {
	Address string
	Sinks   []Sink
}

// Sink is one place that takes events.
type Sink struct {
	Kind  Kind
	Name  string
	Match string
	State string
}

// StoredMessage is a message that waits or is dead.
type StoredMessage struct {
	ID       string
	Attempts int
	Event    Event

	Reason string    // of a dead letter
	Error  string    // of a dead letter
	DeadAt time.Time // of a dead letter
}

// DeadSelection selects dead letters: those with these ids, or all, of one tenant if it is not empty.
type DeadSelection struct {
	IDs    []string
	All    bool
	Tenant string
}

// Tenant is what a tenant has in a queue.
type Tenant struct {
	Name string
	QueueCounts
	Weight int // messages a turn
	Limit  int // most messages leased; 0 for no limit
	Oldest time.Time
}

// The states of a queue.
const (
	StateActive = "active"
	StatePaused = "paused"
)

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

	AtMostOnce bool   // the messages are gone when they are given, and have no receipt; not in an ordered queue
	Consumer   string // who asks, for Release; a name, or empty
}

// Settlement is one receipt to settle.
type Settlement struct {
	Receipt string
	Delay   *time.Duration // with Retry; nil for the queue's backoff
	Error   string         // with Retry and Bury; cut at MaxErrorLen bytes
	Output  []byte         // with Ack, in a tracked queue: JSON, at most MaxOutput bytes; elsewhere it is not kept
}

// SettleResult says what became of a settlement's receipts.
type SettleResult struct {
	Settled     int
	Lost        []string  // never given, of another queue, spent or expired: they changed nothing
	Dead        int       // whose attempts were spent
	LeasedUntil time.Time // with Extend
	Cancelled   []string  // with Extend: those whose operation is to be cancelled
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
	Publisher     string   // whose it is; empty for nobody's
	Subscriptions []string // that name it among their topics, by name
}

// Stats describes the store.
type Stats struct {
	Identity
	Durability Durability
	Bytes      int64
	LaneStats
	Refused int64 // events that this node refused since it started; a request that could not be read counts as one
	Queues  QueueCounts

	Subscriptions SubscriptionCounts
	Operations    OperationTotals
}

// OperationTotals says how many operations have not finished.
type OperationTotals struct {
	Queued, Running int64
}

// SubscriptionCounts says what all subscriptions hold.
type SubscriptionCounts struct {
	Queued, Dead      int64 // events
	Failing, Disabled int64 // subscriptions
}
