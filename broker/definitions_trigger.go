package broker

import (
	"maps"
	"slices"

	"github.com/millrace-dev/millrace"
)

// shownTriggers is the definitions of triggers; nil if there are none.
func (h *house) shownTriggers() map[string]millrace.TriggerSpec {
	if len(h.triggers) == 0 {
		return nil
	}
	shown := map[string]millrace.TriggerSpec{}
	for name, t := range h.triggers {
		shown[name] = t.TriggerSpec
	}
	return shown
}

// triggers plans the definitions of triggers: the removals come last. A new one gets a secret that nobody is told: whoever
// wants to call it rotates it.
func (p *plan) triggers(h *house, doc *millrace.Document, prune bool) error {
	for _, name := range slices.Sorted(maps.Keys(doc.Triggers)) {
		spec := doc.Triggers[name]
		old, exists := h.triggers[name]
		if exists && sameSpec(&old.TriggerSpec, &spec) {
			p.applied.Same++
			continue
		}
		d, record := millrace.Definition{Kind: millrace.KindTrigger, Name: name}, triggerRecord{TriggerSpec: spec, Version: 1}
		if exists {
			d, record.Version, record.Digest = old.definition, old.Version+1, old.Digest
		} else {
			_, record.Digest = newTriggerSecret()
		}
		if err := p.write(d, record); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.triggers)) {
		if _, named := doc.Triggers[name]; prune && !named {
			p.remove(h.triggers[name].definition)
		}
	}
	return nil
}
