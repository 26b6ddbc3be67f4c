package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

// Subscriptions is what is done with subscriptions. It is a millrace.SubscriptionService.
type Subscriptions struct{ b *Broker }

var _ millrace.SubscriptionService = Subscriptions{}

// Subscriptions is what is done with subscriptions.
func (b *Broker) Subscriptions() millrace.SubscriptionService { return Subscriptions{b} }

// subscription is a subscription's definition, ready for use.
type subscription struct {
	definition millrace.Definition
	name, uid  string
	version    uint64 // how often it was defined
	state      string // active, paused or disabled
	reason     string // of the state
	freshAt    time.Time
	spec       millrace.SubscriptionSpec
	match      *millrace.Match // nil if it names topics
	isNew      bool            // this call created it
}

// subscriptionRecord is the stored form of a subscription's definition.
type subscriptionRecord struct {
	millrace.SubscriptionSpec
	Version uint64 `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`

	// FreshAt is when it was last resumed or given another callback: failures before do not disable it.
	FreshAt time.Time `json:"fresh_at,omitzero"`
}

func newSubscription(d millrace.Definition) (*subscription, error) {
	record := subscriptionRecord{SubscriptionSpec: millrace.DefaultSubscriptionSpec(""), Version: 1, State: millrace.StateActive}
	if err := json.Unmarshal(d.Spec, &record); err != nil {
		return nil, fmt.Errorf("read the definition of subscription %s: %w", d.Name, err)
	}
	s := &subscription{
		definition: d, name: d.Name, uid: d.UID, version: record.Version, state: record.State, reason: record.Reason, freshAt: record.FreshAt,
		spec: record.SubscriptionSpec,
	}
	if s.spec.Match == "" {
		return s, nil
	}
	var err error
	if s.match, err = millrace.CompileMatch(s.spec.Match); err != nil {
		return nil, fmt.Errorf("read the definition of subscription %s: %w", d.Name, err)
	}
	return s, nil
}

func (s *subscription) record() subscriptionRecord {
	return subscriptionRecord{SubscriptionSpec: s.spec, Version: s.version, State: s.state, Reason: s.reason, FreshAt: s.freshAt}
}

// redefined is the record with another definition.
func (s *subscription) redefined(spec millrace.SubscriptionSpec, now time.Time) subscriptionRecord {
	r := s.record()
	if r.Callback != spec.Callback {
		r.FreshAt = now.UTC()
	}
	r.SubscriptionSpec = spec
	r.Version++
	return r
}

// settings is what each of the lanes must know of the subscription.
func (s *subscription) settings(lanes int) millrace.SubscriptionSettings {
	return millrace.SubscriptionSettings{
		UID: s.uid, Version: s.definition.Version,
		Timeout: s.spec.Timeout, MaxEvents: s.spec.MaxEvents, MaxBytes: s.spec.MaxBytes,
		Ordered: s.spec.Ordered, Concurrency: perLane(s.spec.Concurrency, lanes), Schedule: s.spec.RetrySchedule, Retention: s.spec.DeadRetention,
		Format: string(s.spec.Format),
		Paused: s.state == millrace.StatePaused, Disabled: s.state == millrace.StateDisabled,
	}
}

// perLane is how many batches of a subscription may be on their way in each lane: what its
// definition says, unless that would be more than millrace.MaxConcurrency in all lanes together. So one
// receiver, however slow, never has more than half the slots of any node.
func perLane(concurrency, lanes int) int {
	return min(concurrency, max(1, millrace.MaxConcurrency/lanes))
}

// takes reports whether an event of an address goes to the subscription.
func (s *subscription) takes(topic, address string) bool {
	if s.match != nil {
		return s.match.Matches(address)
	}
	return slices.Contains(s.spec.Topics, topic)
}

// pattern is the match that it has, or that a topic of its own amounts to.
func (s *subscription) pattern(topic string) string {
	if s.match != nil {
		return s.spec.Match
	}
	return ":" + topic + ":"
}

