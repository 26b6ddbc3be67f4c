package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/millrace-dev/millrace/api"
)

// patience is how long a test waits on a machine that has much else to do.
const patience = 2 * time.Minute

// watching is a stream that is being read.
type watching struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// watch begins a stream and reads its first words.
func (s *site) watch(query string) *watching {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/live"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(req) //nolint:bodyclose // closed with the test
	if err != nil {
		s.t.Fatal(err)
	}
	w := &watching{t: s.t, lines: bufio.NewScanner(res.Body), close: func() { cancel(); _ = res.Body.Close() }}
	s.t.Cleanup(w.close)
	w.lines.Buffer(nil, 1<<20)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != api.LiveType || res.Header.Get("Cache-Control") != "no-store" || res.ContentLength != -1 {
		s.t.Fatalf("status %d, headers %v", res.StatusCode, res.Header)
	}
	w.expect(": open", "")
	return w
}

// expect fails unless these lines come next.
func (w *watching) expect(want ...string) {
	w.t.Helper()
	for _, line := range want {
		if !w.lines.Scan() || w.lines.Text() != line {
			w.t.Fatalf("got %q, want %q (%v)", w.lines.Text(), line, w.lines.Err())
		}
	}
}

// frame reads the lines of one frame.
func (w *watching) frame() (lines []string) {
	w.t.Helper()
	for w.lines.Scan() && w.lines.Text() != "" {
		lines = append(lines, w.lines.Text())
	}
	return lines
}

func TestAStreamShowsEventsAsFrames(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	w := s.watch("?match=:orders:&tenant=acme&key=order%3A7")
	s.want(200, "POST", events, `[{"id":"no","type":"created","tenant":"acme"},{"id":"no","type":"created","key":"order:7"}]`)
	s.want(200, "POST", "/v1/topics/other/events", `{"id":"no","type":"created","tenant":"acme","key":"order:7"}`)
	s.want(200, "POST", events, `{"id":"a-1","type":"created","tenant":"acme","key":"order:7","data":{"n":1}}`)
	f := w.frame()
	if len(f) != 3 || f[0] != "id: a-1" || f[1] != "event: event" {
		t.Fatalf("got %q", f)
	}
	e, err := api.DecodeEvent([]byte(strings.TrimPrefix(f[2], "data: ")))
	if err != nil || e.ID != "a-1" || e.Key != "order:7" || e.Seq == 0 || string(e.Data) != `{"n":1}` || e.RecordedAt.IsZero() {
		t.Errorf("got %+v: %v", e, err)
	}
}

func TestAStreamBeats(t *testing.T) {
	s := newSite(t, openBroker(t), Options{BeatEvery: 10 * time.Millisecond})
	s.watch("").expect(": beat", "", ": beat", "", ": beat", "")
}

func TestAStreamEndsWhenTheBrokerDrains(t *testing.T) {
	b := openBroker(t)
	w := newSite(t, b, Options{}).watch("")
	b.Drain()
	if w.lines.Scan() || w.lines.Err() != nil {
		t.Errorf("got %q, %v", w.lines.Text(), w.lines.Err())
	}
}

func TestTheHeadOfAStreamHasNoBodyAndNoEndlessRequest(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for range 3 { // on one connection
		if g := s.want(200, "HEAD", "/v1/live?match=:orders:", ""); g.header.Get("Content-Type") != api.LiveType || g.body != "" {
			t.Errorf("got %+v", g)
		}
	}
	s.want(422, "HEAD", "/v1/live?match=(", "")
}

func TestAReaderOfAStreamThatMissedSomethingIsTold(t *testing.T) {
	h := Handler(openBroker(t), Options{Logger: quiet()})
	h.(*server).frameWithin = patience // the test reads when all is published, however long that takes
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s := &site{t: t, url: server.URL, client: server.Client(), header: http.Header{}}
	w := s.watch("")
	large := `{"type":"created","data":"` + strings.Repeat("x", 200<<10) + `"}`
	batch := "[" + strings.TrimSuffix(strings.Repeat(large+",", 20), ",") + "]"
	for range 6 { // 24 MB: more than connection and server keep for a reader
		s.want(200, "POST", events, batch)
	}
	for seen := 0; ; seen++ {
		f := w.frame()
		if len(f) == 0 {
			t.Fatalf("the stream ended after %d frames: %v", seen, w.lines.Err())
		}
		if f[0] == "event: missed" {
			var missed int
			if n, err := fmt.Sscanf(f[1], `data: {"missed":%d}`, &missed); n != 1 || err != nil || missed < 1 || seen == 0 {
				t.Errorf("got %q after %d frames", f, seen)
			}
			return
		}
	}
}

func TestAReaderThatDoesNotReadDoesNotHoldTheServer(t *testing.T) {
	b := openBroker(t)
	h := Handler(b, Options{Logger: quiet()})
	h.(*server).frameWithin = 50 * time.Millisecond
	ended := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Method == http.MethodGet {
			ended <- struct{}{}
		}
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil { // and then nothing more
		t.Fatal(err)
	}
	s := &site{t: t, url: server.URL, client: server.Client(), header: http.Header{}}
	large := `{"type":"created","data":"` + strings.Repeat("x", 200<<10) + `"}`
	for range 400 {
		s.want(200, "POST", events, large)
		select {
		case <-ended:
			return
		default:
		}
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the request goes on")
	}
}

// counted is the metrics of a site, as lines.
type counted struct {
	mu    sync.Mutex
	lines []string
}

func (c *counted) Request(route string, status int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprint(route, " ", status))
}

func (c *counted) Expose() (string, []byte, error) { return "", nil, nil }

func (c *counted) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

func TestAStreamIsCountedAndTracedWhenItStands(t *testing.T) {
	count, spans := &counted{}, tracetest.NewSpanRecorder()
	s := newSite(t, openBroker(t), Options{Metrics: count, TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
	s.watch("?match=:orders:")
	if got := count.seen(); !slices.Equal(got, []string{"GET /v1/live 200"}) || len(spans.Ended()) != 1 {
		t.Errorf("while it is read: %q and %d spans", got, len(spans.Ended()))
	}
}
