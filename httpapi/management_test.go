package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// counts is what a queue holds: ready, leased, delayed, dead.
func (s *site) counts(queue string) [4]float64 {
	s.t.Helper()
	c := s.want(200, "GET", "/v1/queues/"+queue, "").object(s.t)["counts"].(map[string]any)
	return [4]float64{c["ready"].(float64), c["leased"].(float64), c["delayed"].(float64), c["dead"].(float64)}
}

func (s *site) wantCounts(queue string, want ...float64) {
	s.t.Helper()
	if got := s.counts(queue); got != [4]float64(want) {
		s.t.Errorf("%s holds %v, want %v", queue, got, want)
	}
}

// each is a member of every element of a list in an answer.
func (g got) each(t *testing.T, list, member string) []any {
	t.Helper()
	values := []any{}
	for _, item := range g.object(t)[list].([]any) {
		values = append(values, item.(map[string]any)[member])
	}
	return values
}

// killed publishes events of tenants and buries them.
func (s *site) killed(tenants ...string) {
	s.t.Helper()
	for _, tenant := range tenants {
		s.want(200, "POST", events, `{"type":"a","tenant":"`+tenant+`","data":1}`)
	}
	for range tenants {
		receipt := receiptOf(s.t, s.want(200, "POST", emails+"/lease", ""))
		s.want(200, "POST", emails+"/bury", `{"receipts":["`+receipt+`"],"error":"boom"}`)
	}
}

func TestADelayedEventIsShownAndTakenBack(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:"}`)
	body := `{"id":"a:1/b","type":"created","tenant":"acme","key":"order:7","time":"2026-11-15T01:13:00Z","data":{"n":1},"attributes":{"source":"/shop"},"delay":"1h"}`
	first := s.want(200, "POST", events, body)
	shaped(t, first.body, `{"events":[{"id":"a:1/b","due_at":"2026-11-15T01:13:00.000Z","duplicate":false}],"durability":"memory"}`, "due_at")
	again := s.want(200, "POST", events, body)
	if want := strings.Replace(first.body, "false", "true", 1); again.body != want {
		t.Errorf("got %s, want %s", again.body, want)
	}

	path := "/v1/events/a%3A1%2Fb?tenant=acme"
	want := strings.Replace(example(t, "delayed"), "01K0A3M8Z6", "a:1/b", 1)
	shaped(t, s.want(200, "GET", path, "").body, want, "due_at")
	s.want(404, "GET", "/v1/events/a%3A1%2Fb", "")
	if n := s.want(200, "GET", "/v1/stats", "").object(t)["delayed"]; n != 1.0 {
		t.Errorf("%v events are delayed", n)
	}
	s.want(204, "DELETE", path, "")
	s.want(404, "DELETE", path, "")
	s.want(404, "GET", path, "")
	s.wantCounts("emails", 0, 0, 0, 0)
}

func TestADelayedEventComesWhenItIsDue(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:"}`)
	s.want(200, "POST", events, `{"id":"soon","type":"created","delay":"50ms"}`)
	s.want(200, "POST", events, `{"id":"then","type":"created","deliver_at":"`+time.Now().Add(60*time.Millisecond).Format(time.RFC3339Nano)+`"}`)
	past := s.want(200, "POST", events, `{"id":"past","type":"created","deliver_at":"2020-01-01T00:00:00Z"}`)
	if !strings.Contains(past.body, `"sinks":1`) {
		t.Error(past.body)
	}
	for range 3 {
		leased := s.want(200, "POST", emails+"/lease", `{"wait":"10s"}`)
		receiptOf(t, leased)
	}
	s.want(404, "GET", "/v1/events/soon", "")
	s.wantCounts("emails", 0, 3, 0, 0)
}

func TestARouteIsADryRun(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:"}`)
	s.want(201, "PUT", "/v1/queues/other", `{"match":":bills:"}`)
	shaped(t, s.want(200, "GET", "/v1/route?tenant=acme&topic=orders&type=created", "").body, example(t, "route"))
	shaped(t, s.want(200, "GET", "/v1/route?topic=nothing&type=x", "").body, `{"address":"default:nothing:x","sinks":[]}`)
	s.want(204, "POST", emails+"/pause", "")
	shaped(t, s.want(200, "GET", "/v1/route?tenant=acme&topic=orders&type=created", "").body, strings.Replace(example(t, "route"), "active", "paused", 1))
	if n := s.published(); n != 0 {
		t.Errorf("%v events are stored", n)
	}
}

