package client

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/internal/tracing"
)

// Publish commits events to every sink that wants them. Every event without an
// id gets one before the first try, so that trying again is safe. Events of
// several topics, or more than fit into a request, take several requests; if a
// later one fails the error is CodePartlyCommitted.
func (c *Client) Publish(ctx context.Context, events ...millrace.Event) ([]millrace.Published, error) {
	if err := eventFaults(events); err != nil {
		return nil, err
	}
	named := make([]millrace.Event, len(events))
	copy(named, events)
	for i := range named {
		if named[i].ID != "" {
			continue
		}
		id, err := c.newID()
		if err != nil {
			return nil, err
		}
		named[i].ID = id
	}
	return c.publishParts(ctx, named, split(named))
}

// eventFaults finds what is wrong before anything is sent, as a broker does.
func eventFaults(events []millrace.Event) error {
	if len(events) == 0 || len(events) > millrace.MaxEvents {
		return millrace.Invalid([]millrace.Fault{{Location: "events", Message: "must be 1 to " + strconv.Itoa(millrace.MaxEvents)}})
	}
	var faults []millrace.Fault
	for i := range events {
		faults = append(faults, events[i].Faults("events["+strconv.Itoa(i)+"]")...)
	}
	return millrace.Invalid(faults)
}

// part is the events that go in one request.
type part struct {
	topic string
	body  []byte
	which []int // places among all the events
}

// split sorts events into requests: by topic, each within the limit of a request.
func split(events []millrace.Event) []*part {
	var parts []*part
	current := map[string]*part{}
	var text []byte
	for i := range events {
		text = api.AppendPublishEvent(text[:0], &events[i])
		p := current[events[i].Topic]
		if p == nil || len(p.body)+len(text)+2 > millrace.MaxRequestSize {
			p = &part{topic: events[i].Topic, body: []byte{'['}}
			current[p.topic] = p
			parts = append(parts, p)
		} else {
			p.body = append(p.body, ',')
		}
		p.body = append(p.body, text...)
		p.which = append(p.which, i)
	}
	for _, p := range parts {
		p.body = append(p.body, ']')
	}
	return parts
}

// publishParts sends one request after the other and stops at the first that fails.
func (c *Client) publishParts(ctx context.Context, events []millrace.Event, parts []*part) ([]millrace.Published, error) {
	results := make([]millrace.Published, len(events))
	for i := range events {
		results[i] = millrace.Published{ID: events[i].ID, Err: millrace.ErrUnavailable}
	}
	for n, p := range parts {
		got, err := c.publishPart(ctx, p)
		var e *millrace.Error
		if err != nil && errors.As(err, &e) && e.Code == millrace.CodePartlyCommitted && len(e.Events) == len(p.which) {
			got = e.Events
		}
		for k, i := range p.which {
			switch {
			case got != nil:
				results[i] = got[k]
			case err != nil:
				results[i].Err = err
			}
		}
		switch {
		case err != nil && len(parts) == 1, err != nil && n == 0 && got == nil:
			return nil, err
		case err != nil:
			return nil, &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "not all topics have their events", Events: results, Err: err}
		}
	}
	return results, nil
}

func (c *Client) publishPart(ctx context.Context, p *part) ([]millrace.Published, error) {
	ctx, span := c.tracer.Start(ctx, tracing.Publish, trace.SpanKindClient, p.topic, len(p.which))
	r, err := c.do(ctx, post(p.body, "topics", p.topic, "events"))
	span.End(err)
	if err != nil {
		return nil, err
	}
	got, _, err := api.DecodePublished(r.text)
	if err == nil && len(got) != len(p.which) {
		err = errors.New("decode publish's answer: it has another number of events")
	}
	if err != nil {
		return nil, understood(err)
	}
	return got, nil
}
