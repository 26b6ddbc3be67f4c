package broker

import (
	"context"

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

// deliverHeld routes and commits delayed events that are due. What cannot be stored stays held
// and is handed out again. One that a full queue refuses must not hold up the others:
// then each is tried by itself.
func (b *Broker) deliverHeld(ctx context.Context, lane int, held []millrace.HeldEvent) {
	p := b.readHeld(lane, held)
	all := make([]int, len(p.events))
	for i := range all {
		all[i] = i
	}
	b.commitLane(ctx, p, lane, all)
	for i := range all {
		err := p.results[i].Err
		if millrace.CodeOf(err) == millrace.CodeFull && len(all) > 1 {
			p.results[i].Err = nil
			b.commitLane(ctx, p, lane, all[i:i+1])
			err = p.results[i].Err
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case millrace.CodeOf(err) == millrace.CodeFull:
			b.refused.Add(1)
			p.results[i].Err = nil // it is counted
			b.log.Warn("a delayed event is due but cannot be stored yet", "address", p.places[i].text, "error", err)
		default: // the others would fare no better
			b.refused.Add(int64(p.failed()))
			b.log.Warn("delayed events are due but cannot be stored yet", "lane", lane, "events", p.failed(), "error", err)
			return
		}
	}
}

// readHeld makes a publication of delayed events. One that cannot be read is left out: it stays held.
func (b *Broker) readHeld(lane int, held []millrace.HeldEvent) *publication {
	p := &publication{}
	for _, h := range held {
		e, err := millrace.DecodeEvent(h.Body)
		if err != nil {
			b.log.Error("a delayed event is due but cannot be read; it stays held", "lane", lane, "name", h.Name, "error", err)
			continue
		}
		p.places = append(p.places, addressOf(&e))
		p.events = append(p.events, millrace.CommitEvent{Tenant: e.Tenant, Topic: e.Topic, Key: e.Key, Body: h.Body, From: h.Name})
	}
	p.results = make([]millrace.Published, len(p.events))
	return p
}
