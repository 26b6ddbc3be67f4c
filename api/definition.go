package api

import (
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// DecodeDocument reads a document of definitions. Every member of every kind is
// checked, and every fault located, as in body.queues.emails.lease; an unknown
// kind is a fault.
func DecodeDocument(body []byte) (millrace.Document, error) {
	d := newDecoder(body)
	doc := d.document()
	return doc, d.finish()
}

// DecodeDefinitions reads the definitions of a store.
func DecodeDefinitions(text []byte) (millrace.Document, error) {
	d := newAnswerDecoder(text)
	doc := d.document()
	return doc, d.finish()
}

func (d *decoder) document() millrace.Document {
	doc := millrace.Document{Queues: map[string]millrace.QueueSpec{}, Tenants: map[string]map[string]millrace.TenantSettings{}}
	if !d.object() {
		return doc
	}
	for d.next() {
		switch string(d.name) {
		case "queues":
			d.named("queues", "a queue's name", func(sub *decoder, name string) { doc.Queues[name] = sub.queueSpec() })
		case "tenants":
			d.named("tenants", "a queue's name", func(sub *decoder, queue string) {
				doc.Tenants[queue] = map[string]millrace.TenantSettings{}
				sub.named("", "a tenant's name", func(sub *decoder, tenant string) { doc.Tenants[queue][tenant] = sub.tenantSettings() })
			})
		case "subscriptions":
			d.named("subscriptions", "a subscription's name", func(sub *decoder, name string) {
				if doc.Subscriptions == nil {
					doc.Subscriptions = map[string]millrace.SubscriptionSpec{}
				}
				doc.Subscriptions[name] = sub.subscriptionSpec()
			})
		case "triggers":
			d.named("triggers", "a trigger's name", func(sub *decoder, name string) {
				if doc.Triggers == nil {
					doc.Triggers = map[string]millrace.TriggerSpec{}
				}
				doc.Triggers[name] = sub.triggerSpec()
			})
		default:
			d.skip()
		}
	}
	return doc
}

// named reads an object whose members are named by its writer. Each member is
// read by a decoder of its own, whose faults are located below its name: names
// may hold what a field's name may not.
func (d *decoder) named(member, what string, each func(sub *decoder, name string)) {
	at := d.root
	if member != "" {
		at += "." + member
	}
	if !d.object() {
		return
	}
	for d.next() {
		name := string(d.name)
		raw, ok := d.value()
		if !ok {
			return
		}
		if m := millrace.NameFault(name); m != "" {
			d.faultAt(at, what+" "+m)
			continue
		}
		sub := newAnswerDecoder(raw)
		sub.root, sub.strict = at+"."+name, d.strict
		each(sub, name)
		for _, f := range sub.faults {
			d.faultAt(f.Location, f.Message)
		}
	}
}

// AppendDocument writes a document of definitions, each kind by name.
func AppendDocument(b []byte, doc *millrace.Document) []byte {
	b = append(appendName(append(b, '{'), "queues"), '{')
	for _, name := range slices.Sorted(maps.Keys(doc.Queues)) {
		spec := doc.Queues[name]
		b = AppendQueueSpec(appendName(b, name), &spec)
	}
	b = append(appendName(append(b, '}'), "tenants"), '{')
	for _, queue := range slices.Sorted(maps.Keys(doc.Tenants)) {
		b = append(appendName(b, queue), '{')
		for _, tenant := range slices.Sorted(maps.Keys(doc.Tenants[queue])) {
			b = AppendTenantSettings(appendName(b, tenant), doc.Tenants[queue][tenant])
		}
		b = append(b, '}')
	}
	b = append(appendName(append(b, '}'), "subscriptions"), '{')
	for _, name := range slices.Sorted(maps.Keys(doc.Subscriptions)) {
		spec := doc.Subscriptions[name]
		b = AppendSubscriptionSpec(appendName(b, name), &spec)
	}
	b = append(appendName(append(b, '}'), "triggers"), '{')
	for _, name := range slices.Sorted(maps.Keys(doc.Triggers)) {
		spec := doc.Triggers[name]
		b = AppendTriggerSpec(appendName(b, name), &spec)
	}
	return append(b, '}', '}')
}

// AppendApplied writes what became of a document.
func AppendApplied(b []byte, a *millrace.Applied) []byte {
	b = appendStrings(appendName(append(b, '{'), "created"), a.Created)
	b = appendStrings(appendName(b, "changed"), a.Changed)
	b = appendStrings(appendName(b, "deleted"), a.Deleted)
	return append(appendIntField(b, "same", int64(a.Same)), '}')
}

// DecodeApplied reads what became of a document.
func DecodeApplied(text []byte) (a millrace.Applied, err error) {
	d := newAnswerDecoder(text)
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case "created":
				a.Created = d.strings()
			case "changed":
				a.Changed = d.strings()
			case "deleted":
				a.Deleted = d.strings()
			case "same":
				a.Same = int(d.unsigned())
			default:
				d.skip()
			}
		}
	}
	return a, d.finish()
}
