package millrace

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BodyFormat is how a batch's body is written.
type BodyFormat string

// The formats of a batch's body.
const (
	FormatEvents      BodyFormat = "events"
	FormatCloudEvents BodyFormat = "cloudevents"
)

// SubscriptionSpec is the definition of a subscription. Its JSON is the stored
// form, with durations in nanoseconds; it holds secrets and is never shown whole.
type SubscriptionSpec struct {
	Callback       string          `json:"callback"` // where batches are posted; required
	Topics         []string        `json:"topics"`   // exact names; these or Match, not both
	Match          string          `json:"match"`
	Timeout        time.Duration   `json:"timeout"`    // how long a batch collects
	MaxEvents      int             `json:"max_events"` // of a batch
	MaxBytes       int             `json:"max_bytes"`  // of a batch's events, as stored
	Format         BodyFormat      `json:"format"`
	Ordered        bool            `json:"ordered"`     // one batch at a time, none overtakes; cannot change
	UUID           string          `json:"uuid"`        // user name of Basic auth, if any
	Secrets        []Secret        `json:"secrets"`     // the newest first; a put gives one at most
	Concurrency    int             `json:"concurrency"` // batches on their way in each lane; never more than MaxConcurrency in all together
	RequestTimeout time.Duration   `json:"request_timeout"`
	RetrySchedule  []time.Duration `json:"retry_schedule"`
	DeadRetention  time.Duration   `json:"dead_retention"`
	DisableAfter   time.Duration   `json:"disable_after"` // of nothing but failure; 0 for never
}