func TestAPausedQueueAnswersAtOnceWithNothing(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	s.want(200, "POST", events, `{"type":"a"}`)
	for _, body := range []string{"", "{}"} {
		s.want(204, "POST", emails+"/pause", body)
	}
	if state := s.want(200, "GET", emails, "").object(t)["state"]; state != "paused" {
		t.Error(state)
	}
	start := time.Now()
	shaped(t, s.want(200, "POST", emails+"/lease", `{"wait":"20s"}`).body, example(t, "lease_out_empty"))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("answered after %s", took)
	}
	for range 2 {
		s.want(204, "POST", emails+"/resume", "")
	}
	receiptOf(t, s.want(200, "POST", emails+"/lease", `{"wait":"5s"}`))
}

func TestAnOrderedQueueStaysOrderedAndIsNotForAtMostOnce(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	created := s.want(201, "PUT", emails, `{"match":":orders:","ordered":true,"tenant_limit":5,"max_length":1000,"dead_retention":"7d"}`)
	want := strings.NewReplacer(`"version":2`, `"version":1`, `"state":"paused"`, `"state":"active"`).Replace(example(t, "queue_out_paused"))
	shaped(t, created.body, want)
	if code, _ := s.want(409, "PUT", emails, `{"match":":orders:"}`).problem(t); code != "immutable" {
		t.Error(code)
	}
	code, faults := s.want(422, "POST", emails+"/lease", `{"lease":"0s"}`).problem(t)
	if code != "invalid" || len(faults) != 1 || !strings.HasPrefix(faults[0], "body.lease ") {
		t.Error(code, faults)
	}
}

func TestOfOneKeyOneMessageIsInFlight(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:","ordered":true}`)
	s.want(200, "POST", events, `[{"id":"k1","type":"a","key":"k"},{"id":"k2","type":"a","key":"k"},{"id":"l1","type":"a","key":"l"}]`)
	leased := s.want(200, "POST", emails+"/lease", `{"max":10}`)
	if n := len(leased.each(t, "messages", "id")); n != 2 {
		t.Errorf("%d are in flight", n)
	}
}

func TestAMessageGivenAtMostOnceIsGone(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:"}`)
	s.want(200, "POST", events, example(t, "publish_in"))
	want := strings.NewReplacer(`{"id":"01K0A3M8Z6"`, `{"id":"a-1"`, `{"source":"/shop"}`, `{}`, `"prev":38`, `"prev":0`).Replace(example(t, "lease_once_out"))
	shaped(t, s.want(200, "POST", emails+"/lease", example(t, "lease_once_in")).body, want, "id", "recorded_at", "seq")
	s.wantCounts("emails", 0, 0, 0, 0)
}

func TestALeaseOverSeveralQueuesSaysWhichItIsOf(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:"}`)
	s.want(201, "PUT", "/v1/queues/sms", `{"match":":texts:"}`)
	shaped(t, s.want(200, "POST", "/v1/lease", example(t, "lease_any_in")).body, example(t, "lease_out_empty"))
	s.want(200, "POST", events, `{"type":"a"}`)
	s.want(200, "POST", "/v1/topics/texts/events", `{"type":"a"}`)
	queues := map[any]bool{}
	for range 2 {
		for _, queue := range s.want(200, "POST", "/v1/lease", `{"queues":{"emails":10,"sms":1},"wait":"5s"}`).each(t, "messages", "queue") {
			queues[queue] = true
		}
	}
	if !queues["emails"] || !queues["sms"] {
		t.Error(queues)
	}
}

