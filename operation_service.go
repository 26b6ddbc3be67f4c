package millrace

import (
	"context"
	"iter"
	"time"
)

// OperationRequest asks for one piece of work. Its JSON is the stored form in a trigger.
type OperationRequest struct {
	Queue     string        `json:"queue"` // name of a tracked one; required
	Type      string        `json:"type"`  // required
	Subject   string        `json:"subject,omitempty"`
	Tenant    string        `json:"tenant,omitempty"` // DefaultTenant if empty
	Payload   []byte        `json:"payload,omitempty"`
	DedupeKey string        `json:"dedupe_key,omitempty"` // within tenant, queue and subject, no two that are open have the same
	Delay     time.Duration `json:"delay,omitempty"`      // before it can run; not in an ordered queue
}

// StartedOperation is the answer to an OperationRequest.
type StartedOperation struct {
	ID       string
	Status   OperationStatus
	Existing bool // one with the same DedupeKey was open: this is it
}

// TrackedOperation is an operation, by its id.
type TrackedOperation struct {
	ID string
	Operation
}

// OperationQuery selects operations: of a subject, of a queue, or both; one is required.
type OperationQuery struct {
	Subject string
	Queue   string          // name
	Status  OperationStatus // any if empty
	Tenant  string          // any if empty
	Page
}

// OperationCountQuery asks for the counts of a queue.
type OperationCountQuery struct {
	Queue        string      // name of a tracked one
	Bucket       CountBucket // Minutes if 0
	Since, Until time.Time   // an hour before Until, and now, if zero
}

// MaxCountBuckets is how many buckets one answer may have.
const MaxCountBuckets = 1500

// OperationCounts is what happened to the operations of a queue.
type OperationCounts struct {
	Queue        string
	Bucket       CountBucket
	Since, Until time.Time        // as answered: whole buckets
	Counts       []OperationCount // every bucket, the empty ones too
	Total        Tally            // since the queue was made
}

// OperationService is what a program does with operations. An id that is unknown or expired is CodeNotFound.
type OperationService interface {
	// Start enqueues one piece of work. CodeNotTracked: the queue's messages have no operations.
	Start(ctx context.Context, r OperationRequest) (StartedOperation, error)

	Get(ctx context.Context, id string) (TrackedOperation, error)

	// Await returns an operation when its status is not seen, or after the wait (at most MaxWait) as it is then. An empty
	// seen is the status it has when it is asked.
	Await(ctx context.Context, id string, seen OperationStatus, wait time.Duration) (TrackedOperation, error)

	// Watch shows an operation now and at each change, until it has finished. The sequence can be ranged over once;
	// it ends with ctx, and with an error when the node stops or the connection breaks.
	Watch(ctx context.Context, id string) (iter.Seq2[TrackedOperation, error], error)

	// List returns operations, newest first. A page may be shorter than asked for, with a cursor.
	List(ctx context.Context, q OperationQuery) (operations []TrackedOperation, next string, err error)

	// Cancel ends an operation that is queued, and asks for the end of one that is running. CodeFinished: it has ended.
	Cancel(ctx context.Context, id string) (TrackedOperation, error)

	// Report tells how far a leased message's work has come. CodeLost: the receipt is not of a live lease of its message.
	Report(ctx context.Context, id, receipt string, p Progress) error

	Counts(ctx context.Context, q OperationCountQuery) (OperationCounts, error)
}
