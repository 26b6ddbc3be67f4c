package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace"
)

// Definitions is everything that is defined, as one document.
func (b *Broker) Definitions(ctx context.Context) (millrace.Document, error) {
	if err := b.gate.enter(); err != nil {
		return millrace.Document{}, err
	}
	defer b.gate.leave()
	doc := millrace.Document{Queues: map[string]millrace.QueueSpec{}, Tenants: map[string]map[string]millrace.TenantSettings{}}
	h, err := b.registry.reload(ctx)
	if err != nil {
		return doc, err
	}
	for name, q := range h.queues {
		doc.Queues[name] = q.spec
		tenants, err := Queues{b}.allSettings(ctx, q)
		if err != nil {
			return doc, err
		}
		for tenant, s := range tenants {
			if doc.Tenants[name] == nil {
				doc.Tenants[name] = map[string]millrace.TenantSettings{}
			}
			doc.Tenants[name][tenant] = s.TenantSettings
		}
	}
	doc.Subscriptions = h.shownSubscriptions()
	return doc, nil
}

// Apply makes a document's definitions the store's; see millrace.Backbone.
func (b *Broker) Apply(ctx context.Context, doc millrace.Document, o millrace.ApplyOptions) (millrace.Applied, error) {
	if err := b.gate.enter(); err != nil {
		return millrace.Applied{}, err
	}
	defer b.gate.leave()
	if err := millrace.Invalid(append(doc.Faults(""), b.callbackFaults(&doc)...)); err != nil {
		return millrace.Applied{}, err
	}
	for range maxReroutes {
		p, err := b.plan(ctx, &doc, o.Prune)
		if err != nil || o.DryRun {
			return p.applied, err
		}
		if len(p.define) > 0 {
			_, err = b.engine.DefineAll(ctx, p.define)
		}
		if millrace.CodeOf(err) == millrace.CodeChanged {
			continue // and nothing is written
		}
		if err != nil {
			return millrace.Applied{}, err
		}
		if err := b.complete(ctx, p); err != nil {
			return millrace.Applied{}, cutShort(err)
		}
		return p.applied, nil
	}
	return millrace.Applied{}, millrace.Errorf(millrace.CodeUnavailable, "the definitions keep changing; try again")
}

// cutShort is the error of a document whose definitions are written and whose
// rest is not: the same document again completes it.
func cutShort(err error) error {
	code := millrace.CodeOf(err)
	if code == millrace.CodeNotFound {
		code = millrace.CodeUnavailable // somebody has just removed a queue that it names
	}
	return millrace.Wrap(code, err, "everything is defined, but not every lane and tenant has its settings; apply the same document again")
}

// plan is what has to be done to apply a document.
type plan struct {
	applied millrace.Applied
	define  []millrace.Redefinition
	tenants []tenantChange
}

// tenantChange gives a tenant settings, or takes them away.
type tenantChange struct {
	queue, tenant string
	settings      *millrace.TenantSettings
}

// plan compares a document with what is there and finds the faults that only
// the store can know.
func (b *Broker) plan(ctx context.Context, doc *millrace.Document, prune bool) (plan, error) {
	p := plan{applied: millrace.Applied{Created: []string{}, Changed: []string{}, Deleted: []string{}}}
	h, err := b.registry.reload(ctx)
	if err != nil {
		return p, err
	}
	if err := storeFaults(h, doc, prune); err != nil {
		return p, err
	}
	if err := p.queues(h, doc, prune); err != nil {
		return p, err
	}
	if err := p.subscriptions(h, doc, prune); err != nil {
		return p, err
	}
	for name, q := range h.queues {
		if err := p.tenantsOf(ctx, b, q, doc.Tenants[name], prune); err != nil {
			return p, err
		}
	}
	for name, tenants := range doc.Tenants {
		if _, exists := h.queues[name]; !exists {
			p.compare(name, nil, tenants, false)
		}
	}
	for _, list := range [][]string{p.applied.Created, p.applied.Changed, p.applied.Deleted} {
		slices.Sort(list)
	}
	return p, nil
}

