package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	shop = "/v1/subscriptions/shop"

	// quietSubscription collects for long, and nobody is where it sends to.
	quietSubscription = `{"callback":"http://127.0.0.1:1/hook","topics":["orders"],"timeout":"1h"}`
)

// callback is a receiver that answers as it is told.
type callback struct {
	*httptest.Server

	mu      sync.Mutex
	answers int           // the status
	ids     []string      // of the events that came
	headers []http.Header // of the requests
	hold    chan struct{} // unless nil, requests wait for it
}

func newCallback(t *testing.T) *callback {
	t.Helper()
	c := &callback{answers: http.StatusNoContent}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var events []struct{ ID string }
	_ = json.Unmarshal(body, &events) // what is no batch has no ids, and is missed
	c.mu.Lock()
	hold, status := c.hold, c.answers
	c.headers = append(c.headers, r.Header)
	for _, e := range events {
		c.ids = append(c.ids, e.ID)
	}
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	w.WriteHeader(status)
}

// says sets what the receiver answers from now on.
func (c *callback) says(status int, hold chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers, c.hold = status, hold
}

// untilIs asks for the subscription until some of its members are as wanted.
func (s *site) untilIs(want map[string]any) map[string]any {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, same := s.want(200, "GET", shop, "").object(s.t), true
		for name, value := range want {
			same = same && cmp.Equal(got[name], value)
		}
		if same {
			return got
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// batchIn waits for a batch in a state, and returns its id.
func (s *site) batchIn(state string) string {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if ids := s.want(200, "GET", shop+"/batches?state="+state, "").each(s.t, "batches", "id"); len(ids) == 1 {
			return ids[0].(string)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no batch is %s", state)
		}
	}
}

// pushing is a site with a subscription that is sent at once, and tried once.
func pushing(t *testing.T) (*site, *callback, string) {
	t.Helper()
	c := newCallback(t)
	s := newSite(t, openBroker(t), Options{})
	body := fmt.Sprintf(`{"callback":%q,"topics":["orders"],"timeout":"0s","retry_schedule":[],"request_timeout":"30s"}`, c.URL+"/hook")
	return s, c, body
}

func TestASubscriptionIsDefinedShownAndKeptAsItIs(t *testing.T) {
	s, _, body := pushing(t)
	created := s.want(201, "PUT", shop, body)
	if at := created.header.Get("Location"); at != shop {
		t.Errorf("it is at %q", at)
	}
	if secret, _ := created.object(t)["secret"].(string); !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("no secret was shown: %s", created.body)
	}
	for _, g := range []got{s.want(200, "PUT", shop, body), s.want(200, "GET", shop, "")} {
		if strings.Contains(g.body, "whsec_") || g.object(t)["version"] != 1.0 {
			t.Errorf("got %s", g.body)
		}
	}
	if names := s.want(200, "GET", "/v1/subscriptions", "").each(t, "subscriptions", "name"); !cmp.Equal(names, []any{"shop"}) {
		t.Error(names)
	}
	if code, _ := s.want(409, "PUT", shop, strings.Replace(body, "{", `{"ordered":true,`, 1)).problem(t); code != "immutable" {
		t.Error(code)
	}
	shaped(t, s.want(200, "GET", "/v1/route?topic=orders&type=a", "").body,
		`{"address":"default:orders:a","sinks":[{"kind":"subscription","name":"shop","match":":orders:","state":"active"}]}`)
	s.want(200, "POST", events, `{"type":"a"}`)
	if who := s.want(200, "GET", "/v1/topics/orders", "").object(t)["subscriptions"]; !cmp.Equal(who, []any{"shop"}) {
		t.Errorf("the topic's subscriptions are %v", who)
	}
	s.want(204, "DELETE", shop, "")
	s.want(404, "GET", shop, "")
}

