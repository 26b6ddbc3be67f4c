package broker

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace"
)

// routeCacheSize bounds how many addresses a router remembers.
const routeCacheSize = 16384

// router tells which sinks an address reaches. It belongs to one version of
// the registry and never changes but for its cache.
type router struct {
	any     []target            // whose patterns may match any topic
	byTopic map[string][]target // that want one topic

	mu    sync.RWMutex
	cache map[string]way
}

// target is a sink as routing sees it.
type target struct {
	uid   string
	batch bool            // it is a subscription
	match *millrace.Match // nil: everything of its topic
}

// way is where an event goes: uids, shared by all events of an address.
type way struct {
	queues, batches []string
}

func newRouter(h *house) *router {
	r := &router{byTopic: map[string][]target{}, cache: map[string]way{}}
	for _, q := range h.queues {
		r.add(target{uid: q.uid, match: q.match}, q.match.Topic())
	}
	for _, s := range h.subs {
		if s.match != nil {
			r.add(target{uid: s.uid, batch: true, match: s.match}, s.match.Topic())
		}
		for _, topic := range s.spec.Topics {
			r.add(target{uid: s.uid, batch: true}, topic)
		}
	}
	return r
}

// add files a target under the only topic that it wants, if there is one.
func (r *router) add(t target, topic string) {
	if topic == "" {
		r.any = append(r.any, t)
		return
	}
	r.byTopic[topic] = append(r.byTopic[topic], t)
}

// address is where an event comes from, as routing sees it.
type address struct{ topic, text string }

func addressOf(e *millrace.Event) address { return address{topic: e.Topic, text: e.Address()} }

// route returns the uids of the sinks that take an event.
func (r *router) route(a address) way {
	r.mu.RLock()
	to, ok := r.cache[a.text]
	r.mu.RUnlock()
	if ok {
		return to
	}
	to = r.find(a.topic, a.text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= routeCacheSize {
		for old := range r.cache { // any one: Go picks at random
			delete(r.cache, old)
			break
		}
	}
	r.cache[a.text] = to
	return to
}

func (r *router) find(topic, address string) (to way) {
	for _, list := range [...][]target{r.any, r.byTopic[topic]} {
		for _, t := range list {
			switch {
			case t.match != nil && !t.match.Matches(address):
			case t.batch:
				to.batches = append(to.batches, t.uid)
			default:
				to.queues = append(to.queues, t.uid)
			}
		}
	}
	return to
}

// Route says which sinks an event of this address would reach now.
func (b *Broker) Route(ctx context.Context, tenant, topic, typ string) (millrace.Route, error) {
	if err := b.gate.enter(); err != nil {
		return millrace.Route{}, err
	}
	defer b.gate.leave()
	if tenant == "" {
		tenant = millrace.DefaultTenant
	}
	var faults []millrace.Fault
	for _, f := range [...][2]string{{"tenant", tenant}, {"topic", topic}, {"type", typ}} {
		if m := millrace.NameFault(f[1]); m != "" {
			faults = append(faults, millrace.Fault{Location: f[0], Message: m})
		}
	}
	if err := millrace.Invalid(faults); err != nil {
		return millrace.Route{}, err
	}
	h, err := b.registry.reload(ctx)
	if err != nil {
		return millrace.Route{}, err
	}
	out := millrace.Route{Address: millrace.Address(tenant, topic, typ), Sinks: []millrace.Sink{}}
	for _, name := range slices.Sorted(maps.Keys(h.queues)) {
		if q := h.queues[name]; q.match.Matches(out.Address) {
			out.Sinks = append(out.Sinks, millrace.Sink{Kind: millrace.KindQueue, Name: name, Match: q.spec.Match, State: q.state()})
		}
	}
	pushed, err := b.pushedTo(ctx, h, topic, out.Address)
	if err != nil {
		return millrace.Route{}, err
	}
	out.Sinks = append(out.Sinks, pushed...)
	return out, nil
}

// pushedTo are the subscriptions that an event of an address would reach. The lanes know
// which of them are failing.
func (b *Broker) pushedTo(ctx context.Context, h *house, topic, address string) (sinks []millrace.Sink, err error) {
	for _, name := range slices.Sorted(maps.Keys(h.subs)) {
		s := h.subs[name]
		if !s.takes(topic, address) {
			continue
		}
		now, err := Subscriptions{b}.describe(ctx, s)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, millrace.Sink{Kind: millrace.KindSubscription, Name: name, Match: s.pattern(topic), State: now.State})
	}
	return sinks, nil
}
