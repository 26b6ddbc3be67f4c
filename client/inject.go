package client

import (
	"context"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func (q queues) Inject(ctx context.Context, name string, events ...millrace.Event) (int, error) {
	if err := api.Join(nameFault("queue", name), eventFaults(events)); err != nil {
		return 0, err
	}
	return q.c.inject(ctx, events, "queues", name, "inject")
}

// inject is asked once for each request: asked again it would put the events in
// twice. Events that do not fit into one request take several; if a later one
// fails, the number says how many are in.
func (c *Client) inject(ctx context.Context, events []millrace.Event, path ...string) (int, error) {
	done := 0
	for _, part := range injections(events) {
		k := post(api.AppendInject(nil, part), path...)
		k.once = true
		r, err := c.do(ctx, k)
		if err != nil {
			return done, err
		}
		n, err := api.DecodeInjected(r.text)
		if err != nil {
			return done, understood(err)
		}
		done += n
	}
	return done, nil
}

// injections splits events into requests, each within the limit of a request.
func injections(events []millrace.Event) (parts [][]millrace.Event) {
	const around = len(`{"events":[]}`)
	var text []byte
	start, size := 0, around
	for i := range events {
		text = api.AppendEvent(text[:0], &events[i])
		if i > start && size+len(text)+1 > millrace.MaxRequestSize {
			parts = append(parts, events[start:i])
			start, size = i, around
		}
		size += len(text) + 1
	}
	return append(parts, events[start:])
}
