package millrace

import (
	"maps"
	"slices"
	"strconv"
)

// Document is the definitions of a store as one thing: what a team keeps beside
// its code and applies to every store it runs. What it does not name is not
// touched, unless it is pruned.
type Document struct {
	Queues  map[string]QueueSpec                 // by name
	Tenants map[string]map[string]TenantSettings // by queue, then by tenant

	// Subscriptions are by name, nil if there are none. A store shows them without what is
	// secret; one that is applied without its secret or uuid keeps what it has.
	Subscriptions map[string]SubscriptionSpec

	Triggers map[string]TriggerSpec // by name, nil if there are none; their secrets are never in it
}

// ApplyOptions says how a document is applied.
type ApplyOptions struct {
	Prune  bool // remove what the document does not name, with all it holds
	DryRun bool // only say what would be done
}

// Applied says what became of a document: what is new, changed and removed, as
// "queue/emails", "tenant/emails/acme" and "subscription/shop", sorted, and how many of its entries
// were so already.
type Applied struct {
	Created, Changed, Deleted []string
	Same                      int
}

// Faults lists what is wrong with a document by itself, each located below the given prefix.
func (d *Document) Faults(at string) []Fault {
	f := faults{at: at}
	eachNamed(&f, "queues", "a queue's name ", d.Queues, func(at string, q QueueSpec) []Fault { return q.Faults(at) })
	for _, queue := range slices.Sorted(maps.Keys(d.Tenants)) {
		if m := NameFault(queue); m != "" {
			f.add("tenants", "a queue's name "+m)
			continue
		}
		d.tenantFaults(&f, queue)
	}
	eachNamed(&f, "subscriptions", "a subscription's name ", d.Subscriptions, func(at string, s SubscriptionSpec) []Fault { return s.Faults(at) })
	eachNamed(&f, "triggers", "a trigger's name ", d.Triggers, func(at string, t TriggerSpec) []Fault { return t.Faults(at) })
	return f.list
}

// eachNamed adds the faults of definitions of one kind, by name.
func eachNamed[S any](f *faults, kind, whose string, specs map[string]S, faultsOf func(at string, spec S) []Fault) {
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if m := NameFault(name); m != "" {
			f.add(kind, whose+m)
			continue
		}
		f.list = append(f.list, faultsOf(f.below(kind+"."+name), specs[name])...)
	}
}

func (d *Document) tenantFaults(f *faults, queue string) {
	for _, tenant := range slices.Sorted(maps.Keys(d.Tenants[queue])) {
		at := "tenants." + queue
		if m := NameFault(tenant); m != "" {
			f.add(at, "a tenant's name "+m)
			continue
		}
		s := d.Tenants[queue][tenant]
		f.list = append(f.list, s.Faults(f.below(at+"."+tenant))...)
	}
}

// Faults lists what is wrong with a tenant's settings, each located below the given prefix.
func (s TenantSettings) Faults(at string) []Fault {
	f := faults{at: at}
	if s.Weight < 0 || s.Weight > MaxWeight {
		f.add("weight", "must be between 0 and "+strconv.Itoa(MaxWeight))
	}
	if s.Limit > MaxCount {
		f.add("limit", "must be at most "+strconv.Itoa(MaxCount))
	}
	return f.list
}