func TestAConsumerTakesBackWhatItHeld(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	s.want(200, "POST", events, `[{"type":"a"},{"type":"a"},{"type":"a"}]`)
	s.want(200, "POST", emails+"/lease", `{"max":2,"consumer":"w-1"}`)
	s.want(200, "POST", emails+"/lease", `{"consumer":"w-2"}`)
	shaped(t, s.want(200, "POST", emails+"/release", example(t, "release_in")).body, example(t, "released"))
	s.wantCounts("emails", 2, 1, 0, 0)
	shaped(t, s.want(200, "POST", emails+"/release", example(t, "release_in")).body, `{"released":0}`)
}

func TestDeadLettersAreListedRedrivenAndRemoved(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	s.killed("acme", "acme", "bolt", "acme")
	s.wantCounts("emails", 0, 0, 0, 4)

	page := s.want(200, "GET", emails+"/dead?limit=1", "")
	want := `{"messages":[{"id":"01K0C","attempts":1,"reason":"buried","error":"boom","dead_at":"2026-11-15T01:13:00.000Z","event":{"id":"a-1","topic":"orders","type":"a","tenant":"acme",` +
		`"time":"2026-11-15T01:13:00.000Z","recorded_at":"2026-11-15T01:13:00.120Z","content_type":"application/json","data":1,"attributes":{},"seq":1}}],"next":"c2"}`
	shaped(t, page.body, want, "id", "dead_at", "time", "recorded_at", "seq", "next")
	all := s.want(200, "GET", emails+"/dead", "")
	ids := all.each(t, "messages", "id")
	second := s.want(200, "GET", emails+"/dead?limit=3&cursor="+page.object(t)["next"].(string), "")
	if diff := cmp.Diff(ids[1:], second.each(t, "messages", "id")); len(ids) != 4 || diff != "" {
		t.Errorf("%v: %s", ids, diff)
	}
	if n := len(s.want(200, "GET", emails+"/dead?tenant=bolt", "").each(t, "messages", "id")); n != 1 {
		t.Errorf("bolt has %d", n)
	}

	shaped(t, s.want(200, "POST", emails+"/dead/redrive", fmt.Sprintf(`{"ids":[%q]}`, ids[0])).body, `{"redriven":1,"remaining":0}`)
	peeked := s.want(200, "GET", emails+"/peek", "")
	shaped(t, peeked.body, strings.NewReplacer(`"attempts":1`, `"attempts":0`, `"buried"`, `null`, `"boom"`, `null`, `"dead_at":"2026-11-15T01:13:00.000Z"`, `"dead_at":null`, `,"next":"c2"`, ``).Replace(want),
		"id", "time", "recorded_at", "seq")
	if id := peeked.each(t, "messages", "id")[0]; id != ids[0] {
		t.Errorf("the message has another id: %s, it was %s", id, ids[0])
	}
	s.want(404, "POST", emails+"/dead/redrive", fmt.Sprintf(`{"ids":[%q]}`, ids[0]))
	s.want(404, "POST", emails+"/dead/redrive", `{"ids":["nonsense"]}`)

	s.want(204, "DELETE", fmt.Sprintf("%s/dead/%s", emails, ids[1]), "")
	s.want(404, "DELETE", fmt.Sprintf("%s/dead/%s", emails, ids[1]), "")
	shaped(t, s.want(200, "DELETE", emails+"/dead?tenant=bolt", "").body, `{"purged":1,"remaining":0}`)
	shaped(t, s.want(200, "POST", emails+"/dead/redrive", `{"all":true,"tenant":"acme"}`).body, `{"redriven":1,"remaining":0}`)
	shaped(t, s.want(200, "DELETE", emails+"/dead", "").body, `{"purged":0,"remaining":0}`)
	s.wantCounts("emails", 2, 0, 0, 0)
}

func TestAPurgeRemovesWhatWaitsAndNotWhatIsLeased(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	s.want(200, "POST", events, `[{"type":"a","tenant":"acme"},{"type":"a","tenant":"acme"},{"type":"a","tenant":"bolt"},{"type":"a","tenant":"bolt"}]`)
	s.want(200, "POST", emails+"/lease", ``)
	shaped(t, s.want(200, "POST", emails+"/purge", example(t, "purge_in")).body, `{"purged":1,"remaining":0}`)
	s.wantCounts("emails", 2, 1, 0, 0)
	shaped(t, s.want(200, "POST", emails+"/purge", "").body, `{"purged":2,"remaining":0}`)
	s.wantCounts("emails", 0, 1, 0, 0)
	if n := s.want(200, "GET", emails, "").object(t)["dropped"]; n != 3.0 {
		t.Errorf("%v are counted as dropped", n)
	}
}

