package client

import (
	"context"
	"errors"

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
// fails, the error is CodePartlyCommitted, as if it had been one.
func (c *Client) inject(ctx context.Context, events []millrace.Event, path ...string) (int, error) {
	done := 0
	for _, part := range injections(events) {
		k := post(api.AppendInject(nil, part), path...)
		k.once = true
		r, err := c.do(ctx, k)
		if err != nil {
			return injectedPartly(events, done, len(part), err)
		}
		n, err := api.DecodeInjected(r.text)
		if err != nil {
			return injectedPartly(events, done, len(part), understood(err))
		}
		done += n
	}
	return done, nil
}

// injectedPartly is the outcome if the request of so many events after those
// done failed: the failure, unless some events are in.
func injectedPartly(events []millrace.Event, done, size int, err error) (int, error) {
	var e *millrace.Error
	told := errors.As(err, &e) && e.Code == millrace.CodePartlyCommitted && len(e.Events) == size
	if done == 0 && (!told || size == len(events)) {
		return injectedOf(e, told), err
	}
	results := make([]millrace.Published, len(events))
	for i := range events {
		results[i] = millrace.Published{ID: events[i].ID, Err: err}
		if i < done {
			results[i] = millrace.Published{ID: events[i].ID, Seq: events[i].Seq, Prev: events[i].Prev, HasKey: events[i].Key != "", Sinks: 1}
		}
	}
	if told {
		copy(results[done:], e.Events)
	}
	done += injectedOf(e, told)
	return done, &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "not all events are in; repeat the others only", Events: results, Err: err}
}

// injectedOf is how many events a partly failed request put in.
func injectedOf(e *millrace.Error, told bool) int {
	n := 0
	for i := 0; told && i < len(e.Events); i++ {
		if e.Events[i].Err == nil {
			n++
		}
	}
	return n
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
