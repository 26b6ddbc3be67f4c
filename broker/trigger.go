package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-dev/millrace"
)

// Triggers is what is done with triggers. It is a millrace.TriggerService.
type Triggers struct{ b *Broker }

var _ millrace.TriggerService = Triggers{}

// Triggers is what is done with triggers.
func (b *Broker) Triggers() millrace.TriggerService { return Triggers{b} }

// trigger is a trigger's definition, ready for use. Its secret is nowhere kept, only what it hashes to.
type trigger struct {
	definition millrace.Definition
	triggerRecord
}

// triggerRecord is the stored form of a trigger's definition.
type triggerRecord struct {
	millrace.TriggerSpec
	Version uint64 `json:"version"`
	Digest  string `json:"digest"` // SHA-256 of its secret, in hexadecimal
}

func newTrigger(d millrace.Definition) (*trigger, error) {
	t := &trigger{definition: d}
	if err := json.Unmarshal(d.Spec, &t.triggerRecord); err != nil {
		return nil, fmt.Errorf("read the definition of trigger %s: %w", d.Name, err)
	}
	return t, nil
}

// secretBytes is how many random bytes a trigger's secret has.
const secretBytes = 24

// newTriggerSecret is a random secret, and what is kept of it.
func newTriggerSecret() (secret, digest string) {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	secret = base64.RawURLEncoding.EncodeToString(b[:])
	return secret, digestOfSecret(secret)
}

func digestOfSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Put defines a trigger or replaces its definition; see millrace.TriggerService.
func (s Triggers) Put(ctx context.Context, name string, spec millrace.TriggerSpec) (t millrace.Trigger, created bool, err error) {
	if err := s.b.gate.enter(); err != nil {
		return t, false, err
	}
	defer s.b.gate.leave()
	faults := spec.Faults("")
	if m := millrace.NameFault(name); m != "" {
		faults = append(faults, millrace.Fault{Location: "trigger", Message: m})
	}
	if err := millrace.Invalid(faults); err != nil {
		return t, false, err
	}
	err = untilStill(func() error {
		secret, found, err := s.define(ctx, name, spec)
		if err != nil {
			return err
		}
		created = secret != ""
		if t, err = s.describe(ctx, found); err != nil && created {
			t, err = millrace.Trigger{Name: name, Version: 1, Spec: spec}, nil // the secret must be told now or never
		}
		t.Secret = secret
		return err
	})
	return t, created, err
}

// define writes a definition over the one that is there; a new one gets a secret, which it returns.
func (s Triggers) define(ctx context.Context, name string, spec millrace.TriggerSpec) (secret string, t *trigger, err error) {
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return "", nil, err
	}
	old, exists := h.triggers[name]
	if exists && sameSpec(&old.TriggerSpec, &spec) {
		return "", old, nil
	}
	record := triggerRecord{TriggerSpec: spec, Version: 1}
	d := millrace.Definition{Kind: millrace.KindTrigger, Name: name}
	if exists {
		d, record.Version, record.Digest = old.definition, old.Version+1, old.Digest
	} else {
		secret, record.Digest = newTriggerSecret()
		d.UID = newUID()
	}
	t, err = s.write(ctx, d, record)
	return secret, t, err
}

// sameSpec compares definitions by what they mean: how the JSON in them is written does not count.
func sameSpec(a, b *millrace.TriggerSpec) bool {
	x, y := canonical(*a), canonical(*b)
	return x != nil && bytes.Equal(x, y)
}