// Secret is a key that signs batches, as text: whsec_ and base64.
type Secret struct {
	Text      string    `json:"text"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero for never
}

// DefaultSubscriptionSpec is the definition of a subscription that says nothing but where to.
func DefaultSubscriptionSpec(callback string) SubscriptionSpec {
	minute, hour := time.Minute, time.Hour
	return SubscriptionSpec{
		Callback: callback, Timeout: 500 * time.Millisecond, MaxEvents: 100, MaxBytes: 1 << 20, Format: FormatEvents,
		Concurrency: 8, RequestTimeout: 15 * time.Second, DeadRetention: 7 * 24 * hour, DisableAfter: 5 * 24 * hour,
		RetrySchedule: []time.Duration{
			5 * time.Second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour,
		},
	}
}

// Bounds of a subscription's settings.
const (
	MaxBatchTimeout   = time.Hour
	MaxBatchEvents    = 1000
	MaxBatchBytes     = 4 << 20
	MaxConcurrency    = 64
	MaxRequestTimeout = 60 * time.Second
	MaxScheduleLen    = 32
	MaxURLLen         = 2048
	MaxTopics         = 100
	MaxSecrets        = 5 // that sign at a time
)

// Faults lists what is wrong with a definition, each located below the given prefix.
func (s *SubscriptionSpec) Faults(at string) []Fault {
	f := faults{at: at}
	if m := CallbackFault(s.Callback); m != "" {
		f.add("callback", m)
	}
	s.matchFaults(&f)
	f.duration("timeout", s.Timeout, 0, MaxBatchTimeout)
	f.between("max_events", s.MaxEvents, 1, MaxBatchEvents)
	f.between("max_bytes", s.MaxBytes, MaxEventSize, MaxBatchBytes)
	f.between("concurrency", s.Concurrency, 1, MaxConcurrency)
	if s.Format != FormatEvents && s.Format != FormatCloudEvents {
		f.add("format", "must be events or cloudevents")
	}
	if m := TextFault(s.UUID, MaxIDLen); m != "" {
		f.add("uuid", m)
	} else if strings.Contains(s.UUID, ":") {
		f.add("uuid", "must not contain ':'")
	}
	f.duration("request_timeout", s.RequestTimeout, 100*time.Millisecond, MaxRequestTimeout)
	f.duration("dead_retention", s.DeadRetention, 0, MaxRetention)
	f.duration("disable_after", s.DisableAfter, 0, MaxRetention)
	if len(s.RetrySchedule) > MaxScheduleLen {
		f.add("retry_schedule", "must have at most "+strconv.Itoa(MaxScheduleLen)+" waits")
	}
	for i, d := range s.RetrySchedule {
		f.duration("retry_schedule["+strconv.Itoa(i)+"]", d, 0, MaxDelay)
	}
	return f.list
}

// matchFaults checks which events it takes.
func (s *SubscriptionSpec) matchFaults(f *faults) {
	if (len(s.Topics) > 0) == (s.Match != "") {
		f.add("topics", "must be given, or match, but not both")
		return
	}
	if s.Match != "" {
		if m := MatchFault(s.Match); m != "" {
			f.add("match", m)
		}
		return
	}
	if len(s.Topics) > MaxTopics {
		f.add("topics", "must be at most "+strconv.Itoa(MaxTopics))
	}
	for i, t := range s.Topics {
		switch m := NameFault(t); {
		case m != "":
			f.add("topics["+strconv.Itoa(i)+"]", m)
		case slices.Contains(s.Topics[:i], t):
			f.add("topics["+strconv.Itoa(i)+"]", "is named twice")
		}
	}
}

func (f *faults) between(field string, n, least, most int) {
	if n < least || n > most {
		f.add(field, "must be between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
	}
}

// CallbackFault says what is wrong with the form of a callback's URL, or "" if nothing
// is. Whether its address may be called is another question, asked when it is dialled.
func CallbackFault(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "must not be empty"
	case len(text) > MaxURLLen:
		return "must be at most " + strconv.Itoa(MaxURLLen) + " bytes"
	case TextFault(text, MaxURLLen) != "":
		return TextFault(text, MaxURLLen)
	case err != nil, u.Hostname() == "":
		return "must be a URL such as https://shop.example/hook"
	case u.Scheme != "https" && u.Scheme != "http":
		return "must begin with https://"
	case u.User != nil:
		return "must not hold a user name; use uuid"
	case u.Fragment != "":
		return "must not have a fragment"
	case u.Port() == "0":
		return "must not have port 0"
	}
	return ""
}

// The further states of a subscription; it can also be StateActive or StatePaused.
const (
	StateFailing  = "failing"  // backing off
	StateDisabled = "disabled" // collects no more
)

// Subscription is a subscription's definition and what it holds.
type Subscription struct {
	Name    string
	Version uint64
	State   string
	Reason  string // of the state, or of the last failure; empty for none
	Spec    SubscriptionSpec

	Queued, Sent, Failed, Dead, Dropped, Skipped int64
	Oldest, NextAttemptAt                        time.Time

	// MadeSecret is the secret that the call made because none was given; it is shown this once.
	MadeSecret string
}

// SubscriptionBatch is a batch of a subscription, by its id.
type SubscriptionBatch struct {
	ID string
	Batch
	Events []Event // of GetBatch alone
}

// Attempt is one try to send a batch.
type Attempt struct {
	Batch    string // id; empty for a ping
	Attempt  int
	At       time.Time
	OK       bool
	Status   int           // of the answer; 0 without one
	Error    string        // "" or one of the words below
	Duration time.Duration // in whole milliseconds
	Count    int           // events
	Answer   string        // the first bytes of it
	Node     string
}

// Why an attempt failed.
const (
	AttemptStatus   = "status"
	AttemptTimeout  = "timeout"
	AttemptConnect  = "connect"
	AttemptTLS      = "tls"
	AttemptReset    = "reset"
	AttemptRedirect = "redirect"
	AttemptBlocked  = "blocked_address"
)

// BatchQuery selects batches of a subscription.
type BatchQuery struct {
	State BatchState // all of them if empty
	Page
}

// SubscriptionService is what a program does with subscriptions. A name that is not one is CodeNotFound.
type SubscriptionService interface {
	// Put defines a subscription or replaces its definition. A secret that is left out
	// stays; a new subscription without one gets one made.
	Put(ctx context.Context, name string, spec SubscriptionSpec) (s Subscription, created bool, err error)
	Get(ctx context.Context, name string) (Subscription, error)
	List(ctx context.Context, page Page) (subscriptions []Subscription, next string, err error)

	// Delete removes a subscription with all it holds; with ifEmpty only if it holds nothing (CodeNotEmpty).
	Delete(ctx context.Context, name string, ifEmpty bool) error

	// Pause stops the sending; Resume ends a pause and a disabling.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error

	// Test sends one ping now, beside the batches, and returns what came of it.
	Test(ctx context.Context, name string) (Attempt, error)

	// Rotate gives the subscription a new secret, made if it is empty; the old ones sign
	// on for the overlap. It returns the new one and when the old ones end. More than MaxSecrets are refused.
	Rotate(ctx context.Context, name, secret string, overlap time.Duration) (made string, oldUntil time.Time, err error)

	// Batches lists batches, oldest first.
	Batches(ctx context.Context, name string, q BatchQuery) (batches []SubscriptionBatch, next string, err error)
	GetBatch(ctx context.Context, name, id string) (SubscriptionBatch, error)

	// DropBatch removes a batch that is not being sent (CodePending).
	DropBatch(ctx context.Context, name, id string) error

	// RetryBatch makes a batch ready at once; one that is being sent is left alone. RetryDead does it for
	// all dead ones. They return how many.
	RetryBatch(ctx context.Context, name, id string) (int, error)
	RetryDead(ctx context.Context, name string) (int, error)

	// Attempts returns the last attempts, newest first, of one batch or one event if they are named.
	Attempts(ctx context.Context, name, batch, event string) ([]Attempt, error)

	// Inject puts events that were stamped before into this subscription alone.
	Inject(ctx context.Context, name string, events ...Event) (int, error)
}
