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
	done := 0
	for lane, list := range injectByLane(events, s.b.identity.Lanes) {
		if len(list) == 0 {
			continue
		}
		err := s.inLane(ctx, q, lane, func() error {
			return s.b.engine.Inject(ctx, lane, millrace.Inject{Queue: q.uid, Events: list})
		})
		if err != nil {
			return done, err
		}
		done += len(list)
	}
	return done, nil
}

// injectByLane sorts events into the lanes where their keys lie.
func injectByLane(events []millrace.Event, count int) [][]millrace.InjectEvent {
	lanes := make([][]millrace.InjectEvent, count)
	for i := range events {
		e := events[i]
		if e.Tenant == "" {
			e.Tenant = millrace.DefaultTenant
		}
		place := e.Key
		if place == "" {
			place = e.ID
		}
		lane := millrace.LaneOf(millrace.Hash(e.Tenant, place), count)
		lanes[lane] = append(lanes[lane], millrace.InjectEvent{
			Tenant: e.Tenant, Key: e.Key, Seq: e.Seq, Prev: e.Prev, RecordedAt: e.RecordedAt, Body: millrace.AppendEvent(nil, &e),
		})
	}
	return lanes
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
