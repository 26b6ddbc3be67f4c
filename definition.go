package millrace

import (
	"context"
	"time"
)

// Kind is what a definition defines.
type Kind string

// The kinds of definitions.
const (
	KindQueue        Kind = "queue"
	KindSubscription Kind = "subscription"
	KindTopic        Kind = "topic"
	KindTrigger      Kind = "trigger"
)

// Definition is one entry of the registry: what a name of a kind means now.
type Definition struct {
	Kind    Kind
	Name    string
	UID     string // names the sink's data in every lane; random, never reused, 16 of 0-9a-f
	Version uint64 // the registry's version that wrote it
	Deleted bool   // the name means nothing any more
	Spec    []byte // the definition itself, as JSON
}

// Redefinition is a definition to write, and the version that it replaces.
type Redefinition struct {
	Definition
	Replaces uint64
}

// Changes is what happened in the registry since a version.
type Changes struct {
	Version     uint64       // the registry's version now
	Full        bool         // Definitions is all there is, not only what changed
	Definitions []Definition // by version, with the last 1,000 deleted ones, each under its own uid
}

// QueueSettings is what the lanes themselves must know of a queue: the settings
// that lease, settle and step obey without asking the registry.
type QueueSettings struct {
	UID         string
	Version     uint64 // of the definition; a lane that has settings of a later one keeps those
	MaxAttempts int    // deliveries before a message's attempts are spent; 0 for no limit

	// Block keeps a message whose attempts are spent: it is tried again, for
	// ever, after the delay that its retry names or, when its lease ended, after
	// BlockDelay. Otherwise it goes to the dead letters.
	Block      bool
	BlockDelay time.Duration

	Ordered       bool          // of one key, one message in flight; cannot change
	Paused        bool          // nothing is leased
	TenantLimit   int           // most messages leased per tenant; 0 for no limit
	MaxLength     int           // most messages waiting per tenant; 0 for no limit
	DropOldest    bool          // past MaxLength the tenant's oldest waiting message goes; otherwise the commit is refused
	DeadRetention time.Duration // after which a dead letter goes; 0 for never

	Tracked        bool          // every message has an operation; cannot change
	Retention      time.Duration // after which an operation is forgotten that ended in success or was cancelled
	ErrorRetention time.Duration // after which one is that ended in an error
}

// Apply tells one lane of a version of the registry.
type Apply struct {
	Version       uint64
	Queues        []QueueSettings        // to create or change
	Subscriptions []SubscriptionSettings // likewise
	Removed       []string               // uids whose data is to be swept away; of a trigger too
}

// Registry is the part of an engine that holds definitions. It lies in one
// place (on Redis: the control slot); each lane knows the version it has seen.
type Registry interface {
	// Define writes a definition as the next version of the registry, if the
	// name's current definition still has version replaces (0: there is none).
	// It returns the definition with its Version set. Otherwise CodeChanged, and
	// nothing is written. To delete, set Deleted; a deleted name counts as none.
	// Sends a HintRegistry. One atomic step. CodeLaneMissing: the registry has vanished.
	Define(ctx context.Context, d Definition, replaces uint64) (Definition, error)

	// DefineAll writes several definitions, each as Define does, the next
	// versions in the order of the list, in one atomic step: if one is refused,
	// or the process dies, none is written. No name may stand in it twice.
	DefineAll(ctx context.Context, list []Redefinition) ([]Definition, error)

	// Definitions returns what changed after a version. It is Full if since is
	// 0, above the registry's version, below the last RaiseVersion, or older
	// than the deleted ones that are remembered.
	Definitions(ctx context.Context, since uint64) (Changes, error)

	// RaiseVersion moves the registry's version past v, if it is not, for a
	// registry that lost its tail while lanes remember it, and returns the
	// version then. Sends a HintRegistry.
	RaiseVersion(ctx context.Context, v uint64) (uint64, error)

	// Apply lifts a lane to a version, if it is newer, and stores each queue's
	// and subscription's settings unless it has later ones. A removed uid is not known to the lane
	// any more, now or ever again; its data waits for Sweep. Idempotent; one
	// atomic step in the lane. It returns which of a.Queues and
	// a.Subscriptions were removed before and so are not there.
	Apply(ctx context.Context, lane int, a Apply) (gone []string, err error)
}
