package tracing

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
)

// The attributes of an event that carry a trace, as CloudEvents names them too.
const (
	parentAttribute = "traceparent"
	stateAttribute  = "tracestate"
)

// Carry returns events that carry the trace of ctx; the given ones are not
// changed. Without a trace, or where a publisher has set one itself, or where
// there is no room for it, they stay as they are.
func Carry(ctx context.Context, events []millrace.Event) []millrace.Event {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return events
	}
	carried := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carried)
	if millrace.TextFault(carried[stateAttribute], millrace.MaxAttrValue) != "" {
		delete(carried, stateAttribute)
	}
	out := make([]millrace.Event, len(events))
	for i := range events {
		out[i] = events[i]
		if hasRoom(&events[i], carried) {
			out[i].Attributes = joined(events[i].Attributes, carried)
		}
	}
	return out
}

// hasRoom reports whether an event may have the attributes and stays valid.
func hasRoom(e *millrace.Event, more map[string]string) bool {
	_, parent := e.Attributes[parentAttribute]
	_, state := e.Attributes[stateAttribute]
	if parent || state {
		return false
	}
	n := e.Size()
	for name, value := range more {
		n += len(name) + len(value)
	}
	return n <= millrace.MaxEventSize && len(e.Attributes)+len(more) <= millrace.MaxAttributes
}

func joined(attrs, more map[string]string) map[string]string {
	if len(attrs) == 0 {
		return more // nobody changes it, so events may share it
	}
	all := make(map[string]string, len(attrs)+len(more))
	maps.Copy(all, attrs)
	maps.Copy(all, more)
	return all
}

// Carried returns ctx with the trace that an event carries, if it carries one.
func Carried(ctx context.Context, e *millrace.Event) context.Context {
	if _, set := e.Attributes[parentAttribute]; !set {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(e.Attributes))
}

// Handle begins the span of a handler. It continues the trace that the message's
// event carries; without spans the context still tells of it.
func (t Tracer) Handle(ctx context.Context, m *millrace.Message) (context.Context, Span) {
	ctx = Carried(ctx, &m.Event)
	if t.tracer == nil {
		return ctx, Span{}
	}
	ctx, span := t.start(ctx, Process, trace.SpanKindConsumer, m.Queue, 0)
	span.span.SetAttributes(attribute.String("messaging.message.id", m.ID))
	return ctx, span
}

// HandleBatch begins the span of a handler of several messages. It belongs to no
// event's trace, and links to each.
func (t Tracer) HandleBatch(ctx context.Context, batch []millrace.Message) (context.Context, Span) {
	if t.tracer == nil {
		return ctx, Span{}
	}
	var links []trace.Link
	for i := range batch {
		of := trace.SpanContextFromContext(Carried(context.Background(), &batch[i].Event))
		if of.IsValid() {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return t.start(ctx, Process, trace.SpanKindConsumer, batch[0].Queue, len(batch), links...)
}
