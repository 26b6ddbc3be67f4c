package broker

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

// shownSubscriptions is the definitions of subscriptions without what is secret; nil if there are none.
func (h *house) shownSubscriptions() map[string]millrace.SubscriptionSpec {
	if len(h.subs) == 0 {
		return nil
	}
	shown := map[string]millrace.SubscriptionSpec{}
	for name, s := range h.subs {
		spec := s.spec
		spec.Secrets, spec.UUID = nil, ""
		if len(spec.Topics) == 0 {
			spec.Topics = nil
		}
		shown[name] = spec
	}
	return shown
}

// callbackFaults finds addresses that a document's subscriptions may not call, and secrets that are none.
func (b *Broker) callbackFaults(doc *millrace.Document) (faults []millrace.Fault) {
	for _, name := range slices.Sorted(maps.Keys(doc.Subscriptions)) {
		spec := doc.Subscriptions[name]
		var e *millrace.Error
		if spec.Faults("") != nil || !errors.As(Subscriptions{b}.faults(name, &spec), &e) {
			continue // the document's own faults have it, or there is none
		}
		for _, f := range e.Faults {
			faults = append(faults, millrace.Fault{Location: "subscriptions." + name + "." + f.Location, Message: f.Message})
		}
	}
	return faults
}

// subscriptions plans the definitions of subscriptions: the removals come last.
func (p *plan) subscriptions(h *house, doc *millrace.Document, prune bool) error {
	for _, name := range slices.Sorted(maps.Keys(doc.Subscriptions)) {
		if err := p.subscription(h.subs[name], name, doc.Subscriptions[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.subs)) {
		if _, named := doc.Subscriptions[name]; prune && !named {
			p.remove(h.subs[name].definition)
		}
	}
	return nil
}

// subscription plans one definition, over the one that is there, if any.
func (p *plan) subscription(old *subscription, name string, spec millrace.SubscriptionSpec) error {
	if old == nil {
		if len(spec.Secrets) == 0 {
			spec.Secrets = []millrace.Secret{{Text: webhook.NewSecret()}}
		}
		fresh := millrace.Definition{Kind: millrace.KindSubscription, Name: name}
		return p.write(fresh, subscriptionRecord{SubscriptionSpec: spec, Version: 1, State: millrace.StateActive})
	}
	now := time.Now()
	spec = old.keeping(spec, now)
	if reflect.DeepEqual(normal(old.spec, now), normal(spec, now)) {
		p.applied.Same++
		return nil
	}
	return p.write(old.definition, old.redefined(spec, now))
}