// subscription finds a subscription by name; one that this node has not heard of yet is
// looked for in the store before it is declared unknown.
func (r *registry) subscription(ctx context.Context, name string) (*subscription, error) {
	if s, ok := r.now().subs[name]; ok {
		return s, nil
	}
	if fault := millrace.NameFault(name); fault != "" {
		return nil, millrace.Invalid([]millrace.Fault{{Location: "subscription", Message: fault}})
	}
	h, err := r.reload(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := h.subs[name]; ok {
		return s, nil
	}
	return nil, millrace.Errorf(millrace.CodeNotFound, "there is no such subscription")
}

// enter lets a call in and finds its subscription; without an error, leave must follow.
func (s Subscriptions) enter(ctx context.Context, name string) (*subscription, error) {
	if err := s.b.gate.enter(); err != nil {
		return nil, err
	}
	sub, err := s.b.registry.subscription(ctx, name)
	if err != nil {
		s.b.gate.leave()
		return nil, err
	}
	return sub, nil
}

// Put defines a subscription or replaces its definition; see millrace.SubscriptionService.
func (s Subscriptions) Put(ctx context.Context, name string, spec millrace.SubscriptionSpec) (out millrace.Subscription, created bool, err error) {
	if err := s.b.gate.enter(); err != nil {
		return out, false, err
	}
	defer s.b.gate.leave()
	if err := s.faults(name, &spec); err != nil {
		return out, false, err
	}
	err = untilStill(func() error {
		sub, made, err := s.define(ctx, name, spec)
		if err != nil {
			return err
		}
		created = sub.isNew
		out, err = s.describe(ctx, sub)
		if err != nil && made != "" {
			out, err = sub.holding(nil), nil // the secret is told this once, and a new one holds nothing yet
		}
		out.MadeSecret = made
		return err
	})
	return out, created, err
}

// faults finds what is wrong with a definition, its address and its secret among it.
func (s Subscriptions) faults(name string, spec *millrace.SubscriptionSpec) error {
	faults := spec.Faults("")
	add := func(field, message string) {
		if message != "" {
			faults = append(faults, millrace.Fault{Location: field, Message: message})
		}
	}
	add("subscription", millrace.NameFault(name))
	if millrace.CallbackFault(spec.Callback) == "" {
		u, _ := url.Parse(spec.Callback) // it has been parsed before
		add("callback", s.b.guard.URLFault(u.Scheme == "https", u.Hostname()))
	}
	for _, m := range s.secretFaults(name, spec.Secrets) {
		add("secret", m)
	}
	return millrace.Invalid(faults)
}

// define writes a definition over the one that is there and tells every lane. The same
// definition again is not written, but told again. made is a secret that was made.
func (s Subscriptions) define(ctx context.Context, name string, spec millrace.SubscriptionSpec) (sub *subscription, made string, err error) {
	h, err := s.b.registry.reload(ctx)
	if err != nil {
		return nil, "", err
	}
	old, exists := h.subs[name]
	if exists {
		sub, err = s.redefine(ctx, old, spec)
		return sub, "", err
	}
	if len(spec.Secrets) == 0 {
		made = webhook.NewSecret()
		spec.Secrets = []millrace.Secret{{Text: made}}
	}
	fresh := &subscription{definition: millrace.Definition{Kind: millrace.KindSubscription, Name: name, UID: newUID()}}
	sub, err = s.write(ctx, fresh, subscriptionRecord{SubscriptionSpec: spec, Version: 1, State: millrace.StateActive})
	if err != nil {
		return nil, "", err
	}
	sub.isNew = true
	return sub, made, nil
}

// redefine replaces a definition; a secret that it leaves out stays, one that it names is the only one.
func (s Subscriptions) redefine(ctx context.Context, old *subscription, spec millrace.SubscriptionSpec) (*subscription, error) {
	now := time.Now()
	spec = old.keeping(spec, now)
	switch {
	case old.spec.Ordered != spec.Ordered:
		return nil, millrace.Errorf(millrace.CodeImmutable, "ordered cannot change; delete the subscription and create it anew")
	case reflect.DeepEqual(normal(old.spec, now), normal(spec, now)):
		return old, s.tell(ctx, old)
	}
	return s.write(ctx, old, old.redefined(spec, now))
}

// keeping is a new definition with what it leaves out and the old one keeps.
func (s *subscription) keeping(spec millrace.SubscriptionSpec, now time.Time) millrace.SubscriptionSpec {
	if given := spec.Secrets; len(given) == 0 || len(s.spec.Secrets) > 0 && given[0].Text == s.spec.Secrets[0].Text {
		spec.Secrets = unexpired(s.spec.Secrets, now)
	}
	if spec.UUID == "" {
		spec.UUID = s.spec.UUID
	}
	return spec
}

// normal is a definition in a form that can be compared.
func normal(spec millrace.SubscriptionSpec, now time.Time) millrace.SubscriptionSpec {
	spec.Secrets = unexpired(spec.Secrets, now)
	spec.Topics = append([]string{}, spec.Topics...)
	spec.RetrySchedule = append([]time.Duration{}, spec.RetrySchedule...)
	return spec
}

// write replaces a subscription's record in the registry and tells every lane.
func (s Subscriptions) write(ctx context.Context, old *subscription, record subscriptionRecord) (*subscription, error) {
	d, err := s.b.registry.write(ctx, old.definition, record)
	if err != nil {
		return nil, err
	}
	sub, err := newSubscription(d)
	if err != nil {
		return nil, err
	}
	return sub, s.tell(ctx, sub)
}

// tell tells every lane of a subscription, and this node.
func (s Subscriptions) tell(ctx context.Context, sub *subscription) error {
	return s.b.registry.tell(ctx, millrace.Apply{Version: sub.definition.Version, Subscriptions: []millrace.SubscriptionSettings{sub.settings(s.b.identity.Lanes)}})
}

// change writes a changed record over a subscription's; a change that changes nothing is told again.
func (s Subscriptions) change(ctx context.Context, name string, change func(*subscription, *subscriptionRecord)) error {
	return untilStill(func() error {
		if _, err := s.b.registry.reload(ctx); err != nil {
			return err
		}
		sub, err := s.b.registry.subscription(ctx, name)
		if err != nil {
			return err
		}
		record := sub.record()
		change(sub, &record)
		if reflect.DeepEqual(record, sub.record()) {
			return s.tell(ctx, sub)
		}
		_, err = s.write(ctx, sub, record)
		return err
	})
}

// Pause stops the sending; see millrace.SubscriptionService. What is disabled stays so.
func (s Subscriptions) Pause(ctx context.Context, name string) error {
	return s.setState(ctx, name, func(_ *subscription, r *subscriptionRecord) {
		if r.State == millrace.StateActive {
			r.State = millrace.StatePaused
		}
	})
}

// Resume ends a pause and a disabling.
func (s Subscriptions) Resume(ctx context.Context, name string) error {
	return s.setState(ctx, name, func(_ *subscription, r *subscriptionRecord) {
		if r.State != millrace.StateActive {
			r.State, r.Reason, r.FreshAt = millrace.StateActive, "", time.Now().UTC()
		}
	})
}

func (s Subscriptions) setState(ctx context.Context, name string, change func(*subscription, *subscriptionRecord)) error {
	if err := s.b.gate.enter(); err != nil {
		return err
	}
	defer s.b.gate.leave()
	return s.change(ctx, name, change)
}

// Get returns a subscription with what it holds.
func (s Subscriptions) Get(ctx context.Context, name string) (millrace.Subscription, error) {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return millrace.Subscription{}, err
	}
	defer s.b.gate.leave()
	return s.describe(ctx, sub)
}

