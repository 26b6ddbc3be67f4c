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

// router tells which queues an address reaches. It belongs to one version of
// the registry and never changes but for its cache.
type router struct {
	any     []*queue            // whose patterns may match any topic
	byTopic map[string][]*queue // whose patterns name one topic

	mu    sync.RWMutex
	cache map[string][]string
}

func newRouter(queues map[string]*queue) *router {
	r := &router{byTopic: map[string][]*queue{}, cache: map[string][]string{}}
	for _, q := range queues {
		if t := q.match.Topic(); t != "" {
			r.byTopic[t] = append(r.byTopic[t], q)
		} else {
			r.any = append(r.any, q)
		}
	}
	return r
}

// address is where an event comes from, as routing sees it.
type address struct{ topic, text string }

func addressOf(e *millrace.Event) address { return address{topic: e.Topic, text: e.Address()} }

// route returns the uids of the queues that take an event. The slice is shared.
func (r *router) route(a address) []string {
	r.mu.RLock()
	uids, ok := r.cache[a.text]
	r.mu.RUnlock()
	if ok {
		return uids
	}
	uids = r.find(a.topic, a.text)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= routeCacheSize {
		for old := range r.cache { // any one: Go picks at random
			delete(r.cache, old)
			break
		}
	}
	r.cache[a.text] = uids
	return uids
}

func (r *router) find(topic, address string) []string {
	var uids []string
	for _, list := range [...][]*queue{r.any, r.byTopic[topic]} {
		for _, q := range list {
			if q.match.Matches(address) {
				uids = append(uids, q.uid)
			}
		}
	}
	return uids
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
	return out, nil
}
