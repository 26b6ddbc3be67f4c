package millrace

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Triggers is the part of an engine that counts how often something fired. Each method is one atomic step in one lane.
type Triggers interface {
	// Fire counts one firing, unless PerMinute of them were counted in this minute of the clock already, under whatever limit.
	// CodeNotFound: the uid was removed.
	Fire(ctx context.Context, lane int, f Fire) (Fired, error)

	// Fired returns what was counted; nothing of a uid that never fired.
	Fired(ctx context.Context, lane int, uid string) (Fired, error)
}

// Fire asks to fire once.
type Fire struct {
	Now       time.Time // zero: the lane's clock
	UID       string
	PerMinute int // most firings within one minute of the clock; 0 for no limit
}

// Fired says how often something fired.
type Fired struct {
	Count   int64
	LastAt  time.Time     // zero for never
	Refused bool          // of Fire: it was not counted
	Retry   time.Duration // with Refused: until the minute is over
}

// TriggerSpec is the definition of a trigger. Its JSON is the stored form.
type TriggerSpec struct {
	Event     *TriggerEvent     `json:"event,omitempty"`     // what it publishes; this or Operation
	Operation *OperationRequest `json:"operation,omitempty"` // what it enqueues
	PerMinute int               `json:"per_minute"`          // most firings a minute; 0 for no limit
	Enabled   bool              `json:"enabled"`
}

// TriggerEvent is an event that a trigger publishes, each time under a new id.
type TriggerEvent struct {
	Topic       string            `json:"topic"`
	Type        string            `json:"type"`
	Tenant      string            `json:"tenant,omitempty"`
	Key         string            `json:"key,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Data        []byte            `json:"data,omitempty"` // fixed: an object, of which the request becomes the member "request"; nil: the request is the data
	Attributes  map[string]string `json:"attributes,omitempty"`
	Delay       time.Duration     `json:"delay,omitempty"`
}

// DefaultPerMinute is how often a trigger may fire that says nothing of it.
const DefaultPerMinute = 60

// Trigger is a secret URL's definition and how often it was called.
type Trigger struct {
	Name    string
	Version uint64
	Spec    TriggerSpec
	Fired   int64
	LastAt  time.Time // zero for never

	// Secret is the last part of its URL, from the call that made it; it is shown this once.
	Secret string
}

// TriggerResult is what a trigger did: one of them is set.
type TriggerResult struct {
	Event     *Published
	Operation *StartedOperation
}

// TriggerService is what a program does with triggers. A name that is not one is CodeNotFound.
type TriggerService interface {
	// Put defines a trigger or replaces its definition; its secret stays. A new one gets one made.
	Put(ctx context.Context, name string, spec TriggerSpec) (t Trigger, created bool, err error)
	Get(ctx context.Context, name string) (Trigger, error)
	List(ctx context.Context, page Page) (triggers []Trigger, next string, err error)
	Delete(ctx context.Context, name string) error

	// Rotate makes a new secret; the old one is unknown from now on.
	Rotate(ctx context.Context, name string) (Trigger, error)

	// Fire does what the trigger of this secret does, with the JSON text of a request, or nil. CodeNotFound: unknown or
	// not enabled. CodeRateLimited: too often.
	Fire(ctx context.Context, secret string, request []byte) (TriggerResult, error)
}

// MaxPerMinute bounds how often a trigger may be allowed to fire.
const MaxPerMinute = 1_000_000

// DefaultTriggerSpec is the definition of a trigger that says nothing but what it does.
func DefaultTriggerSpec() TriggerSpec { return TriggerSpec{PerMinute: DefaultPerMinute, Enabled: true} }

// Faults lists what is wrong with a definition, each located below the given prefix.
func (t *TriggerSpec) Faults(at string) []Fault {
	f := faults{at: at}
	if (t.Event == nil) == (t.Operation == nil) {
		f.add("event", "must be given, or operation, but not both")
	}
	if t.Event != nil {
		e := t.Event.event()
		f.list = append(f.list, e.Faults(f.below("event"))...)
		f.fixed("event.data", t.Event.Data, e.IsJSON())
	}
	if t.Operation != nil {
		f.list = append(f.list, t.Operation.Faults(f.below("operation"))...)
		f.fixed("operation.payload", t.Operation.Payload, true)
	}
	f.between("per_minute", t.PerMinute, 0, MaxPerMinute)
	return f.list
}

// fixed checks data that a trigger fixes: a request must have a place in it.
func (f *faults) fixed(field string, data []byte, isJSON bool) {
	switch {
	case !isJSON:
		f.add("event.content_type", "must be JSON, as a request is")
	case len(data) > 0 && jsontext.Value(data).Kind() != '{' && jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)):
		f.add(field, "must be an object, of which the request becomes the member request")
	}
}

// event is the event without a request.
func (t *TriggerEvent) event() Event {
	return Event{
		Topic: t.Topic, Type: t.Type, Tenant: t.Tenant, Key: t.Key, ContentType: t.ContentType,
		Data: t.Data, Attributes: t.Attributes, Delay: t.Delay,
	}
}

// With is the event that a trigger publishes for a request's JSON text, or nil.
func (t *TriggerEvent) With(request []byte) (Event, error) {
	e := t.event()
	var err error
	e.Data, err = withRequest(e.Data, request)
	return e, err
}

// With is what a trigger enqueues for a request's JSON text, or nil.
func (r OperationRequest) With(request []byte) (OperationRequest, error) {
	var err error
	r.Payload, err = withRequest(r.Payload, request)
	return r, err
}

// withRequest puts a request in place of data, or into data that is fixed.
func withRequest(data, request []byte) ([]byte, error) {
	if len(request) == 0 {
		return data, nil
	}
	if len(data) == 0 {
		return request, nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(data, &members, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("read what the trigger fixes: %w", err)
	}
	members["request"] = request
	return json.Marshal(members, json.Deterministic(true), jsontext.AllowDuplicateNames(true))
}