// List returns subscriptions by name; see millrace.SubscriptionService.
func (s Subscriptions) List(ctx context.Context, page millrace.Page) ([]millrace.Subscription, string, error) {
	return listed(ctx, s.b, page, func(h *house) map[string]*subscription { return h.subs }, s.describe)
}

// describe gathers what a subscription holds in all lanes.
func (s Subscriptions) describe(ctx context.Context, sub *subscription) (millrace.Subscription, error) {
	lanes, err := s.b.subscriptionStats(ctx, sub)
	if err != nil {
		return millrace.Subscription{}, err
	}
	return sub.holding(lanes), nil
}

// holding is the subscription with what the lanes say that it holds.
func (s *subscription) holding(lanes []millrace.SubscriptionStats) millrace.Subscription {
	out := millrace.Subscription{Name: s.name, Version: s.version, State: s.state, Reason: s.reason, Spec: s.spec}
	out.Spec.Secrets = unexpired(s.spec.Secrets, time.Now())
	parked, reason := false, ""
	for i := range lanes {
		stats := &lanes[i]
		out.Queued += stats.Queued
		out.Sent += stats.Sent
		out.Failed += stats.Failed
		out.Dead += stats.Dead
		out.Dropped += stats.Dropped
		out.Skipped += stats.Skipped
		out.Oldest = earlier(out.Oldest, stats.Oldest)
		out.NextAttemptAt = earlier(out.NextAttemptAt, stats.NextAttemptAt)
		parked = parked || stats.Parked
		reason = cmp.Or(reason, stats.Reason)
	}
	if parked && out.State == millrace.StateActive {
		out.State = millrace.StateFailing
	}
	out.Reason = cmp.Or(out.Reason, reason)
	return out
}

// earlier is the earlier of two times; zero is no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Delete removes a subscription with all it holds; see millrace.SubscriptionService.
func (s Subscriptions) Delete(ctx context.Context, name string, ifEmpty bool) error {
	sub, err := s.enter(ctx, name)
	if err != nil {
		return err
	}
	defer s.b.gate.leave()
	if ifEmpty {
		held, err := s.describe(ctx, sub)
		if err != nil {
			return err
		}
		if held.Queued+held.Dead > 0 {
			return millrace.Errorf(millrace.CodeNotEmpty, "the subscription holds events")
		}
	}
	return s.b.remove(ctx, sub.definition)
}
