package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Inject tells a server of the trace of ctx, if there is one.
func Inject(ctx context.Context, h http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// Serve begins the span of a request that a server answers, in the trace that
// the request tells of; without spans the context still tells of that. The route
// is a method and a pattern of paths, or anything without a blank for none.
func (t Tracer) Serve(ctx context.Context, h http.Header, route string) (context.Context, Span) {
	if len(h["Traceparent"]) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
	}
	if t.tracer == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, route, trace.WithSpanKind(trace.SpanKindServer))
	if method, path, known := strings.Cut(route, " "); known {
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", path))
	}
	return ctx, Span{span}
}

// Answered ends the span of a request. Only a failure of the server is an error of its.
func (s Span) Answered(status int) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, http.StatusText(status))
	}
	s.span.End()
}
