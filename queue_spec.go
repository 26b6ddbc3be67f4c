package millrace

import (
	"strconv"
	"time"
)

// QueueSpec is the definition of a queue, as a user gives it. Its JSON
// is the stored form, with durations in nanoseconds.
type QueueSpec struct {
	Match          string        `json:"match"`           // which addresses it takes; required
	Lease          time.Duration `json:"lease"`           // how long a lease lasts that names no time
	MaxAttempts    int           `json:"max_attempts"`    // deliveries before OnExhausted; 0 for no limit
	BackoffFirst   time.Duration `json:"backoff_first"`   // the wait after the first failed attempt
	BackoffMax     time.Duration `json:"backoff_max"`     // the longest wait
	OnExhausted    Exhausted     `json:"on_exhausted"`    // what happens when the attempts are spent
	Ordered        bool          `json:"ordered"`         // of one key, one message in flight
	Tracked        bool          `json:"tracked"`         // every message has an operation
	TenantLimit    int           `json:"tenant_limit"`    // most messages in flight per tenant; 0 for no limit
	MaxLength      int           `json:"max_length"`      // most messages waiting per tenant; 0 for no limit
	Overflow       Overflow      `json:"overflow"`        // what happens past MaxLength
	DeadRetention  time.Duration `json:"dead_retention"`  // how long dead letters are kept; 0 for ever
	Retention      time.Duration `json:"retention"`       // how long finished operations are kept; 0 for MaxRetention
	ErrorRetention time.Duration `json:"error_retention"` // how long failed operations are kept; 0 for MaxRetention
	Redact         []string      `json:"redact"`          // JSON Pointers to what is never shown
}

// Exhausted is what happens to a message whose attempts are spent.
type Exhausted string

// What can happen to a message whose attempts are spent.
const (
	ExhaustedDead  Exhausted = "dead"
	ExhaustedBlock Exhausted = "block"
)

// Overflow is what happens to an event for which a sink has no room.
type Overflow string

// What can happen to an event for which a sink has no room.
const (
	OverflowReject     Overflow = "reject"
	OverflowDropOldest Overflow = "drop_oldest"
)

// DefaultQueueSpec is the definition of a queue that says nothing but its match.
func DefaultQueueSpec(match string) QueueSpec {
	return QueueSpec{
		Match: match, Lease: 30 * time.Second, MaxAttempts: 20,
		BackoffFirst: time.Second, BackoffMax: 10 * time.Minute,
		OnExhausted: ExhaustedDead, Overflow: OverflowReject,
		Retention: 24 * time.Hour, ErrorRetention: 7 * 24 * time.Hour,
		Redact: []string{},
	}
}

// Bounds of a queue's settings.
const (
	MinLease    = 100 * time.Millisecond
	MaxLease    = 12 * time.Hour
	MaxAttempts = 10000
	MaxDelay    = 30 * 24 * time.Hour
	MaxWait     = 60 * time.Second

	MaxRetention = 10 * 365 * 24 * time.Hour
	MaxCount     = 1 << 30 // of a queue's limits
)

// Faults lists what is wrong with a definition, each located below the given prefix.
func (q *QueueSpec) Faults(at string) []Fault {
	f := faults{at: at}
	if m := MatchFault(q.Match); m != "" {
		f.add("match", m)
	}
	f.duration("lease", q.Lease, MinLease, MaxLease)
	f.duration("backoff_first", q.BackoffFirst, 0, MaxDelay)
	f.duration("backoff_max", q.BackoffMax, 0, MaxDelay)
	if q.BackoffMax < q.BackoffFirst {
		f.add("backoff_max", "must not be less than backoff_first")
	}
	if q.MaxAttempts < 0 || q.MaxAttempts > MaxAttempts {
		f.add("max_attempts", "must be between 0 and "+strconv.Itoa(MaxAttempts))
	}
	q.wayFaults(&f)
	q.trackFaults(&f)
	return f.list
}

// wayFaults checks the ways of a queue and its limits.
func (q *QueueSpec) wayFaults(f *faults) {
	if q.OnExhausted != ExhaustedDead && q.OnExhausted != ExhaustedBlock {
		f.add("on_exhausted", "must be dead or block")
	}
	if q.Overflow != OverflowReject && q.Overflow != OverflowDropOldest {
		f.add("overflow", "must be reject or drop_oldest")
	}
	if q.Ordered && q.Overflow == OverflowDropOldest {
		f.add("overflow", "must be reject in an ordered queue: a dropped message would be a gap")
	}
	f.count("tenant_limit", q.TenantLimit)
	f.count("max_length", q.MaxLength)
	f.duration("dead_retention", q.DeadRetention, 0, MaxRetention)
}

func (f *faults) count(field string, n int) {
	if n < 0 || n > MaxCount {
		f.add(field, "must be between 0 and "+strconv.Itoa(MaxCount))
	}
}

// trackFaults checks what concerns operations. It holds of untracked queues too, where it changes nothing but what
// Peek and Dead show.
func (q *QueueSpec) trackFaults(f *faults) {
	f.duration("retention", q.Retention, 0, MaxRetention)
	f.duration("error_retention", q.ErrorRetention, 0, MaxRetention)
	if len(q.Redact) > MaxRedact {
		f.add("redact", "must be at most "+strconv.Itoa(MaxRedact))
	}
	for i, p := range q.Redact {
		if m := PointerFault(p); m != "" {
			f.add("redact["+strconv.Itoa(i)+"]", m)
		}
	}
}

func (f *faults) duration(field string, d, least, most time.Duration) {
	if d < least || d > most {
		f.add(field, "must be between "+least.String()+" and "+most.String())
	}
}

// Backoff is the queue's wait between attempts.
func (q *QueueSpec) Backoff() Backoff { return Backoff{First: q.BackoffFirst, Max: q.BackoffMax} }