// canonical is the stored form of a definition with the JSON in it written in one way.
func canonical(t millrace.TriggerSpec) []byte {
	if t.Event != nil {
		e := *t.Event
		e.Data = oneWay(e.Data)
		t.Event = &e
	}
	if t.Operation != nil {
		o := *t.Operation
		o.Payload = oneWay(o.Payload)
		t.Operation = &o
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	return text
}

// oneWay is a JSON text in its canonical form, or as it is if it has none.
func oneWay(text []byte) []byte {
	v := jsontext.Value(bytes.Clone(text))
	if len(v) == 0 || v.Canonicalize() != nil {
		return text
	}
	return v
}

// write replaces a trigger's record in the registry. Once it is written the call has succeeded, for its secret is told
// now or never: this node hears of it like the others.
func (s Triggers) write(ctx context.Context, d millrace.Definition, record triggerRecord) (*trigger, error) {
	d, err := s.b.registry.write(ctx, d, record)
	if err != nil {
		return nil, err
	}
	s.b.registry.nudge()
	return newTrigger(d)
}

// Get returns a trigger; see millrace.TriggerService.
func (s Triggers) Get(ctx context.Context, name string) (millrace.Trigger, error) {
	t, err := s.enter(ctx, name)
	if err != nil {
		return millrace.Trigger{}, err
	}
	defer s.b.gate.leave()
	return s.describe(ctx, t)
}

// enter lets a call on a trigger in.
func (s Triggers) enter(ctx context.Context, name string) (*trigger, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	t, err := s.find(ctx, name)
	if err != nil {
		s.b.gate.leave()
	}
	return t, err
}

func (s Triggers) find(ctx context.Context, name string) (*trigger, error) {
	if m := millrace.NameFault(name); m != "" {
		return nil, millrace.Invalid([]millrace.Fault{{Location: "trigger", Message: m}})
	}
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := h.triggers[name]
	if !ok {
		return nil, millrace.Errorf(millrace.CodeNotFound, "there is no such trigger")
	}
	return t, nil
}

// List returns triggers by name; see millrace.TriggerService.
func (s Triggers) List(ctx context.Context, page millrace.Page) ([]millrace.Trigger, string, error) {
	return listed(ctx, s.b, page, func(h *house) map[string]*trigger { return h.triggers }, s.describe)
}

func (s Triggers) describe(ctx context.Context, t *trigger) (millrace.Trigger, error) {
	fired, err := s.b.engine.Fired(ctx, s.lane(t), t.definition.UID)
	return millrace.Trigger{Name: t.definition.Name, Version: t.Version, Spec: t.TriggerSpec, Fired: fired.Count, LastAt: fired.LastAt}, err
}

// lane is where a trigger's firings are counted.
func (s Triggers) lane(t *trigger) int {
	return millrace.LaneOf(millrace.Hash("", t.definition.UID), s.b.identity.Lanes)
}

// Delete removes a trigger; see millrace.TriggerService.
func (s Triggers) Delete(ctx context.Context, name string) error {
	t, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer s.b.gate.leave()
	return s.b.remove(ctx, t.definition)
}

// Rotate makes a new secret; see millrace.TriggerService.
func (s Triggers) Rotate(ctx context.Context, name string) (out millrace.Trigger, err error) {
	if err := s.b.gate.enter(); err != nil {
		return out, err
	}
	defer s.b.gate.leave()
	err = untilStill(func() error {
		t, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		record := t.triggerRecord
		var secret string
		secret, record.Digest = newTriggerSecret()
		if t, err = s.write(ctx, t.definition, record); err != nil {
			return err
		}
		if out, err = s.describe(ctx, t); err != nil {
			out = millrace.Trigger{Name: name, Version: t.Version, Spec: t.TriggerSpec} // the secret must be told now or never
		}
		out.Secret = secret
		return nil
	})
	return out, err
}

// Fire does what the trigger of a secret does; see millrace.TriggerService.
func (s Triggers) Fire(ctx context.Context, secret string, request []byte) (millrace.TriggerResult, error) {
	t, err := s.allowed(ctx, secret, request)
	if err != nil {
		return millrace.TriggerResult{}, err
	}
	if t.Operation != nil {
		r, err := t.Operation.With(request)
		if err != nil {
			return millrace.TriggerResult{}, err
		}
		started, err := s.b.Operations().Start(ctx, r)
		return millrace.TriggerResult{Operation: &started}, err
	}
	e, err := t.Event.With(request)
	if err != nil {
		return millrace.TriggerResult{}, err
	}
	published, err := s.b.Publish(ctx, e)
	if err != nil {
		return millrace.TriggerResult{}, err
	}
	return millrace.TriggerResult{Event: &published[0]}, nil
}

// allowed finds the trigger of a secret and counts that it fires.
func (s Triggers) allowed(ctx context.Context, secret string, request []byte) (*trigger, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	defer s.b.gate.leave()
	t, err := s.known(ctx, secret)
	if err != nil {
		return nil, err
	}
	if len(request) > 0 && !jsontext.Value(request).IsValid() {
		return nil, millrace.Errorf(millrace.CodeMalformed, "the body is not JSON")
	}
	fired, err := s.b.engine.Fire(ctx, s.lane(t), millrace.Fire{UID: t.definition.UID, PerMinute: t.PerMinute})
	switch {
	case err != nil:
		return nil, err
	case fired.Refused:
		refused := millrace.Errorf(millrace.CodeRateLimited, "the trigger may fire %d times a minute", t.PerMinute)
		refused.RetryAfter = fired.Retry
		return nil, refused
	}
	return t, nil
}

// known finds an enabled trigger by its secret, as the store has it now: one that was rotated away or disabled on another
// node is unknown here too. The digest is compared, so that how long it takes says nothing of a secret. Anybody may ask: what
// cannot be a secret costs nothing, and what this node does not know is looked for once in a while only.
func (s Triggers) known(ctx context.Context, secret string) (*trigger, error) {
	none := millrace.Errorf(millrace.CodeNotFound, "there is no such trigger")
	if len(secret) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return nil, none
	}
	digest := digestOfSecret(secret)
	if _, ok := s.b.registry.now().triggerOf[digest]; !ok && !s.b.missed.due(time.Now()) {
		return nil, none
	}
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := h.triggerOf[digest]
	if !ok || !t.Enabled {
		return nil, none
	}
	return t, nil
}

// seldom says yes once in a while.
type seldom struct{ last atomic.Int64 }

// missEvery is how often the store is asked for secrets that nobody here has heard of.
const missEvery = 100 * time.Millisecond

func (s *seldom) due(now time.Time) bool {
	last := s.last.Load()
	return now.UnixNano()-last > int64(missEvery) && s.last.CompareAndSwap(last, now.UnixNano())
}
