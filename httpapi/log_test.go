package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
)

const marker = "hunter2"

// jsonLog is a log in lines of JSON.
func jsonLog(to lines, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level}))
}

// next is the next line of a log, as an object.
func (l lines) next(t *testing.T) map[string]any {
	t.Helper()
	select {
	case line := <-l:
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is logged")
		return nil
	}
}

func TestEveryRequestIsLoggedOnceWithItsRouteStatusAndCode(t *testing.T) {
	log := make(lines, 100)
	a := &ailing{Broker: openBroker(t), err: millrace.Wrap(millrace.CodeUnavailable, errors.New("no route to Redis"), "try again")}
	s := newSite(t, a, Options{Logger: jsonLog(log, slog.LevelDebug)})
	for i, c := range []struct {
		method, path, body string
		want               map[string]any
	}{
		{"GET", "/livez", "", map[string]any{"level": "DEBUG", "route": "GET /livez", "status": 200.0}},
		{"GET", "/v1/queues/emails", "", map[string]any{"level": "INFO", "route": "GET /v1/queues/{queue}", "status": 404.0, "code": "not_found"}},
		{"PUT", "/v1/queues/emails", `{"match":7}`, map[string]any{"level": "INFO", "route": "PUT /v1/queues/{queue}", "status": 422.0, "code": "invalid"}},
		{"GET", "/nowhere", "", map[string]any{"level": "INFO", "route": "unknown", "status": 404.0, "code": "not_found"}},
		{"DELETE", "/v1/queues", "", map[string]any{"level": "INFO", "route": "unknown", "status": 405.0, "code": "method_not_allowed"}},
		{"POST", events, `{"type":"a"}`, map[string]any{
			"level": "WARN", "route": "POST /v1/topics/{topic}/events", "status": 503.0, "code": "unavailable", "error": "unavailable: try again: no route to Redis",
		}},
		{"GET", "/readyz", "", map[string]any{"level": "WARN", "route": "GET /readyz", "status": 503.0}},
	} {
		id := fmt.Sprint("r-", i)
		s.ask(c.method, c.path, c.body, "X-Request-Id", id)
		got := log.next(t)
		if took, ok := got["took"].(float64); !ok || took <= 0 {
			t.Errorf("%s %s took %v", c.method, c.path, got["took"])
		}
		delete(got, "took")
		delete(got, "time")
		c.want["request_id"], c.want["msg"] = id, "request"
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.path, diff)
		}
	}
	if len(log) > 0 {
		t.Errorf("there is more: %s", <-log)
	}
}

func TestNothingThatACallerSendsIsLoggedButTheRequestID(t *testing.T) {
	log := make(lines, 1000)
	s := newSite(t, openBroker(t), Options{RootToken: token, Logger: jsonLog(log, slog.LevelDebug)})
	s.header.Set("Authorization", "Bearer "+token)
	n := 0
	send := func(method, path, body string, header ...string) {
		s.ask(method, path, body, header...)
		n++
	}
	for _, authorization := range []string{"Bearer " + marker, basic(marker), marker + " x"} {
		send("GET", "/v1/queues", "", "Authorization", authorization)
	}
	for _, rt := range routes() {
		path, _, _ := strings.Cut(rt.path, "?")
		path = strings.NewReplacer("{", marker+"-", "}", "").Replace(path)
		send(rt.method, path, "")
		send(rt.method, path+"?"+marker+"="+marker+"&limit="+marker+"&cursor="+marker+"&tenant="+marker, "")
		for _, body := range []string{
			marker, `{"` + marker + `":"` + marker + `"}`, `{"queues":{"` + marker + `":0},"match":"(` + marker + `"}`,
			`[{"type":"` + marker + `:","data":"` + marker + `","attributes":{"` + marker + `!":"x"}}]`, `{"receipts":["` + marker + `"]}`,
		} {
			send(rt.method, path, body, "Idempotency-Key", marker, "Content-Type", "application/json; x="+marker)
			send(rt.method, path, body)
		}
	}
	send("GET", "/"+marker+"//x", "")
	send(strings.ToUpper(marker), "/v1/queues", "")
	for range n {
		got := log.next(t)
		if text := fmt.Sprint(got); strings.Contains(strings.ToLower(text), marker) || strings.Contains(text, token) {
			t.Errorf("what a caller sent is logged: %s", text)
		}
	}
}

func TestWhatIsLoggedInARequestHasItsIDAndTrace(t *testing.T) {
	log := make(lines, 10)
	logger := slog.New(LogHandler(jsonLog(log, slog.LevelInfo).Handler())).With("part", "x")
	id, span := trace.TraceID{1}, trace.SpanID{2}
	ctx := trace.ContextWithSpanContext(withRequestID(t.Context(), "r-7"), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span}))
	if RequestID(ctx) != "r-7" || RequestID(t.Context()) != "" {
		t.Error("the context tells another id")
	}
	logger.InfoContext(ctx, "deep down")
	got := log.next(t)
	delete(got, "time")
	want := map[string]any{"level": "INFO", "msg": "deep down", "part": "x", "request_id": "r-7", "trace_id": id.String()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	logger.InfoContext(context.Background(), "elsewhere")
	if got := log.next(t); got["request_id"] != nil || got["trace_id"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestARequestsOwnLineHasItsIDOnceAndItsTrace(t *testing.T) {
	log := make(lines, 10)
	s := newSite(t, openBroker(t), Options{Logger: slog.New(LogHandler(jsonLog(log, slog.LevelInfo).Handler()))})
	s.ask("GET", "/nowhere", "", "X-Request-Id", "r-7", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	line := log.find(t, `"trace_id":"0af7651916cd43dd8448eb211c80319c"`)
	if strings.Count(line, "request_id") != 1 || strings.Count(line, "trace_id") != 1 {
		t.Error(line)
	}
}

func TestMetricsAreNotThereUnlessSomebodyCounts(t *testing.T) {
	uncounted := httptest.NewServer(Handler(openBroker(t), Options{Logger: quiet()}))
	defer uncounted.Close()
	s := newSite(t, openBroker(t), Options{})
	if g := s.want(200, "GET", "/metrics", ""); !strings.HasPrefix(g.header.Get("Content-Type"), "text/plain") {
		t.Errorf("content type %s", g.header.Get("Content-Type"))
	}
	s.url, s.client = uncounted.URL, uncounted.Client()
	if code, _ := s.want(404, "GET", "/metrics", "").problem(t); code != "not_found" {
		t.Errorf("code %s", code)
	}
}
