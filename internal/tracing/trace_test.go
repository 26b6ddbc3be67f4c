package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/worker"
)

var quiet = slog.New(slog.DiscardHandler)

// site is a client of a running server.
type site struct {
	t      *testing.T
	client *client.Client
}

// open starts a site; each part has its own provider, which may be nil.
func open(t *testing.T, ofServer, ofClient trace.TracerProvider) *site {
	t.Helper()
	b, err := broker.Open(t.Context(), "memory:", broker.Options{Logger: quiet, TracerProvider: ofServer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{Logger: quiet, TracerProvider: ofServer}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{TracerProvider: ofClient})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, _, err := c.Queues().Put(t.Context(), "emails", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	return &site{t: t, client: c}
}

// recorder is a provider and where its spans go.
func recorder() (trace.TracerProvider, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(e)), e
}

// consume handles n messages and returns the traces that the handlers were in.
func (s *site) consume(n int, p trace.TracerProvider, result error) (seen []trace.SpanContext) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	err := worker.Consume(ctx, s.client, "emails", func(handling context.Context, _ millrace.Message) error {
		seen = append(seen, trace.SpanContextFromContext(handling))
		if len(seen) == n {
			cancel()
		}
		return result
	}, worker.Options{Logger: quiet, TracerProvider: p})
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

func TestOneTraceLeadsFromThePublisherToTheHandler(t *testing.T) {
	provider, recorded := recorder()
	s := open(t, provider, provider)
	ctx, root := provider.Tracer("shop").Start(t.Context(), "checkout")
	if _, err := s.client.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	root.End()
	handling := s.consume(1, provider, nil)
	spans := recorded.GetSpans()

	// From the handler back to the checkout, each span's parent is the one before.
	at := find(t, spans, "process emails")
	if at.SpanContext.SpanID() != handling[0].SpanID() {
		t.Error("the handler's context is not in the handler's span")
	}
	var way []string
	for {
		way = append(way, at.Name+" "+at.SpanKind.String())
		if at.SpanContext.TraceID() != root.SpanContext().TraceID() {
			t.Fatalf("%v leads into another trace", way)
		}
		i := slices.IndexFunc(spans, func(other tracetest.SpanStub) bool { return other.SpanContext.SpanID() == at.Parent.SpanID() })
		if i < 0 {
			break
		}
		at = spans[i]
	}
	want := []string{
		"process emails consumer", "publish orders producer", "POST /v1/topics/{topic}/events server",
		"publish orders client", "checkout internal",
	}
	if diff := cmp.Diff(want, way); diff != "" {
		t.Error(diff)
	}
	checkSpans(t, spans)
}

// checkSpans checks what the spans tell, by the conventions for messaging and HTTP.
func checkSpans(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	for _, c := range []struct {
		name string
		kind trace.SpanKind
		want map[attribute.Key]any
	}{
		{"publish orders", trace.SpanKindProducer, map[attribute.Key]any{
			"messaging.system": "millrace", "messaging.operation.name": "publish", "messaging.operation.type": "send",
			"messaging.destination.name": "orders", "messaging.batch.message_count": int64(1),
		}},
		{"lease emails", trace.SpanKindConsumer, map[attribute.Key]any{
			"messaging.system": "millrace", "messaging.operation.name": "lease", "messaging.operation.type": "receive",
			"messaging.destination.name": "emails", "messaging.batch.message_count": int64(1),
		}},
		{"ack emails", trace.SpanKindClient, map[attribute.Key]any{
			"messaging.system": "millrace", "messaging.operation.name": "ack", "messaging.operation.type": "settle",
			"messaging.destination.name": "emails", "messaging.batch.message_count": int64(1),
		}},
		{"POST /v1/queues/{queue}/lease", trace.SpanKindServer, map[attribute.Key]any{
			"http.request.method": "POST", "http.route": "/v1/queues/{queue}/lease", "http.response.status_code": int64(200),
		}},
	} {
		span := find(t, spans, c.name, c.kind)
		got := map[attribute.Key]any{}
		for _, kv := range span.Attributes {
			got[kv.Key] = kv.Value.AsInterface()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// find is the first span of a name, and of a kind if one is given.
func find(t *testing.T, spans tracetest.SpanStubs, name string, kind ...trace.SpanKind) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if s.Name == name && (len(kind) == 0 || s.SpanKind == kind[0]) {
			return s
		}
	}
	t.Fatalf("there is no span %s", name)
	return tracetest.SpanStub{}
}

func TestATraceGoesWithAnEventAlsoWhereNobodyRecordsIt(t *testing.T) {
	s := open(t, nil, nil)
	if _, err := s.client.Publish(traced(t, "v=1"), millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	seen := s.consume(1, nil, nil)
	if seen[0].TraceID().String() != traceID || seen[0].TraceState().String() != "v=1" || !seen[0].IsSampled() || !seen[0].IsRemote() {
		t.Errorf("the handler is in %+v", seen[0])
	}
}

func TestAHandlerOfAnEventWithoutATraceBeginsOne(t *testing.T) {
	s := open(t, nil, nil)
	provider, recorded := recorder()
	if _, err := s.client.Publish(t.Context(), millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	s.consume(1, provider, errors.New("the card 4711 was refused"))
	span := find(t, recorded.GetSpans(), "process emails")
	if span.Parent.IsValid() || span.Status.Code != codes.Error || span.Status.Description != "_OTHER" {
		t.Errorf("got %+v", span)
	}
	if len(span.Events) > 0 {
		t.Error("the text of the error is told")
	}
}

func TestTheSpanOfABatchLinksToEachEventsTrace(t *testing.T) {
	s := open(t, nil, nil)
	provider, recorded := recorder()
	tracer := provider.Tracer("shop")
	var want []trace.TraceID
	for range 2 {
		ctx, span := tracer.Start(t.Context(), "checkout")
		if _, err := s.client.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"}); err != nil {
			t.Fatal(err)
		}
		want = append(want, span.SpanContext().TraceID())
		span.End()
	}
	if _, err := s.client.Publish(t.Context(), millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := worker.ConsumeBatches(ctx, s.client, "emails", func(context.Context, []millrace.Message) error {
		cancel()
		return nil
	}, worker.Options{Logger: quiet, TracerProvider: provider, BatchSize: 3, BatchWithin: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	span := find(t, recorded.GetSpans(), "process emails")
	var got []trace.TraceID
	for _, l := range span.Links {
		got = append(got, l.SpanContext.TraceID())
	}
	if diff := cmp.Diff(want, got); diff != "" || span.Parent.IsValid() {
		t.Errorf("parent %v, links: %s", span.Parent, diff)
	}
}

func TestARefusedSettlementEndsItsSpansWithTheCode(t *testing.T) {
	provider, recorded := recorder()
	s := open(t, provider, provider)
	_, err := s.client.Queues().Ack(t.Context(), "nothing", millrace.Settlement{Receipt: "x"})
	if millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Fatal(err)
	}
	spans := recorded.GetSpans()
	for _, s := range spans {
		wantError := s.SpanKind != trace.SpanKindServer // a 404 is no failure of the server
		if got := s.Status.Code == codes.Error; s.Name != "PUT /v1/queues/{queue}" && got != wantError {
			t.Errorf("%s: status %v", s.Name, s.Status)
		}
	}
	if n := len(spans); n != 4 {
		t.Errorf("there are %d spans", n)
	}
}
