// Package tracing says what Millrace does in OpenTelemetry spans, by the
// semantic conventions for messaging, and carries a publisher's trace through an
// event. It knows the API of OpenTelemetry, never its SDK.
package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-dev/millrace"
)

const scope = "github.com/millrace-dev/millrace"

// Tracer starts spans. The zero value is off: it starts none and costs nothing.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer of a provider; it is off if there is none, or the noop one.
func New(p trace.TracerProvider) Tracer {
	if _, off := p.(noop.TracerProvider); off || p == nil {
		return Tracer{}
	}
	return Tracer{p.Tracer(scope)}
}

// Operation is what is done with messages.
type Operation string

// The operations.
const (
	Publish Operation = "publish"
	Lease   Operation = "lease"
	Ack     Operation = "ack"
	Retry   Operation = "retry"
	Bury    Operation = "bury"
	Process Operation = "process"
)

// OperationOf is the operation of a settlement's verb.
func OperationOf(v millrace.Verb) Operation {
	switch v {
	case millrace.Retry:
		return Retry
	case millrace.Bury:
		return Bury
	}
	return Ack
}

// kind is the conventions' type of an operation.
func (o Operation) kind() string {
	switch o {
	case Publish:
		return "send"
	case Lease:
		return "receive"
	case Process:
		return "process"
	}
	return "settle"
}

// Start begins the span of an operation on a topic or a queue, if it is known
// which, and on as many messages, if it is known how many.
func (t Tracer) Start(ctx context.Context, o Operation, kind trace.SpanKind, destination string, messages int) (context.Context, Span) {
	if t.tracer == nil {
		return ctx, Span{}
	}
	return t.start(ctx, o, kind, destination, messages)
}

func (t Tracer) start(ctx context.Context, o Operation, kind trace.SpanKind, destination string, messages int, links ...trace.Link) (context.Context, Span) {
	name := string(o)
	attrs := append(make([]attribute.KeyValue, 0, 5),
		attribute.String("messaging.system", "millrace"),
		attribute.String("messaging.operation.name", string(o)),
		attribute.String("messaging.operation.type", o.kind()))
	if destination != "" {
		name += " " + destination
		attrs = append(attrs, attribute.String("messaging.destination.name", destination))
	}
	if messages > 0 {
		attrs = append(attrs, attribute.Int("messaging.batch.message_count", messages))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...), trace.WithLinks(links...))
	return ctx, Span{span}
}

// Span is what is under way. The zero value is none.
type Span struct{ span trace.Span }

// Count says how many messages it was about, once that is known.
func (s Span) Count(messages int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int("messaging.batch.message_count", messages))
	}
}

// End ends the span. Of an error only the code is told, "_OTHER" for one without:
// a text may hold anything.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		code := codeOf(err)
		s.span.SetAttributes(attribute.String("error.type", code))
		s.span.SetStatus(codes.Error, code)
	}
	s.span.End()
}

func codeOf(err error) string {
	var e *millrace.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return "_OTHER"
}
