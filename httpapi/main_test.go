package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheServerKnowsTheWordsTheWireAndTheBroker(t *testing.T) {
	importguard.Check(t, ".", "api", "broker", "internal/tracing")
}

func openBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Open(context.Background(), "memory:", broker.Options{
		Logger: quiet(), AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// site is a running server and how to ask it.
type site struct {
	t      *testing.T
	url    string
	client *http.Client
	header http.Header
}

func newSite(t *testing.T, b Backend, o Options) *site {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(metrics.Options{Logger: o.Logger})
	}
	server := httptest.NewServer(held(t, Handler(b, o)))
	t.Cleanup(server.Close)
	return &site{t: t, url: server.URL, client: server.Client(), header: http.Header{}}
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; a body is JSON unless the header says otherwise.
func (s *site) ask(method, path, body string, header ...string) got {
	s.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, s.url+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer io.Reader = res.Body
	if res.Header.Get("Content-Type") == api.LiveType { // it has no end
		answer = io.LimitReader(answer, int64(len(api.LiveOpen)))
	}
	text, err := io.ReadAll(answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return got{res.StatusCode, res.Header, string(text)}
}

// want asks and checks the status.
func (s *site) want(status int, method, path, body string, header ...string) got {
	s.t.Helper()
	g := s.ask(method, path, body, header...)
	if g.status != status {
		s.t.Fatalf("%s %s: got %d, want %d: %s", method, path, g.status, status, g.body)
	}
	return g
}

// object is the answer as a JSON object.
func (g got) object(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(g.body), &m); err != nil {
		t.Fatalf("%v: %s", err, g.body)
	}
	return m
}

// problem is the answer as a problem, checked for its form.
func (g got) problem(t *testing.T) (code string, faults []string) {
	t.Helper()
	var p struct {
		Type, Title, Code, Detail string
		Status                    int
		RequestID                 string `json:"request_id"`
		Sink                      *string
		Errors                    []millrace.Fault
	}
	d := json.NewDecoder(strings.NewReader(g.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v: %s", err, g.body)
	}
	if g.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("content type %s", g.header.Get("Content-Type"))
	}
	if p.Type != "about:blank" || p.Status != g.status || p.Title != http.StatusText(g.status) || p.Detail == "" {
		t.Errorf("bad problem: %s", g.body)
	}
	if p.RequestID == "" || p.RequestID != g.header.Get("X-Request-Id") {
		t.Errorf("request id %q, header %q", p.RequestID, g.header.Get("X-Request-Id"))
	}
	if retry := g.header.Get("Retry-After"); (retry != "") != (g.status == 429 || g.status == 503) {
		t.Errorf("status %d with Retry-After %q", g.status, retry)
	}
	if (p.Sink != nil) != (p.Code == "full") {
		t.Errorf("code %s with a sink or without: %s", p.Code, g.body)
	}
	for _, f := range p.Errors {
		faults = append(faults, f.Location+" "+f.Message)
	}
	return p.Code, faults
}

// example is a golden file of the wire.
func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "api", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// published is how many events the store has taken.
func (s *site) published() float64 {
	s.t.Helper()
	return s.want(200, "GET", "/v1/stats", "").object(s.t)["published"].(float64)
}
