package httpapi

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const events = "/v1/topics/orders/events"

// bad is a request that must be refused, with its status, code and faults.
type bad struct {
	name, method, path, body string
	status                   int
	code                     string
	faults                   []string
	header                   []string
}

func badRequests() []bad {
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	large := `{"type":"a","data":"` + strings.Repeat("x", 4<<20) + `"}`
	return []bad{
		{"duplicate member", "POST", events, `{"type":"a","type":"b"}`, 400, "malformed", []string{"body.type is given twice"}, nil},
		{"trailing data", "POST", events, `{"type":"a"}x`, 400, "malformed", []string{"body must be one JSON value, with nothing after it"}, nil},
		{"invalid UTF-8", "POST", events, "{\"type\":\"\xff\"}", 400, "malformed", []string{"body.type must be valid UTF-8"}, nil},
		{"depth 65", "POST", events, `{"type":"a","data":` + deep + `}`, 400, "malformed", []string{"body nests deeper than 64"}, nil},
		{"no body", "POST", events, "", 400, "malformed", []string{"body must be JSON: it ends too early"}, nil},
		{"bad query", "GET", "/v1/queues?limit=%zz", "", 400, "malformed", []string{"query must be percent-encoded pairs"}, nil},
		{"bad cursor", "GET", "/v1/queues?cursor=!", "", 400, "bad_cursor", []string{"query.cursor must be the next of a page"}, nil},

		{"case variant", "POST", events, `{"type":"a","Tenant":"b"}`, 422, "invalid", []string{"body.Tenant is not a known field"}, nil},
		{"colon", "POST", events, `[{"type":"a"},{"type":"a","tenant":"x:y"}]`, 422, "invalid", []string{"body[1].tenant must not contain ':'"}, nil},
		{"colon in the path", "POST", "/v1/topics/a%3Ab/events", `{}`, 422, "invalid", []string{"path.topic must not contain ':'", "body.type is required"}, nil},
		{"our topic", "POST", "/v1/topics/millrace/events", `{"type":"a"}`, 422, "invalid", []string{"path.topic is reserved"}, nil},
		{"empty array", "POST", events, `[]`, 422, "invalid", []string{"body must hold 1 to 1000 events"}, nil},
		{"1,001 events", "POST", events, `[` + strings.Repeat(`{"type":"a"},`, 1000) + `{"type":"a"}]`, 422, "invalid", []string{"body must hold 1 to 1000 events"}, nil},
		{"delay", "POST", events, `[{"type":"a"},{"type":"a","delay":"-1s"}]`, 422, "invalid", []string{`body[1].delay must be a duration such as "1m30s"`}, nil},
		{"both delays", "POST", events, `{"type":"a","delay":"1s","deliver_at":"2026-11-15T01:13:00Z"}`, 422, "invalid", []string{"body.deliver_at must not be given with delay"}, nil},
		{"empty idempotency key", "POST", events, `{"type":"a"}`, 422, "invalid", []string{"header.Idempotency-Key must not be empty"}, []string{"Idempotency-Key", ""}},
		{"body and query", "POST", events + "?dry=1", `{}`, 422, "invalid", []string{"body.type is required", "query.dry is not a known parameter"}, nil},
		{"limit", "GET", "/v1/topics?limit=1001", "", 422, "invalid", []string{"query.limit must be at most 1000"}, nil},
		{"limit twice", "GET", "/v1/topics?limit=1&limit=2", "", 422, "invalid", []string{"query.limit is given twice"}, nil},
		{"odd parameter", "GET", "/v1/stats?my%20secret=1", "", 422, "invalid", []string{"query is not a known parameter"}, nil},
		{"flag", "DELETE", "/v1/queues/emails?if_empty=1", "", 422, "invalid", []string{"query.if_empty must be true or false"}, nil},
		{"queue's name", "PUT", "/v1/queues/a%2Fb", `{}`, 422, "invalid", []string{"path.queue must hold only letters, digits, '.', '_' and '-'", "body.match is required"}, nil},
		{"dots", "GET", "/v1/queues/%2e%2e", "", 422, "invalid", []string{"path.queue must not be . or .."}, nil},
		{"settle twice", "POST", "/v1/queues/emails/ack", `{"receipts":["a","a"]}`, 422, "invalid", []string{"body.receipts[1] is given twice"}, nil},
		{"lease", "POST", "/v1/queues/emails/lease", `{"max":1001,"wait":"2m"}`, 422, "invalid", []string{"body.max must be between 1 and 1000", "body.wait must be between 0s and 1m"}, nil},
		{"live", "GET", "/v1/live?match=(&tenant=a:b&key=%0a", "", 422, "invalid", []string{"query.match is not a regular expression: missing closing )", "query.tenant must not contain ':'", "query.key must not contain control characters"}, nil},

		{"live of nobody", "GET", "/v1/live?match=&tenant=&key=", "", 422, "invalid", []string{"query.match must not be empty", "query.tenant must not be empty", "query.key must not be empty"}, nil},
		{"live of no tenant", "GET", "/v1/live?tenant=", "", 422, "invalid", []string{"query.tenant must not be empty"}, nil},

		{"unknown path", "GET", "/v1/nothing", "", 404, "not_found", nil, nil},
		{"root", "GET", "/", "", 404, "not_found", nil, nil},
		{"trailing slash", "GET", "/v1/queues/", "", 404, "not_found", nil, nil},
		{"double slash", "GET", "/v1//queues", "", 404, "not_found", nil, nil},
		{"dots in the path", "GET", "/v1/topics/../queues", "", 404, "not_found", nil, nil},
		{"dots for a name", "POST", "/v1/queues/../pause", "", 404, "not_found", nil, nil},
		{"a dot for a name", "GET", "/v1/queues/.", "", 404, "not_found", nil, nil},
		{"unknown queue", "GET", "/v1/queues/nothing", "", 404, "not_found", nil, nil},
		{"lease of an unknown queue", "POST", "/v1/queues/nothing/lease", `{}`, 404, "not_found", nil, nil},
		{"ack of an unknown queue", "POST", "/v1/queues/nothing/ack", `{"receipts":[]}`, 404, "not_found", nil, nil},
		{"extend of an unknown queue", "POST", "/v1/queues/nothing/extend", `{"receipts":[]}`, 404, "not_found", nil, nil},
		{"wrong method", "POST", "/v1/queues", `{}`, 405, "method_not_allowed", nil, nil},
		{"wrong method of one", "PATCH", "/v1/queues/emails", `{}`, 405, "method_not_allowed", nil, nil},
		{"get of an action", "GET", "/v1/queues/emails/ack", "", 405, "method_not_allowed", nil, nil},

		{"too large", "POST", events, large, 413, "too_large", nil, nil},
		{"form", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"text", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Type", "text/plain"}},
		{"other cloud events", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Type", "application/cloudevents+avro"}},
		{"cloud events elsewhere", "PUT", "/v1/queues/emails", `{"match":"."}`, 415, "unsupported_media_type", nil, []string{"Content-Type", "application/cloudevents+json"}},
		{"no type", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Type", ""}},
		{"charset", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Type", "application/json; charset=latin1"}},
		{"encoded", "POST", events, `{"type":"a"}`, 415, "unsupported_media_type", nil, []string{"Content-Encoding", "gzip"}},
	}
}

func TestABadRequestIsRefusedWholeAndNothingIsStored(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, b := range slices.Concat(badRequests(), badManagement()) {
		t.Run(b.name, func(t *testing.T) {
			s := &site{t: t, url: s.url, client: s.client}
			code, faults := s.want(b.status, b.method, b.path, b.body, b.header...).problem(t)
			if code != b.code {
				t.Errorf("code %s, want %s", code, b.code)
			}
			if diff := cmp.Diff(b.faults, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	if n := s.published(); n != 0 {
		t.Errorf("%v events are stored", n)
	}
	if queues := s.want(200, "GET", "/v1/queues", "").body; queues != `{"queues":[]}` {
		t.Errorf("defined: %s", queues)
	}
}

func TestAPublishThatCannotBeReadCountsAsRefused(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(422, "POST", events, `[{"type":"a"},{"type":7},{"type":"b"}]`)
	s.want(400, "POST", events, `{"type":`)
	if stats := s.want(200, "GET", "/v1/stats", "").body; !strings.Contains(stats, `"refused":2,`) {
		t.Error(stats)
	}
}

func TestABodyOfExactlyTheLimitIsRead(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	padded := `{"type":"a"}` + strings.Repeat(" ", 4<<20-len(`{"type":"a"}`))
	s.want(200, "POST", events, padded)
	code, _ := s.want(413, "POST", events, padded+" ").problem(t)
	if code != "too_large" {
		t.Error(code)
	}
}

func TestALargeBodyOfUnknownLengthIsRefused(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	req, err := http.NewRequest("POST", s.url+events, struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", 4<<20+1))})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("got %d", res.StatusCode)
	}
}

func TestABodyThatDripsIsTimedOut(t *testing.T) {
	s := newSite(t, openBroker(t), Options{BodyTimeout: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("POST " + events + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(answer[:n]); !strings.HasPrefix(text, "HTTP/1.1 408 ") || !strings.Contains(text, `"code":"slow_request"`) {
		t.Error(text)
	}
}

func TestTheBodysDeadlineDoesNotEndALongPoll(t *testing.T) {
	s := newSite(t, openBroker(t), Options{BodyTimeout: 30 * time.Millisecond})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	start := time.Now()
	s.want(200, "POST", "/v1/queues/emails/lease", `{"wait":"200ms"}`)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}

func TestAMethodThatIsNotAllowedIsToldWhatIs(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for path, allow := range map[string]string{
		"/v1/queues":        "GET, HEAD, OPTIONS",
		"/v1/queues/emails": "DELETE, GET, HEAD, OPTIONS, PUT",
		events:              "OPTIONS, POST",
		"/livez":            "GET, HEAD, OPTIONS",
	} {
		if got := s.want(405, "PATCH", path, "").header.Get("Allow"); got != allow {
			t.Errorf("%s allows %q, want %q", path, got, allow)
		}
		options := s.want(204, "OPTIONS", path, "")
		if got := options.header.Get("Allow"); got != allow || options.body != "" {
			t.Errorf("%s offers %q, want %q", path, got, allow)
		}
	}
	s.want(404, "OPTIONS", "/v1/nothing", "")
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`)
	for _, path := range []string{"/v1/queues", "/v1/queues/emails", "/livez", "/v1/nodes"} {
		head, get := s.want(200, "HEAD", path, ""), s.want(200, "GET", path, "")
		if head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("Content-Length") == "" {
			t.Errorf("%s: %v", path, head)
		}
	}
	if g := s.want(404, "HEAD", "/v1/queues/nothing", ""); g.body != "" {
		t.Error(g.body)
	}
}

func TestTheRequestIDIsEchoedOrMade(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, mine := range []string{"mine-7", "!~", strings.Repeat("x", 128)} {
		if got := s.ask("GET", "/livez", "", "X-Request-Id", mine).header.Get("X-Request-Id"); got != mine {
			t.Errorf("%q became %q", mine, got)
		}
	}
	seen := []string{}
	for _, odd := range []string{"", "a b", "a\tb", strings.Repeat("x", 129), "ü"} {
		got := s.ask("GET", "/livez", "", "X-Request-Id", odd).header.Get("X-Request-Id")
		if len(got) != 26 || slices.Contains(seen, got) {
			t.Errorf("%q became %q", odd, got)
		}
		seen = append(seen, got)
	}
}

func TestEveryRouteRefusesAnUnknownParameterBeforeItActs(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, rt := range routes() {
		if rt.anyQuery {
			continue
		}
		body := goodBody(&rt)
		path, _, _ := strings.Cut(pathOf(&rt), "?")
		query := strings.TrimPrefix(pathOf(&rt), path) + "&nonsense=1"
		_, faults := s.want(422, rt.method, path+"?"+query[1:], body).problem(t)
		if diff := cmp.Diff([]string{"query.nonsense is not a known parameter"}, faults); diff != "" {
			t.Errorf("%s %s: %s", rt.method, rt.path, diff)
		}
	}
	if n := s.published(); n != 0 {
		t.Errorf("%v events are stored", n)
	}
}

// goodBody is a body that a route takes.
func goodBody(rt *route) string {
	bodies := map[string]string{
		"/v1/topics/{topic}": `{"publisher":"shop"}`, "/v1/topics/{topic}/events": `{"type":"a"}`,
		"/v1/queues/{queue}": `{"match":"."}`, "/v1/queues/{queue}/tenants/{tenant}": `{"weight":2}`,
		"/v1/lease": `{"queues":{"emails":1}}`, "/v1/queues/{queue}/lease": `{}`, "/v1/queues/{queue}/release": `{"consumer":"w-1"}`,
		"/v1/queues/{queue}/pause": `{}`, "/v1/queues/{queue}/resume": ``, "/v1/queues/{queue}/purge": `{"tenant":"acme"}`,
		"/v1/queues/{queue}/dead/redrive": `{"all":true}`, "/v1/definitions": `{"queues":{"sms":{"match":"."}},"tenants":{"sms":{"acme":{"weight":2}}},"subscriptions":{"mill":{"callback":"https://mill.example/hook","match":"."}}}`,
		subscriptionOne: quietSubscription, subscriptionOne + "/pause": `{}`, subscriptionOne + "/resume": ``, subscriptionOne + "/test": `{}`,
		subscriptionOne + "/rotate": `{"overlap":"1h"}`, subscriptionOne + "/batches/{id}/retry": ``, subscriptionOne + "/dead/retry": `{}`,
		"/v1/operations": `{"queue":"sync","type":"MANUAL"}`, operationOne + "/cancel": `{}`, operationOne + "/progress": `{"receipt":"q5J","percent":40}`,
		triggerOne: `{"operation":{"queue":"sync","type":"MANUAL"}}`, triggerOne + "/rotate": `{}`, "/t/{secret}": `{"ref":"main"}`,
		subscriptionOne + "/inject": `{"events":[{"id":"a-2","topic":"orders","type":"a","time":"2026-11-15T01:13:00Z","seq":7}]}`,
		"/v1/queues/{queue}/inject": `{"events":[{"id":"a-2","topic":"orders","type":"a","time":"2026-11-15T01:13:00Z","seq":7}]}`,
	}
	body, known := bodies[rt.path]
	switch {
	case !rt.body:
		return ""
	case known:
		return body
	}
	return `{"receipts":[]}`
}