// storeFaults finds tenants of no queue, and changes of what cannot change.
func storeFaults(h *house, doc *millrace.Document, prune bool) error {
	var faults []millrace.Fault
	for _, name := range slices.Sorted(maps.Keys(doc.Tenants)) {
		_, named := doc.Queues[name]
		_, exists := h.queues[name]
		if !named && (prune || !exists) {
			faults = append(faults, millrace.Fault{Location: "tenants." + name, Message: "belongs to a queue that is not defined"})
		}
	}
	if err := millrace.Invalid(faults); err != nil {
		return err
	}
	var fixed []string
	for name, spec := range doc.Queues {
		if q, exists := h.queues[name]; exists && immutable(&q.spec, &spec) != nil {
			fixed = append(fixed, "queue "+name)
		}
	}
	for name, spec := range doc.Subscriptions {
		if s, exists := h.subs[name]; exists && s.spec.Ordered != spec.Ordered {
			fixed = append(fixed, "subscription "+name)
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	slices.Sort(fixed)
	return millrace.Errorf(millrace.CodeImmutable, "ordered and tracked cannot change (%s); delete it and create it anew", strings.Join(fixed, ", "))
}

// queues plans the definitions of queues: the removals come last.
func (p *plan) queues(h *house, doc *millrace.Document, prune bool) error {
	for _, name := range slices.Sorted(maps.Keys(doc.Queues)) {
		spec := doc.Queues[name]
		if spec.Redact == nil {
			spec.Redact = []string{}
		}
		if err := p.queue(h.queues[name], name, spec); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.queues)) {
		if _, named := doc.Queues[name]; prune && !named {
			p.remove(h.queues[name].definition)
		}
	}
	return nil
}

// remove plans the end of a definition.
func (p *plan) remove(d millrace.Definition) {
	d.Deleted = true
	p.define = append(p.define, millrace.Redefinition{Definition: d, Replaces: d.Version})
	p.applied.Deleted = append(p.applied.Deleted, string(d.Kind)+"/"+d.Name)
}

// write plans a definition with a record: in place of old, or under a new uid if old has none.
func (p *plan) write(old millrace.Definition, record any) (err error) {
	name, d := string(old.Kind)+"/"+old.Name, millrace.Redefinition{Definition: old, Replaces: old.Version}
	if old.UID != "" {
		p.applied.Changed = append(p.applied.Changed, name)
	} else {
		p.applied.Created = append(p.applied.Created, name)
		d.UID = newUID()
	}
	if d.Spec, err = json.Marshal(record); err != nil {
		return fmt.Errorf("write the definition of %s: %w", name, err)
	}
	p.define = append(p.define, d)
	return nil
}

// queue plans one definition, over the one that is there, if any.
func (p *plan) queue(old *queue, name string, spec millrace.QueueSpec) error {
	switch {
	case old == nil:
		return p.write(millrace.Definition{Kind: millrace.KindQueue, Name: name}, queueRecord{QueueSpec: spec, Version: 1})
	case reflect.DeepEqual(old.spec, spec):
		p.applied.Same++
		return nil
	}
	return p.write(old.definition, queueRecord{QueueSpec: spec, Version: old.version + 1, Paused: old.paused})
}

// tenantsOf plans the tenants of a queue that exists.
func (p *plan) tenantsOf(ctx context.Context, b *Broker, q *queue, want map[string]millrace.TenantSettings, prune bool) (err error) {
	if !prune && len(want) == 0 {
		return nil
	}
	var have map[string]laneSettings
	if prune {
		have, err = Queues{b}.allSettings(ctx, q)
	} else {
		have, err = Queues{b}.settingsOf(ctx, q, slices.Collect(maps.Keys(want)))
	}
	p.compare(q.name, have, want, prune)
	return err
}

// compare plans the changes from what a queue's tenants have to what they are to have.
func (p *plan) compare(queue string, have map[string]laneSettings, want map[string]millrace.TenantSettings, prune bool) {
	for tenant, s := range want {
		s.Limit = max(s.Limit, -1) // any negative one is the queue's
		old, exists := have[tenant]
		name := "tenant/" + queue + "/" + tenant
		switch {
		case !exists:
			p.applied.Created = append(p.applied.Created, name)
		case old.everywhere && old.TenantSettings == s:
			p.applied.Same++
			continue
		default:
			p.applied.Changed = append(p.applied.Changed, name)
		}
		p.tenants = append(p.tenants, tenantChange{queue, tenant, &s})
	}
	for tenant := range have {
		if _, named := want[tenant]; prune && !named {
			p.applied.Deleted = append(p.applied.Deleted, "tenant/"+queue+"/"+tenant)
			p.tenants = append(p.tenants, tenantChange{queue, tenant, nil})
		}
	}
}

// complete tells every lane of the definitions that are written, also of those
// that a try before this one wrote, and gives the tenants their settings.
func (b *Broker) complete(ctx context.Context, p plan) error {
	h, err := b.registry.reload(ctx)
	if err != nil {
		return err
	}
	if err := b.registry.repair(ctx, h); err != nil {
		return err
	}
	b.sweeper.nudge()
	for _, c := range p.tenants {
		q, exists := h.queues[c.queue]
		if !exists {
			continue // its removal has taken the settings with it
		}
		if err := (Queues{b}).setTenant(ctx, q, c.tenant, c.settings); err != nil {
			return err
		}
	}
	return nil
}

// laneSettings is what the lanes have for a tenant.
type laneSettings struct {
	millrace.TenantSettings
	lanes      int
	everywhere bool // all lanes have the same
}

// allSettings is what a queue's tenants have, of all that have any.
func (s Queues) allSettings(ctx context.Context, q *queue) (map[string]laneSettings, error) {
	sums := settingsSum{}
	for lane := range s.b.identity.Lanes {
		for after, more := "", true; more; {
			var list []millrace.TenantStats
			err := s.inLane(ctx, q, lane, func() (err error) {
				list, err = s.b.engine.Tenants(ctx, lane, q.uid, after, millrace.MaxPage)
				return err
			})
			if err != nil {
				return nil, err
			}
			sums.add(list...)
			if more = len(list) == millrace.MaxPage; more {
				after = list[len(list)-1].Tenant
			}
		}
	}
	return sums.of(s.b.identity.Lanes), nil
}

// settingsOf is what some tenants of a queue have.
func (s Queues) settingsOf(ctx context.Context, q *queue, tenants []string) (map[string]laneSettings, error) {
	sums := settingsSum{}
	for lane := range s.b.identity.Lanes {
		for _, tenant := range tenants {
			err := s.inLane(ctx, q, lane, func() error {
				t, err := s.b.engine.Tenant(ctx, lane, q.uid, tenant)
				sums.add(t)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return sums.of(s.b.identity.Lanes), nil
}

// settingsSum gathers what the lanes have for tenants. They differ only after a
// change that was cut short.
type settingsSum map[string]laneSettings

func (m settingsSum) add(list ...millrace.TenantStats) {
	for _, t := range list {
		if t.Settings == nil {
			continue
		}
		own := *t.Settings
		own.Limit = max(own.Limit, -1)
		sum, seen := m[t.Tenant]
		if !seen {
			sum = laneSettings{TenantSettings: own}
		}
		if sum.TenantSettings == own {
			sum.lanes++
		}
		m[t.Tenant] = sum
	}
}

func (m settingsSum) of(lanes int) map[string]laneSettings {
	for tenant, sum := range m {
		sum.everywhere = sum.lanes == lanes
		m[tenant] = sum
	}
	return m
}
