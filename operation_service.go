package millrace

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
	Since, Until time.Time   // 60 buckets before Until, and now, if zero
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

// Faults lists what is wrong with a request, each located below the given prefix.
func (r *OperationRequest) Faults(at string) []Fault {
	f := faults{at: at}
	f.name("queue", r.Queue)
	f.name("type", r.Type)
	if r.Tenant != "" {
		f.name("tenant", r.Tenant)
	}
	f.text("subject", r.Subject, MaxKeyLen)
	f.text("dedupe_key", r.DedupeKey, MaxKeyLen)
	f.duration("delay", r.Delay, 0, MaxDelay)
	switch {
	case len(r.Payload) > MaxEventSize-MaxOperationFields:
		f.add("payload", "must be at most "+strconv.Itoa(MaxEventSize-MaxOperationFields)+" bytes")
	case len(r.Payload) > 0 && !jsontext.Value(r.Payload).IsValid(jsontext.AllowDuplicateNames(true)):
		f.add("payload", "must be JSON")
	}
	return f.list
}

// MaxOperationFields is what the fields of an operation's event may take of its size, beside the payload.
const MaxOperationFields = 2 << 10

// Fault says what is wrong with a status, or "" if nothing is. An empty one stands for any.
func (s OperationStatus) Fault() string {
	if s == "" || s == OperationQueued || s == OperationRunning || s.Finished() {
		return ""
	}
	return "must be QUEUED, RUNNING, SUCCESS, ERROR or CANCELLED"
}

// Faults lists what is wrong with a query, its page and tenant aside.
func (q *OperationQuery) Faults() []Fault {
	var f faults
	if q.Subject == "" && q.Queue == "" {
		f.add("subject", "must be given, or queue")
	}
	f.text("subject", q.Subject, MaxKeyLen)
	if m := q.Status.Fault(); m != "" {
		f.add("status", m)
	}
	return f.list
}

// Faults lists what is wrong with progress, each located below the given prefix.
func (p Progress) Faults(at string) []Fault {
	f := faults{at: at}
	f.between("percent", p.Percent, 0, 100)
	f.text("note", p.Note, MaxNoteLen)
	return f.list
}

// WithDefaults is the query with what it leaves out, and whole buckets.
func (q OperationCountQuery) WithDefaults(now time.Time) OperationCountQuery {
	if q.Bucket == 0 {
		q.Bucket = Minutes
	}
	if q.Until.IsZero() {
		q.Until = now
	}
	span := q.Bucket.Span()
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-60 * span)
	}
	q.Since = q.Since.UTC().Truncate(span)
	if whole := q.Until.UTC().Truncate(span); whole.Before(q.Until) {
		q.Until = whole.Add(span)
	} else {
		q.Until = whole
	}
	return q
}

// Faults lists what is wrong with a query that has its defaults.
func (q *OperationCountQuery) Faults() []Fault {
	var f faults
	f.name("queue", q.Queue)
	switch {
	case q.Bucket != Minutes && q.Bucket != Hours && q.Bucket != Days:
		f.add("bucket", "must be 1m, 1h or 1d")
	case q.Until.Before(q.Since):
		f.add("until", "must not be before since")
	case q.Until.Sub(q.Since)/q.Bucket.Span() > MaxCountBuckets:
		f.add("since", "must be at most "+strconv.Itoa(MaxCountBuckets)+" buckets before until")
	}
	return f.list
}

// Add adds other spans up.
func (s Spans) Add(o Spans) {
	for i, n := range o {
		s[i] += n
	}
}
