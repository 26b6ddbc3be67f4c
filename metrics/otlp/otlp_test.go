package otlp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/metrics/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThePushKnowsOnlyTheMetrics(t *testing.T) { importguard.Check(t, "metrics") }

// listen is a collector that hands out what it is sent.
func listen(t *testing.T, status int) (url string, got chan *collector.ExportMetricsServiceRequest) {
	t.Helper()
	got = make(chan *collector.ExportMetricsServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportMetricsServiceRequest
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/metrics" || proto.Unmarshal(body, &req) != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		got <- &req
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

func newSink(t *testing.T, url string) *otlp.Sink {
	t.Helper()
	s, err := otlp.New(t.Context(), url, resource.NewSchemaless(attribute.String("service.name", "millrace")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestACollectorGetsTheNumbersThatPrometheusSees(t *testing.T) {
	url, got := listen(t, http.StatusOK)
	m := metrics.New(metrics.Options{Version: "1.2.3", Logger: slog.New(slog.DiscardHandler)})
	m.Published(5, 2, 1)
	m.Settled("emails", millrace.Ack, millrace.SettleResult{Settled: 3})
	m.Request("GET /livez", 200, 2*time.Millisecond)
	m.Request("GET /livez", 200, 40*time.Millisecond)
	m.Request("GET /livez", 200, time.Minute)
	if err := newSink(t, url+"/").Take(t.Context(), m.Read()); err != nil {
		t.Fatal(err)
	}
	all := (<-got).GetResourceMetrics()
	if len(all) != 1 || len(all[0].GetScopeMetrics()) != 1 {
		t.Fatalf("got %v", all)
	}
	if diff := cmp.Diff(map[string]string{"service.name": "millrace"}, labels(all[0].GetResource().GetAttributes())); diff != "" {
		t.Error(diff)
	}
	byName := map[string]*wire.Metric{}
	for _, metric := range all[0].GetScopeMetrics()[0].GetMetrics() {
		byName[metric.GetName()] = metric
	}
	checkSum(t, byName["millrace_events_published_total"], 5, map[string]string{})
	checkSum(t, byName["millrace_events_unrouted_total"], 2, map[string]string{})
	checkSum(t, byName["millrace_messages_settled_total"], 3, map[string]string{"queue": "emails", "outcome": "acked"})
	checkHistogram(t, byName["millrace_http_request_seconds"])
	info := byName["millrace_build_info"].GetGauge().GetDataPoints()
	if len(info) != 1 || info[0].GetAsDouble() != 1 || labels(info[0].GetAttributes())["version"] != "1.2.3" {
		t.Errorf("build info: %v", info)
	}
	if quantiles := byName["go_gc_duration_seconds"].GetSummary().GetDataPoints(); len(quantiles) != 1 || len(quantiles[0].GetQuantileValues()) == 0 {
		t.Errorf("a summary: %v", quantiles)
	}
}

func checkSum(t *testing.T, m *wire.Metric, want float64, of map[string]string) {
	t.Helper()
	sum := m.GetSum()
	if !sum.GetIsMonotonic() || sum.GetAggregationTemporality() != wire.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || len(sum.GetDataPoints()) != 1 {
		t.Fatalf("not one sum that only grows: %v", m)
	}
	p := sum.GetDataPoints()[0]
	if p.GetAsDouble() != want || p.GetStartTimeUnixNano() == 0 || p.GetTimeUnixNano() == 0 {
		t.Errorf("%s: got %v, want %v", m.GetName(), p, want)
	}
	if diff := cmp.Diff(of, labels(p.GetAttributes())); diff != "" {
		t.Error(diff)
	}
}

func checkHistogram(t *testing.T, m *wire.Metric) {
	t.Helper()
	points := m.GetHistogram().GetDataPoints()
	if len(points) != 1 || m.GetUnit() != "s" {
		t.Fatalf("got %v", m)
	}
	p := points[0]
	want := []uint64{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1} // up to 2.5 ms, up to 50 ms, and above all bounds
	if diff := cmp.Diff(want, p.GetBucketCounts()); diff != "" || p.GetCount() != 3 || len(p.GetExplicitBounds()) != 12 {
		t.Errorf("got %v: %s", p, diff)
	}
	if diff := cmp.Diff(map[string]string{"route": "GET /livez", "status": "200"}, labels(p.GetAttributes())); diff != "" {
		t.Error(diff)
	}
}

func labels(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, l := range list {
		out[l.GetKey()] = l.GetValue().GetStringValue()
	}
	return out
}

func TestWhatACollectorRefusesIsAnError(t *testing.T) {
	url, got := listen(t, http.StatusBadRequest)
	m := metrics.New(metrics.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := newSink(t, url).Take(t.Context(), m.Read()); err == nil {
		t.Error("no error")
	}
	<-got
}

func TestWithoutAnEndpointTheVariablesNameTheCollector(t *testing.T) {
	url, got := listen(t, http.StatusOK)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	m := metrics.New(metrics.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := newSink(t, "").Take(t.Context(), m.Read()); err != nil {
		t.Fatal(err)
	}
	if n := len((<-got).GetResourceMetrics()); n != 1 {
		t.Errorf("got %d", n)
	}
}
