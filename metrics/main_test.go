package metrics_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsKnowTheWordsAndTheBroker(t *testing.T) { importguard.Check(t, ".", "broker") }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// node is a broker with its metrics and its server.
type node struct {
	t       *testing.T
	broker  *broker.Broker
	metrics *metrics.Metrics
	url     string
}

func startNode(t *testing.T, store string, o broker.Options) *node {
	t.Helper()
	m := metrics.New(metrics.Options{Version: "1.2.3", Logger: quiet()})
	o.Logger, o.Observer = quiet(), m
	b, err := broker.Open(t.Context(), store, o)
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
	m.Watch(b)
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{Logger: quiet(), Metrics: m}))
	t.Cleanup(server.Close)
	return &node{t, b, m, server.URL}
}

func (n *node) ask(method, path, body string) (status int, kind, text string) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), string(all)
}

// scrape is what Prometheus would read.
func (n *node) scrape() scraped {
	n.t.Helper()
	status, kind, text := n.ask("GET", "/metrics", "")
	if status != 200 || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		n.t.Fatalf("status %d, content type %q: %s", status, kind, text)
	}
	return parse(n.t, text)
}

// until scrapes until a number is as wanted: readings of the store are up to a second old.
func (n *node) until(want float64, name string, labels ...string) scraped {
	n.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		s := n.scrape()
		if got, there := s.find(name, labels...); there && got == want {
			return s
		} else if time.Now().After(deadline) {
			n.t.Fatalf("%s%v: got %v (%v), want %v", name, labels, got, there, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (n *node) define(queue, match string, change ...func(*millrace.QueueSpec)) {
	n.t.Helper()
	spec := millrace.DefaultQueueSpec(match)
	for _, f := range change {
		f(&spec)
	}
	if _, _, err := n.broker.Queues().Put(n.t.Context(), queue, spec); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) publish(events ...millrace.Event) {
	n.t.Helper()
	if _, err := n.broker.Publish(n.t.Context(), events...); err != nil {
		n.t.Fatal(err)
	}
}

// lease leases messages and returns what settles them.
func (n *node) lease(queue string, count int) []millrace.Settlement {
	n.t.Helper()
	messages, err := n.broker.Queues().Lease(n.t.Context(), queue, millrace.LeaseOptions{Max: count, Wait: 10 * time.Second})
	if err != nil || len(messages) != count {
		n.t.Fatalf("leased %d of %d: %v", len(messages), count, err)
	}
	items := make([]millrace.Settlement, count)
	for i := range messages {
		items[i].Receipt = messages[i].Receipt
	}
	return items
}

// scraped is the families of a scrape, by name.
type scraped struct {
	t        *testing.T
	text     string
	families map[string]*dto.MetricFamily
}

func parse(t *testing.T, text string) scraped {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return scraped{t, text, families}
}

// find is the number with these labels: names and values in turn.
func (s scraped) find(name string, labels ...string) (float64, bool) {
	s.t.Helper()
	for _, m := range s.families["millrace_"+name].GetMetric() {
		if !fits(m, labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue(), true
		case m.Gauge != nil:
			return m.Gauge.GetValue(), true
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount()), true
		}
	}
	return 0, false
}

func fits(m *dto.Metric, labels []string) bool {
	if len(m.GetLabel()) != len(labels)/2 {
		return false
	}
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

func (s scraped) want(want float64, name string, labels ...string) {
	s.t.Helper()
	if got, there := s.find(name, labels...); !there || got != want {
		s.t.Errorf("%s%v: got %v (%v), want %v", name, labels, got, there, want)
	}
}

func (s scraped) wantNone(name string, labels ...string) {
	s.t.Helper()
	if got, there := s.find(name, labels...); there {
		s.t.Errorf("%s%v is still there: %v", name, labels, got)
	}
}

// log is what was logged; many may write it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
