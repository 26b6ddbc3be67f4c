package broker

import (
	"context"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// Inject puts events into one queue, as they are; see millrace.QueueService.
func (s Queues) Inject(ctx context.Context, name string, events ...millrace.Event) (int, error) {
	q, err := s.enterFor(ctx, name, injectFaults(events))
	if err != nil {
		return 0, err
	}
	defer s.b.gate.leave()
	return s.b.inject(ctx, &q.definition, events, func(list []millrace.InjectEvent) millrace.Inject {
		return millrace.Inject{Queue: q.uid, Events: list}
	})
}

// inject puts events into one sink, lane by lane.
func (b *Broker) inject(ctx context.Context, d *millrace.Definition, events []millrace.Event, into func([]millrace.InjectEvent) millrace.Inject) (int, error) {
	in := b.injection(events)
	for lane, list := range in.lanes {
		if len(list) == 0 {
			continue
		}
		err := b.registry.inLane(ctx, d, lane, func() error { return b.engine.Inject(ctx, lane, into(list)) })
		if err != nil {
			return in.failed(d.Kind, err)
		}
		b.reaper.note(lane, 0) // a batch may be due sooner than was known
		in.done(lane)
	}
	return len(events), nil
}

// injection is events on their way into one sink.
type injection struct {
	lanes   [][]millrace.InjectEvent
	indexes [][]int // by lane, which events these are
	results []millrace.Published
	in      int
}

// injection sorts events by lane.
func (b *Broker) injection(events []millrace.Event) *injection {
	n := b.identity.Lanes
	in := &injection{lanes: make([][]millrace.InjectEvent, n), indexes: make([][]int, n), results: make([]millrace.Published, len(events))}
	for i := range events {
		e := events[i]
		if e.Tenant == "" {
			e.Tenant = millrace.DefaultTenant
		}
		place := e.Key
		if place == "" {
			place = e.ID
		}
		lane := millrace.LaneOf(millrace.Hash(e.Tenant, place), n)
		in.lanes[lane] = append(in.lanes[lane], millrace.InjectEvent{
			Tenant: e.Tenant, Key: e.Key, Seq: e.Seq, Prev: e.Prev, RecordedAt: e.RecordedAt, Body: millrace.AppendEvent(nil, &e),
		})
		in.indexes[lane] = append(in.indexes[lane], i)
		in.results[i] = millrace.Published{ID: e.ID, Seq: e.Seq, Prev: e.Prev, HasKey: e.Key != ""}
	}
	return in
}

// done notes that a lane has its events.
func (in *injection) done(lane int) {
	for _, i := range in.indexes[lane] {
		in.results[i].Sinks = 1
	}
	in.in += len(in.indexes[lane])
}

// failed is the outcome if a lane refused its events: why, and which others are in.
func (in *injection) failed(kind millrace.Kind, err error) (int, error) {
	if in.in == 0 {
		return 0, err
	}
	for i := range in.results {
		if in.results[i].Sinks == 0 {
			in.results[i] = millrace.Published{ID: in.results[i].ID, Err: err}
		}
	}
	partly := millrace.Errorf(millrace.CodePartlyCommitted, "%d of %d events are in the %s; repeat the others only", in.in, len(in.results), kind)
	partly.Events = in.results
	return in.in, partly
}

func injectFaults(events []millrace.Event) []millrace.Fault {
	if n := len(events); n == 0 || n > millrace.MaxEvents {
		return []millrace.Fault{{Location: "events", Message: "must be 1 to " + strconv.Itoa(millrace.MaxEvents)}}
	}
	var faults []millrace.Fault
	for i := range events {
		e, at := &events[i], "events["+strconv.Itoa(i)+"]"
		faults = append(faults, e.Faults(at)...)
		add := func(field, message string) {
			faults = append(faults, millrace.Fault{Location: at + "." + field, Message: message})
		}
		if e.ID == "" {
			add("id", "must not be empty")
		}
		if e.Seq == 0 || e.Seq >= 1<<53 {
			add("seq", "must be above 0 and below 2^53")
		}
		if e.Prev >= e.Seq && e.Prev != 0 {
			add("prev", "must be below seq")
		}
		if e.Delay != 0 || !e.DeliverAt.IsZero() {
			add("delay", "must not stand in a stored event")
		}
		if e.Time.IsZero() {
			add("time", "must be given")
		}
		if e.RecordedAt.IsZero() {
			add("recorded_at", "must be given")
		}
	}
	return faults
}