func TestTenantsAreListedDeepestFirstAndHaveTheirSettings(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":".","tenant_limit":9}`)
	s.want(200, "POST", events, `[{"type":"a","tenant":"acme"},{"type":"a","tenant":"bolt"},{"type":"a","tenant":"bolt"}]`)
	first := s.want(200, "GET", emails+"/tenants?limit=1", "")
	shaped(t, first.body, `{"tenants":[{"tenant":"bolt","ready":2,"leased":0,"delayed":0,"dead":0,"weight":1,"limit":9,"oldest":"2026-11-15T01:13:00.000Z"}],"next":"c"}`, "oldest", "next")
	second := s.want(200, "GET", emails+"/tenants?cursor="+first.object(t)["next"].(string), "")
	if diff := cmp.Diff([]any{"acme"}, second.each(t, "tenants", "tenant")); diff != "" {
		t.Error(diff)
	}

	one := `{"tenant":"acme","ready":1,"leased":0,"delayed":0,"dead":0,"weight":2,"limit":0,"oldest":"2026-11-15T01:13:00.000Z"}`
	shaped(t, s.want(200, "PUT", emails+"/tenants/acme", example(t, "tenant_in")).body, one, "oldest")
	shaped(t, s.want(200, "GET", emails+"/tenants/acme", "").body, one, "oldest")
	paused := strings.Replace(one, `"weight":2,"limit":0`, `"weight":0,"limit":9`, 1)
	shaped(t, s.want(200, "PUT", emails+"/tenants/acme", example(t, "tenant_in_weight")).body, paused, "oldest")
	leased := s.want(200, "POST", emails+"/lease", `{"max":10}`)
	if n := len(leased.each(t, "messages", "id")); n != 2 {
		t.Errorf("leased %d while acme is paused", n)
	}
	s.want(204, "DELETE", emails+"/tenants/acme", "")
	receiptOf(t, s.want(200, "POST", emails+"/lease", `{"wait":"5s"}`))
	shaped(t, s.want(200, "GET", emails+"/tenants/idle", "").body, strings.Replace(example(t, "tenant"), `"limit":0`, `"limit":9`, 1))
}

func TestInjectedEventsKeepWhatTheyHave(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"nothing-else"}`)
	shaped(t, s.want(200, "POST", emails+"/inject", example(t, "inject_in")).body, example(t, "injected"))
	leased := s.want(200, "POST", emails+"/lease", `{"max":2}`)
	for _, event := range []string{example(t, "event"), `"seq":42`} {
		if !strings.Contains(leased.body, event) {
			t.Errorf("%s is not in %s", event, leased.body)
		}
	}
	if n := s.published(); n != 0 {
		t.Errorf("%v events count as published", n)
	}
}

func TestAFullQueueRefusesTheWholePublishAndIsNamed(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":":orders:","max_length":1}`)
	s.want(201, "PUT", "/v1/queues/all", `{"match":"."}`)
	s.want(200, "POST", events, `{"type":"a"}`)
	g := s.want(429, "POST", events, `{"type":"a"}`)
	if code, _ := g.problem(t); code != "full" || !strings.Contains(g.body, `"sink":"emails"`) || g.header.Get("Retry-After") == "" {
		t.Error(g.body)
	}
	s.wantCounts("all", 1, 0, 0, 0)
	s.want(200, "POST", events, `{"type":"a","tenant":"bolt"}`)
	s.want(200, "PUT", emails, `{"match":":orders:","max_length":1,"overflow":"drop_oldest"}`)
	s.want(200, "POST", events, `{"id":"newest","type":"a"}`)
	peeked := s.want(200, "GET", emails+"/peek?tenant=default", "")
	if !strings.Contains(peeked.body, `"newest"`) || len(peeked.each(t, "messages", "id")) != 1 {
		t.Error(peeked.body)
	}
}