func TestABatchIsSentAndOneThatDiedIsSentAgain(t *testing.T) {
	s, c, body := pushing(t)
	s.want(201, "PUT", shop, body)
	s.want(200, "POST", events, `{"id":"e-1","type":"a"}`)
	s.untilIs(map[string]any{"sent": 1.0, "queued": 0.0})

	c.says(http.StatusInternalServerError, nil)
	s.want(200, "POST", events, `{"id":"e-2","type":"a","data":{"n":2}}`)
	s.untilIs(map[string]any{"dead": 1.0, "failed": 1.0, "reason": "status 500"})
	dead := s.batchIn("dead")
	shown := s.want(200, "GET", shop+"/batches/"+dead, "")
	if ids := shown.each(t, "events", "id"); !cmp.Equal(ids, []any{"e-2"}) {
		t.Errorf("the batch holds %v", ids)
	}
	for _, query := range []string{"?batch=" + dead, "?event=e-2"} {
		tried := s.want(200, "GET", shop+"/attempts"+query, "").each(t, "attempts", "outcome")
		if !cmp.Equal(tried, []any{"failed"}) {
			t.Errorf("%s: %v", query, tried)
		}
	}
	if code, _ := s.want(409, "DELETE", shop+"?if_empty=true", "").problem(t); code != "not_empty" {
		t.Error(code)
	}
	c.says(http.StatusNoContent, nil)
	shaped(t, s.want(200, "POST", shop+"/dead/retry", "").body, example(t, "retried"))
	s.untilIs(map[string]any{"dead": 0.0, "sent": 2.0})
	outcomes := s.want(200, "GET", shop+"/attempts", "").each(t, "attempts", "outcome")
	if !cmp.Equal(outcomes, []any{"sent", "failed", "sent"}) {
		t.Errorf("newest first: %v", outcomes)
	}
	if !cmp.Equal(c.ids, []string{"e-1", "e-2", "e-2"}) || c.headers[0].Get("Millrace-Subscription") != "shop" {
		t.Errorf("got %v with %v", c.ids, c.headers[0])
	}
	s.want(204, "DELETE", shop+"?if_empty=true", "")
}

func TestWhatIsPausedIsDroppedOrSentLater(t *testing.T) {
	s, c, body := pushing(t)
	s.want(201, "PUT", shop, body)
	for range 2 {
		s.want(204, "POST", shop+"/pause", "")
	}
	s.want(200, "POST", events, `{"id":"e-1","type":"a"}`)
	s.untilIs(map[string]any{"state": "paused", "queued": 1.0})
	ids := s.want(200, "GET", shop+"/batches", "").each(t, "batches", "id")
	path := fmt.Sprintf("%s/batches/%s", shop, ids[0])
	s.want(204, "DELETE", path, "")
	s.want(404, "DELETE", path, "")
	s.want(404, "POST", path+"/retry", "")
	shaped(t, s.want(200, "POST", shop+"/inject", example(t, "inject_in")).body, example(t, "injected"))
	s.untilIs(map[string]any{"queued": 2.0, "dropped": 1.0, "sent": 0.0})
	s.want(204, "POST", shop+"/resume", "{}")
	s.untilIs(map[string]any{"state": "active", "queued": 0.0, "sent": 2.0})
	if len(c.ids) != 2 {
		t.Errorf("got %v", c.ids)
	}
}

func TestABatchThatIsBeingSentCannotBeDropped(t *testing.T) {
	s, c, body := pushing(t)
	s.want(201, "PUT", shop, body)
	hold := make(chan struct{})
	c.says(http.StatusNoContent, hold)
	s.want(200, "POST", events, `{"type":"a"}`)
	pending := s.batchIn("pending")
	code, _ := s.want(409, "DELETE", shop+"/batches/"+pending, "").problem(t)
	close(hold)
	if code != "pending" {
		t.Error(code)
	}
	s.untilIs(map[string]any{"sent": 1.0})
}

func TestASubscriptionIsTestedAndGetsANewSecret(t *testing.T) {
	s, c, body := pushing(t)
	s.want(201, "PUT", shop, body)
	shaped(t, s.want(200, "POST", shop+"/test", "").body, example(t, "tested"), "at", "duration_ms", "node")
	c.says(http.StatusTeapot, nil)
	failed := s.want(200, "POST", shop+"/test", "{}").object(t)["attempt"].(map[string]any)
	if failed["outcome"] != "failed" || failed["status"] != 418.0 || failed["error"] != "status" {
		t.Error(failed)
	}
	s.untilIs(map[string]any{"sent": 0.0, "failed": 0.0})

	given := s.want(200, "POST", shop+"/rotate", example(t, "rotate_in"))
	shaped(t, given.body, example(t, "rotated"), "old_until")
	ends := s.want(200, "GET", shop, "").each(t, "secrets", "expires_at")
	if len(ends) != 2 || ends[0] != nil || ends[1] != given.object(t)["old_until"] {
		t.Errorf("the secrets end at %v", ends)
	}
	made := s.want(200, "POST", shop+"/rotate", "").object(t)["secret"].(string)
	if !strings.HasPrefix(made, "whsec_") || strings.Contains(given.body, made) {
		t.Errorf("made %s", made)
	}
}
