package broker

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace"
)

// Held returns a delayed event that is not due yet; see millrace.Backbone.
func (b *Broker) Held(ctx context.Context, tenant, id string) (millrace.Delayed, error) {
	var out millrace.Delayed
	err := b.findHeld(tenant, id, func(lane int) error {
		held, err := b.engine.Held(ctx, lane, tenant, id)
		if err != nil {
			return err
		}
		out.DueAt = held.DueAt
		out.Event, err = millrace.DecodeEvent(held.Body)
		return err
	})
	return out, err
}

// CancelHeld takes a delayed event back; see millrace.Backbone.
func (b *Broker) CancelHeld(ctx context.Context, tenant, id string) error {
	err := b.findHeld(tenant, id, func(lane int) error { return b.engine.CancelHeld(ctx, lane, tenant, id) })
	if err == nil && b.logging(ctx) {
		b.logCancelled(ctx, tenant, id)
	}
	return err
}

// findHeld asks lane after lane, the id's own first: an event with a key lies in
// the key's, which the caller does not name.
func (b *Broker) findHeld(tenant, id string, ask func(lane int) error) error {
	if err := b.gate.enter(); err != nil {
		return err
	}
	defer b.gate.leave()
	if err := heldFaults(tenant, id); err != nil {
		return err
	}
	first := millrace.LaneOf(millrace.Hash(tenant, id), b.identity.Lanes)
	for i := range b.identity.Lanes {
		err := ask((first + i) % b.identity.Lanes)
		if millrace.CodeOf(err) != millrace.CodeNotFound {
			return err
		}
	}
	return millrace.Errorf(millrace.CodeNotFound, "there is no such delayed event")
}

func heldFaults(tenant, id string) error {
	var faults []millrace.Fault
	if m := millrace.NameFault(tenant); m != "" {
		faults = append(faults, millrace.Fault{Location: "tenant", Message: m})
	}
	m := millrace.TextFault(id, millrace.MaxIDLen)
	if id == "" {
		m = "must not be empty"
	}
	if m != "" {
		faults = append(faults, millrace.Fault{Location: "id", Message: m})
	}
	return millrace.Invalid(faults)
}

// deliverHeld routes and commits delayed events that are due. One that a full
// queue refuses stays held and is handed out again; it must not hold up the others.
func (b *Broker) deliverHeld(ctx context.Context, lane int, held []millrace.HeldEvent) {
	p := &publication{results: make([]millrace.Published, len(held))}
	all := make([]int, len(held))
	for i, h := range held {
		e, err := millrace.DecodeEvent(h.Body)
		if err != nil {
			b.log.Error("a delayed event cannot be read", "lane", lane, "name", h.Name, "error", err)
		}
		all[i] = i
		p.places = append(p.places, addressOf(&e))
		p.events = append(p.events, millrace.CommitEvent{Tenant: e.Tenant, Topic: e.Topic, Key: e.Key, Body: h.Body, From: h.Name})
	}
	b.commitLane(ctx, p, lane, all)
	if p.failed() == 0 || ctx.Err() != nil {
		return
	}
	for i := range all {
		if p.results[i].Err == nil {
			continue
		}
		p.results[i].Err = nil
		if b.commitLane(ctx, p, lane, all[i:i+1]); p.results[i].Err != nil {
			b.refused.Add(1)
			b.log.Warn("a delayed event is due but cannot be stored yet", "address", p.places[i].text, "error", fmt.Sprint(p.results[i].Err))
		}
	}
}
