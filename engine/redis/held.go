package redis

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace-dev/millrace"
)

// Held returns the delayed event that has an id.
func (e *Engine) Held(ctx context.Context, lane int, tenant, id string) (millrace.HeldEvent, error) {
	reply, err := e.runLane(ctx, &e.scripts.heldGet, lane, timeless, aliasOf(tenant, id))
	if err != nil {
		return millrace.HeldEvent{}, err
	}
	events, err := heldEvents(reply)
	if err != nil {
		return millrace.HeldEvent{}, err
	}
	return events[0], nil
}

// CancelHeld takes the event that Held finds back.
func (e *Engine) CancelHeld(ctx context.Context, lane int, tenant, id string) error {
	_, err := e.runLane(ctx, &e.scripts.heldCancel, lane, timeless, aliasOf(tenant, id))
	return err
}

// Inject puts events that were stamped before into one queue or one subscription.
func (e *Engine) Inject(ctx context.Context, lane int, in millrace.Inject) error {
	script, uid := &e.scripts.inject, in.Queue
	if uid == "" {
		script, uid = &e.scripts.batchInject, in.Subscription
	}
	args := []string{uid, strconv.Itoa(len(e.own)), strconv.Itoa(lane), strconv.Itoa(len(in.Events))}
	for i := range in.Events {
		ev := &in.Events[i]
		args = append(args, ev.Tenant, whoOf(ev.Tenant, ev.Key), strconv.FormatUint(ev.Seq, 10),
			strconv.FormatUint(ev.Prev, 10), strconv.FormatInt(ev.RecordedAt.UnixMilli(), 10), rueidis.BinaryString(ev.Body))
	}
	if in.Queue != "" {
		args = appendOpenings(args, in.Events)
	}
	_, err := e.runLane(ctx, script, lane, millis(in.Now), args...)
	return err
}

// appendOpenings adds what opens the operations of injected events, if any has one.
func appendOpenings(args []string, events []millrace.InjectEvent) []string {
	opens := func(ev millrace.InjectEvent) bool { return ev.Opening != nil }
	if !slices.ContainsFunc(events, opens) {
		return args
	}
	for i := range events {
		args = append(args, openingArgs(events[i].Tenant, events[i].Opening)...)
	}
	return args
}
