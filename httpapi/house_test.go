package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// ailing is a broker that fails as it is told to.
type ailing struct {
	*broker.Broker
	err  error
	boom bool
}

func (a *ailing) Publish(context.Context, ...millrace.Event) ([]millrace.Published, error) {
	if a.boom {
		panic("hunter2")
	}
	return nil, a.err
}

func (a *ailing) Ready(context.Context) error { return a.err }

func TestAnErrorOfTheBrokerIsAProblemWithItsCode(t *testing.T) {
	a := &ailing{Broker: openBroker(t)}
	s := newSite(t, a, Options{})
	for status, codes := range map[int][]millrace.Code{
		429: {millrace.CodeRateLimited, millrace.CodeFull}, 403: {millrace.CodeTopicClaimed}, 507: {millrace.CodeStoreFull},
		503: {millrace.CodeUnavailable, millrace.CodeDraining, millrace.CodeNotReplicated, millrace.CodeOutcomeUnknown},
		500: {millrace.CodeInternal, millrace.CodeStale, millrace.CodeLaneMissing},
	} {
		for _, code := range codes {
			a.err = millrace.Wrap(code, errors.New("hunter2"), "it went wrong")
			g := s.want(status, "POST", events, `{"type":"a"}`)
			got, _ := g.problem(t)
			if status != 500 && got != string(code) || status == 500 && got != "internal" {
				t.Errorf("%s became %s", code, got)
			}
			if strings.Contains(g.body, "hunter2") {
				t.Errorf("the cause is shown: %s", g.body)
			}
		}
	}
	a.err = errors.New("hunter2")
	if g := s.want(500, "POST", events, `{"type":"a"}`); strings.Contains(g.body, "hunter2") {
		t.Error(g.body)
	}
}

func TestAPartlyCommittedPublishTellsOfEachEvent(t *testing.T) {
	a := &ailing{Broker: openBroker(t), err: &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "some", Events: []millrace.Published{
		{ID: "a-1", Seq: 41, Sinks: 1}, {ID: "a-2", Err: millrace.ErrUnavailable},
	}}}
	g := newSite(t, a, Options{}).want(503, "POST", events, `[{"type":"a"},{"type":"a"}]`)
	if want := `"events":[{"id":"a-1","seq":41,"duplicate":false,"sinks":1},{"id":"a-2","error":"unavailable"}]`; !strings.Contains(g.body, want) {
		t.Error(g.body)
	}
}

func TestReadinessIsTheBrokers(t *testing.T) {
	a := &ailing{Broker: openBroker(t)}
	s := newSite(t, a, Options{RootToken: token})
	s.want(200, "GET", "/readyz", "")
	a.err = millrace.ErrDraining
	for _, path := range []string{"/readyz", "/healthz"} {
		if g := s.want(503, "GET", path, ""); g.body != `{"ok":false}` || g.header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", path, g)
		}
	}
	s.want(200, "GET", "/livez", "")
}

// lines is a log that is read line by line.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// find waits for a line that holds all of some texts.
func (l lines) find(t *testing.T, texts ...string) string {
	t.Helper()
	timeout := time.After(5 * time.Second)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return line
			}
		case <-timeout:
			t.Fatalf("nothing with %q is logged", texts)
		}
	}
}

func TestAPanicIsAnInternalErrorAndIsLogged(t *testing.T) {
	log := make(lines, 100)
	a := &ailing{Broker: openBroker(t), boom: true}
	s := newSite(t, a, Options{Logger: slog.New(slog.NewJSONHandler(log, nil))})
	g := s.want(500, "POST", events, `{"type":"a"}`, "X-Request-Id", "r-7")
	if code, _ := g.problem(t); code != "internal" || strings.Contains(g.body, "hunter2") {
		t.Error(g.body)
	}
	log.find(t, `"level":"ERROR"`, `"request_id":"r-7"`, "hunter2")
	s.want(200, "GET", "/livez", "")
}

// watched is a broker whose leases tell when they begin and how they end.
type watched struct {
	*broker.Broker
	begun chan struct{}
	ended chan error
}

func (w *watched) Queues() millrace.QueueService { return watchedQueues{w.Broker.Queues(), w} }

type watchedQueues struct {
	millrace.QueueService
	w *watched
}

func (q watchedQueues) Lease(ctx context.Context, name string, o millrace.LeaseOptions) ([]millrace.Message, error) {
	q.w.begun <- struct{}{}
	messages, err := q.QueueService.Lease(ctx, name, o)
	q.w.ended <- err
	return messages, err
}

