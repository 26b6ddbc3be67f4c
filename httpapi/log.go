package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace/api"
)

// requestID is the caller's own id for a request, if it is fit to be shown, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 {
		return ulid.Make().String()
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return ulid.Make().String()
		}
	}
	return id
}

type requestIDKey struct{}

func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that ctx belongs to, or nothing.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// LogHandler adds the request's id and trace to what is logged with its context,
// wherever that happens.
func LogHandler(to slog.Handler) slog.Handler { return logHandler{to} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if of := trace.SpanContextFromContext(ctx); of.HasTraceID() {
		r.AddAttrs(slog.String("trace_id", of.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// record counts a request and logs it: what failed here loudly, what was refused
// plainly, the rest quietly. Nothing that the caller sent is in the log but the
// request's id; so of a refusal the code is, and not the text.
func (s *server) record(c *call, route string, status int, took time.Duration, err error) {
	if s.metrics != nil {
		s.metrics.Request(route, status, took)
	}
	level := levelOf(c, status)
	quiet := c.Request.Context() // without what LogHandler would add once more
	if !s.log.Enabled(quiet, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.id), slog.String("route", route), slog.Int("status", status), slog.Duration("took", took),
	}
	if of := trace.SpanContextFromContext(c.ctx); of.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", of.TraceID().String()))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", string(api.WireError(err).Code)))
	}
	if err != nil && status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.log.LogAttrs(quiet, level, "request", attrs...)
}

func levelOf(c *call, status int) slog.Level {
	switch {
	case c.Request.Context().Err() != nil: // the caller has gone away, and that is why it failed
		return slog.LevelDebug
	case status > http.StatusInternalServerError:
		return slog.LevelWarn
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusBadRequest:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
