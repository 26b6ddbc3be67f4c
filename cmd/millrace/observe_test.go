package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metricswire "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceswire "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector remembers the names of the metrics and the spans it is sent.
type collector struct {
	mu             sync.Mutex
	metrics, spans []string
}

func startCollector(t *testing.T) (*collector, string) {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = c.take(r.URL.Path, body)
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *collector) take(path string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var metrics metricswire.ExportMetricsServiceRequest
	var traces traceswire.ExportTraceServiceRequest
	if path == "/v1/metrics" {
		err := proto.Unmarshal(body, &metrics)
		for _, m := range metrics.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
			c.metrics = append(c.metrics, m.GetName())
		}
		return err
	}
	err := proto.Unmarshal(body, &traces)
	for _, s := range traces.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
		c.spans = append(c.spans, s.GetName())
	}
	return err
}

// round serves while one event is published, and returns what was logged.
func round(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	r, w := io.Pipe()
	var running sync.WaitGroup
	code := exitOK
	running.Go(func() {
		code = run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--store", "memory:"}, args...), strings.NewReader(""), w, &errs)
		_ = w.Close()
	})
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatal("serve said nothing")
	}
	url := regexp.MustCompile(`http://\S+`).FindString(lines.Text())
	running.Go(func() { _, _ = io.Copy(io.Discard, r) })
	if code, _, text := command(t, "publish", "orders", "--type", "created", "--server", url); code != exitOK {
		t.Error(text)
	}
	cancel()
	running.Wait()
	if code != exitOK {
		t.Errorf("serve: exit %d: %s", code, &errs)
	}
	return errs.String()
}

func TestACollectorGetsMetricsAndSpansBeforeTheServerIsGone(t *testing.T) {
	for _, way := range []string{"flag", "variable"} {
		c, url := startCollector(t)
		var args []string
		if way == "flag" {
			args = []string{"--otlp-endpoint", url}
		} else {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
		}
		round(t, args...)
		c.mu.Lock()
		if !slices.Contains(c.metrics, "millrace_events_published_total") {
			t.Errorf("%s: metrics %v", way, c.metrics)
		}
		for _, want := range []string{"POST /v1/topics/{topic}/events", "publish orders"} {
			if !slices.Contains(c.spans, want) {
				t.Errorf("%s: no span %s in %v", way, want, c.spans)
			}
		}
		c.mu.Unlock()
	}
}

func TestACollectorThatIsNotThereHoldsNothingUp(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close() // now nobody listens there
	if text := round(t, "--otlp-endpoint", server.URL); !strings.Contains(text, "metrics were not taken") {
		t.Errorf("not logged: %s", text)
	}
}

func TestALineOfNumbersIsLoggedIfAsked(t *testing.T) {
	if text := round(t, "--metrics-log", "1h"); !strings.Contains(text, "msg=metrics published_per_s=") {
		t.Errorf("no line in %s", text)
	}
	if text := round(t); strings.Contains(text, "msg=metrics") {
		t.Errorf("a line in %s", text)
	}
}

func TestTheServerTellsPrometheus(t *testing.T) {
	url := server(t, "--store", "memory:")
	if code, _, errs := command(t, "publish", "orders", "--type", "created", "--server", url); code != exitOK {
		t.Fatal(errs)
	}
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"millrace_events_published_total 1\n", "millrace_events_unrouted_total 1\n", `millrace_build_info{version="` + version + `"} 1`, "\nmillrace_store_bytes "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

func TestBadSettingsOfThoseWhoWatchAreNamed(t *testing.T) {
	for _, endpoint := range []string{"localhost:4318", "http://", "http://me:secret@host:4318", "ftp://host", "http://host?a=b"} {
		code, _, errs := command(t, "serve", "--store", "memory:", "--metrics-log", "10ms", "--otlp-endpoint", endpoint)
		if code != exitUsage || !strings.Contains(errs, "--otlp-endpoint") || !strings.Contains(errs, "--metrics-log") {
			t.Errorf("%s: exit %d, %s", endpoint, code, errs)
		}
		if strings.Contains(errs, "secret") {
			t.Errorf("a password is shown: %s", errs)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")
	if code, _, errs := command(t, "serve", "--store", "memory:"); code != exitUsage || !strings.Contains(errs, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