func TestALeaseEndsWithItsRequest(t *testing.T) {
	b := &watched{openBroker(t), make(chan struct{}), make(chan error, 1)}
	log := make(lines, 100)
	s := newSite(t, b, Options{Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/queues/emails/lease", strings.NewReader(`{"wait":"60s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answered := make(chan error)
	go func() {
		res, err := s.client.Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	<-b.begun
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-b.ended:
	case <-time.After(10 * time.Second):
		t.Error("the broker still waits")
	}
	if line := log.find(t, "/lease"); !strings.Contains(line, `"level":"DEBUG"`) {
		t.Errorf("a caller that went away is logged as a failure: %s", line)
	}
}

func TestALeaseIsAnsweredAtTheFirstMessage(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	leased := make(chan got)
	go func() { leased <- s.ask("POST", "/v1/queues/emails/lease", `{"wait":"30s","max":10}`) }()
	s.want(200, "POST", events, `{"type":"a","data":{ "n" : 1.0 }}`)
	if g := <-leased; g.status != 200 || !strings.Contains(g.body, `"data":{ "n" : 1.0 }`) {
		t.Error(g.body)
	}
}

func TestDataThatIsNotJSONTravelsAsBase64(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	s.want(200, "POST", events, `{"type":"a","content_type":"image/png","data_base64":"/wA="}`)
	g := s.want(200, "POST", "/v1/queues/emails/lease", "")
	if !strings.Contains(g.body, `"content_type":"image/png","data_base64":"/wA="`) || strings.Contains(g.body, `"data":`) {
		t.Error(g.body)
	}
}

func TestTheDescriptionNamesEveryRoute(t *testing.T) {
	s := newSite(t, openBroker(t), Options{RootToken: token})
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Scope string `json:"x-scope"`
		}
	}
	if err := json.Unmarshal([]byte(s.want(200, "GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Error(doc.OpenAPI)
	}
	for _, rt := range routes() {
		if got := doc.Paths[rt.path][strings.ToLower(rt.method)].Scope; got != string(rt.scope) {
			t.Errorf("%s %s has scope %q", rt.method, rt.path, got)
		}
	}
}

func TestExtensionsMayEachHaveTheirTime(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	s.want(200, "POST", events, `[{"type":"a"},{"type":"b"}]`)
	messages := s.want(200, "POST", "/v1/queues/emails/lease", `{"max":2}`).object(t)["messages"].([]any)
	receipt := func(i int) string { return messages[i].(map[string]any)["receipt"].(string) }
	g := s.want(200, "POST", "/v1/queues/emails/extend",
		`{"items":[{"receipt":"`+receipt(0)+`","lease":"1h"},{"receipt":"`+receipt(1)+`","lease":"2h"},{"receipt":"gone","lease":"1h"}]}`).object(t)
	until, err := time.Parse(time.RFC3339, g["leased_until"].(string))
	if err != nil || g["settled"] != 2.0 || len(g["lost"].([]any)) != 1 {
		t.Fatal(g, err)
	}
	if in := time.Until(until); in < 59*time.Minute || in > time.Hour {
		t.Errorf("the earliest ends in %s", in)
	}
}

func TestReadinessInWordsTakesTheTokenAndAnswersAlsoWhenTheStoreDoesNot(t *testing.T) {
	a := &ailing{Broker: openBroker(t)}
	s := newSite(t, a, Options{RootToken: token})
	s.want(200, "GET", "/readyz", "")
	for _, header := range []string{"", "Bearer wrong"} {
		if code, _ := s.want(401, "GET", "/readyz?verbose", "", "Authorization", header).problem(t); code != "unauthenticated" {
			t.Error(code)
		}
	}
	if got := s.want(200, "GET", "/readyz?verbose", "", "Authorization", "Bearer "+token).object(t); !got["ok"].(bool) || len(got["checks"].([]any)) < 3 {
		t.Errorf("got %v", got)
	}
	a.err = errors.New("the store is away")
	got := s.want(503, "GET", "/readyz?verbose", "", "Authorization", "Bearer "+token)
	if body := got.object(t); body["ok"].(bool) || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %v", got)
	}
	a.Drain()
	got = s.want(503, "GET", "/readyz?verbose", "", "Authorization", "Bearer "+token)
	check := got.object(t)["checks"].([]any)[0].(map[string]any)
	if check["name"] != "store" || check["ok"].(bool) || check["detail"] == "" {
		t.Errorf("got %v", got)
	}
}

func TestANodeThatTakesNoRequestsTellsOfItselfAlone(t *testing.T) {
	s := newSite(t, openBroker(t), Options{HealthOnly: true, RootToken: "secret"})
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/openapi.json"} {
		s.want(200, "GET", path, "")
	}
	s.want(401, "GET", "/metrics", "")
	s.want(200, "GET", "/metrics", "", "Authorization", "Bearer secret")
	for _, rt := range routes() {
		if path := strings.NewReplacer("{", "", "}", "").Replace(rt.path); strings.HasPrefix(path, "/v1/") {
			s.want(404, rt.method, path, "", "Authorization", "Bearer secret")
		}
	}
}
