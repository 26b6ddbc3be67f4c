package tracing_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/internal/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTracingKnowsOnlyTheWords(t *testing.T) { importguard.Check(t, ".") }

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// traced is a context in a trace, with a state that its vendors share.
func traced(t testing.TB, state string) context.Context {
	t.Helper()
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		t.Fatal("no trace")
	}
	return ctx
}

func TestAnEventCarriesTheTraceOfItsPublisher(t *testing.T) {
	many := map[string]string{}
	for i := range millrace.MaxAttributes {
		many["a"+strconv.Itoa(i)] = "x"
	}
	long := "v=" + strings.Repeat("x", 250)
	for _, vendor := range "abcd" {
		long += "," + string(vendor) + "=" + strings.Repeat("x", 250)
	}
	huge := millrace.Event{Topic: "t", Type: "x", Data: []byte(`"` + strings.Repeat("x", millrace.MaxEventSize-30) + `"`)}
	for name, c := range map[string]struct {
		state string
		give  millrace.Event
		want  map[string]string
	}{
		"without attributes":          {"", millrace.Event{Topic: "t", Type: "x"}, map[string]string{"traceparent": parent}},
		"beside its own":              {"v=1", millrace.Event{Topic: "t", Type: "x", Attributes: map[string]string{"source": "/shop"}}, map[string]string{"source": "/shop", "traceparent": parent, "tracestate": "v=1"}},
		"the publisher's own stays":   {"v=1", millrace.Event{Topic: "t", Type: "x", Attributes: map[string]string{"traceparent": "mine"}}, map[string]string{"traceparent": "mine"}},
		"a state of one's own stays":  {"v=1", millrace.Event{Topic: "t", Type: "x", Attributes: map[string]string{"tracestate": "mine"}}, map[string]string{"tracestate": "mine"}},
		"a state too long stays away": {long, millrace.Event{Topic: "t", Type: "x"}, map[string]string{"traceparent": parent}},
		"no room for an attribute":    {"", millrace.Event{Topic: "t", Type: "x", Attributes: many}, many},
		"no room for its bytes":       {"", huge, nil},
	} {
		before := cmp.Diff(c.give, millrace.Event{})
		out := tracing.Carry(traced(t, c.state), []millrace.Event{c.give})
		if diff := cmp.Diff(c.want, out[0].Attributes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if faults := out[0].Faults(""); len(faults) > 0 {
			t.Errorf("%s: the event became bad: %v", name, faults)
		}
		if cmp.Diff(c.give, millrace.Event{}) != before {
			t.Errorf("%s: the given event has changed", name)
		}
	}
}

func TestAnEventWithoutATraceStaysAsItIs(t *testing.T) {
	events := []millrace.Event{{Topic: "t", Type: "x"}}
	if out := tracing.Carry(context.Background(), events); &out[0] != &events[0] || out[0].Attributes != nil {
		t.Errorf("got %+v", out)
	}
}

func TestAnEventWithABadTraceHasNone(t *testing.T) {
	for _, bad := range []string{"", "mine", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", parent + "x"} {
		e := millrace.Event{Attributes: map[string]string{"traceparent": bad}}
		if of := trace.SpanContextFromContext(tracing.Carried(context.Background(), &e)); of.IsValid() {
			t.Errorf("%q became %v", bad, of)
		}
	}
}

func TestTracingThatIsOffCostsNoMemory(t *testing.T) {
	events := []millrace.Event{{Topic: "t", Type: "x"}}
	message := millrace.Message{Queue: "q", Event: events[0]}
	ctx := context.Background()
	for name, off := range map[string]tracing.Tracer{"none": tracing.New(nil), "noop": tracing.New(noop.NewTracerProvider())} {
		if n := testing.AllocsPerRun(100, func() { passThrough(ctx, off, events, &message) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// passThrough is what tracing does on the way of an event from its publisher to its handler.
func passThrough(ctx context.Context, tracer tracing.Tracer, events []millrace.Event, m *millrace.Message) {
	published, span := tracer.Start(ctx, tracing.Publish, trace.SpanKindProducer, "t", 1)
	_ = tracing.Carry(published, events)
	span.End(nil)
	_, span = tracer.Start(ctx, tracing.Lease, trace.SpanKindConsumer, "q", 0)
	span.Count(1)
	span.End(nil)
	_, span = tracer.Handle(ctx, m)
	span.End(nil)
	_, span = tracer.Start(ctx, tracing.Ack, trace.SpanKindClient, "q", 1)
	span.End(nil)
}

// BenchmarkOff is what all spans of one event cost while tracing is off.
func BenchmarkOff(b *testing.B) {
	events := []millrace.Event{{Topic: "t", Type: "x"}}
	message := millrace.Message{Queue: "q", Event: events[0]}
	off := tracing.New(nil)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		passThrough(ctx, off, events, &message)
	}
}
