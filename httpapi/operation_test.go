package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	syncQueue   = "/v1/queues/sync"
	resync      = "/v1/triggers/resync"
	startSync   = `{"queue":"sync","type":"MANUAL","subject":"link:456","tenant":"u1","payload":{"link": {"id":456}, "token":"s3cret"}}`
	resyncDoes  = `{"operation":{"queue":"sync","type":"MANUAL","subject":"link:456","payload":{"by":"url"}},"per_minute":2}`
	publishDoes = `{"event":{"topic":"orders","type":"built"}}`
)

// tracked is a site with a tracked queue.
func tracked(t *testing.T) *site {
	t.Helper()
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", syncQueue, `{"match":":links:","tracked":true,"redact":["/token"],"retention":"1h"}`)
	return s
}

// start begins an operation and returns its id.
func (s *site) start(body string, header ...string) string {
	s.t.Helper()
	return s.want(202, "POST", "/v1/operations", body, header...).object(s.t)["id"].(string)
}

// leaseOperation leases a message of the tracked queue and returns it.
func (s *site) leaseOperation(header ...string) map[string]any {
	s.t.Helper()
	messages := s.want(200, "POST", syncQueue+"/lease", "{}", header...).object(s.t)["messages"].([]any)
	if len(messages) != 1 {
		s.t.Fatalf("leased %v", messages)
	}
	return messages[0].(map[string]any)
}

// running puts an operation that runs into a path and a body that speak of one.
func (s *site) running(t *testing.T, path, body string, header ...string) (string, string) {
	t.Helper()
	if !strings.Contains(path, "a-1") {
		return path, body
	}
	s.want(200, "POST", syncQueue+"/purge", "{}", header...)
	id := s.start(`{"queue":"sync","type":"MANUAL"}`, header...)
	return strings.Replace(path, "a-1", id, 1), strings.Replace(body, "q5J", s.leaseOperation(header...)["receipt"].(string), 1)
}

func (s *site) operationIs(id string, want map[string]any) map[string]any {
	s.t.Helper()
	got := s.want(200, "GET", "/v1/operations/"+id, "").object(s.t)
	for name, value := range want {
		if diff := cmp.Diff(value, got[name]); diff != "" {
			s.t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
	return got
}

func TestAnOperationRunsFromItsStartToItsOutput(t *testing.T) {
	s := tracked(t)
	g := s.want(202, "POST", "/v1/operations", startSync)
	id := g.object(t)["id"].(string)
	if at := g.header.Get("Location"); at != "/v1/operations/"+id || g.object(t)["url"] != at || g.object(t)["existing"] != any(false) {
		t.Errorf("at %q: %s", at, g.body)
	}
	s.operationIs(id, map[string]any{
		"status": "QUEUED", "queue": "sync", "tenant": "u1", "type": "MANUAL", "subject": "link:456", "attempts": 0.0, "started_at": nil, "finished_at": nil, "progress": nil,
		"output": nil, "error": nil, "expires_at": nil, "cancel_requested": false, "payload": map[string]any{"link": map[string]any{"id": 456.0}, "token": "[redacted]"},
	})
	m := s.leaseOperation()
	event := m["event"].(map[string]any)
	if _, chained := event["prev"]; m["operation"] != id || chained || event["key"] != "link:456" || event["topic"] != "sync" || event["data"].(map[string]any)["token"] != "s3cret" {
		t.Errorf("leased %v", m)
	}
	receipt := m["receipt"].(string)
	s.want(204, "POST", "/v1/operations/"+id+"/progress", `{"receipt":"`+receipt+`","percent":40,"note":"cloning"}`)
	s.operationIs(id, map[string]any{"status": "RUNNING", "attempts": 1.0, "progress": map[string]any{"percent": 40.0, "note": "cloning"}})
	s.want(200, "POST", syncQueue+"/ack", `{"receipts":["`+receipt+`"],"output":{"pr": 12}}`)
	done := s.operationIs(id, map[string]any{"status": "SUCCESS", "output": map[string]any{"pr": 12.0}})
	if done["finished_at"] == nil || done["expires_at"] == nil {
		t.Errorf("done %v", done)
	}
	if code, _ := s.want(409, "POST", "/v1/operations/"+id+"/progress", `{"receipt":"`+receipt+`","percent":41}`).problem(t); code != "lost" {
		t.Errorf("code %s", code)
	}
	if code, _ := s.want(409, "POST", "/v1/operations/"+id+"/cancel", "").problem(t); code != "finished" {
		t.Errorf("code %s", code)
	}
	counts := s.want(200, "GET", "/v1/operations/counts?queue=sync&since=1h", "").object(t)
	if n := len(counts["counts"].([]any)); n < 61 || n > 62 || counts["total"].(map[string]any)["success"] != 1.0 || counts["bucket"] != "1m" {
		t.Errorf("%d buckets, %v", n, counts["total"])
	}
}

func TestOperationsAreListedNewestFirstInPages(t *testing.T) {
	s := tracked(t)
	first, second := s.start(startSync), s.start(startSync)
	page := s.want(200, "GET", "/v1/operations?subject=link:456&tenant=u1&limit=1", "").object(t)
	if page["operations"].([]any)[0].(map[string]any)["id"] != second {
		t.Errorf("got %v", page)
	}
	rest := s.want(200, "GET", "/v1/operations?subject=link:456&tenant=u1&limit=1&cursor="+page["next"].(string), "")
	if ids := rest.each(t, "operations", "id"); !cmp.Equal(ids, []any{first}) {
		t.Errorf("then %v", ids)
	}
	s.want(200, "POST", "/v1/operations/"+first+"/cancel", "{}")
	if ids := s.want(200, "GET", "/v1/operations?queue=sync&status=CANCELLED", "").each(t, "operations", "id"); !cmp.Equal(ids, []any{first}) {
		t.Errorf("cancelled are %v", ids)
	}
	stats := s.want(200, "GET", "/v1/stats", "").object(t)["operations"]
	if diff := cmp.Diff(map[string]any{"queued": 1.0, "running": 0.0}, stats); diff != "" {
		t.Error(diff)
	}
}

func TestADedupeKeyFindsTheOperationThatIsOpen(t *testing.T) {
	s := tracked(t)
	body := `{"queue":"sync","type":"MANUAL","subject":"link:456","dedupe_key":"k"}`
	id := s.start(body)
	if g := s.want(202, "POST", "/v1/operations", body).object(t); g["id"] != id || g["existing"] != any(true) {
		t.Errorf("got %v", g)
	}
}

func TestARunningOperationThatIsCancelledIsToldAtTheNextExtend(t *testing.T) {
	s := tracked(t)
	id := s.start(startSync)
	receipt := s.leaseOperation()["receipt"].(string)
	if g := s.want(200, "POST", "/v1/operations/"+id+"/cancel", "").object(t); g["status"] != "RUNNING" || g["cancel_requested"] != any(true) {
		t.Errorf("got %v", g)
	}
	told := s.want(200, "POST", syncQueue+"/extend", `{"items":[{"receipt":"`+receipt+`","lease":"1m"}]}`).object(t)
	if diff := cmp.Diff([]any{receipt}, told["cancelled"]); diff != "" {
		t.Error(diff)
	}
}

func TestWhoeverWaitsForAnOperationIsAnsweredWhenItsStatusIsAnother(t *testing.T) {
	s := tracked(t)
	id := s.start(startSync)
	if g := s.want(200, "GET", "/v1/operations/"+id+"?wait=50ms&seen=QUEUED", "").object(t); g["status"] != "QUEUED" {
		t.Errorf("after the wait %v", g)
	}
	answered := make(chan map[string]any, 1)
	go func() {
		answered <- s.ask("GET", "/v1/operations/"+id+"?wait=60s&seen=QUEUED", "").object(t)
	}()
	s.leaseOperation()
	if g := <-answered; g["status"] != "RUNNING" {
		t.Errorf("answered %v", g)
	}
	if g := s.want(200, "GET", "/v1/operations/"+id+"?wait=60s&seen=SUCCESS", "").object(t); g["status"] != "RUNNING" {
		t.Errorf("at once %v", g)
	}
}

func TestAWatchShowsEachChangeAndEndsWithTheOperation(t *testing.T) {
	s := tracked(t)
	id := s.start(startSync)
	res, err := s.client.Get(s.url + "/v1/operations/" + id + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var seen bytes.Buffer
	until := func(text string) {
		t.Helper()
		for b := make([]byte, 4096); !strings.Contains(seen.String(), text); {
			n, err := res.Body.Read(b)
			seen.Write(b[:n])
			if err != nil && !strings.Contains(seen.String(), text) {
				t.Fatalf("%v before %q: %s", err, text, &seen)
			}
		}
	}
	until(`"status":"QUEUED"`)
	if !strings.HasPrefix(seen.String(), ": open\n\nevent: operation\ndata: {") {
		t.Errorf("begins %s", &seen)
	}
	receipt := s.leaseOperation()["receipt"].(string)
	until(`"status":"RUNNING"`)
	s.want(200, "POST", syncQueue+"/bury", `{"receipts":["`+receipt+`"],"error":"boom"}`)
	until(`"status":"ERROR"`)
	if _, err := seen.ReadFrom(res.Body); err != nil { // it ends
		t.Error(err)
	}
	s.want(404, "GET", "/v1/operations/nosuch/watch", "")
}

func TestOperationsNeedATrackedQueueAndAnIDThatIsKnown(t *testing.T) {
	s := tracked(t)
	s.want(201, "PUT", "/v1/queues/plain", `{"match":"x"}`)
	for _, path := range []string{"/v1/operations?queue=plain", "/v1/operations/counts?queue=plain"} {
		if code, _ := s.want(409, "GET", path, "").problem(t); code != "not_tracked" {
			t.Errorf("%s: %s", path, code)
		}
	}
	if code, _ := s.want(409, "POST", "/v1/operations", `{"queue":"plain","type":"x"}`).problem(t); code != "not_tracked" {
		t.Errorf("code %s", code)
	}
	s.want(404, "POST", "/v1/operations", `{"queue":"nowhere","type":"x"}`)
	id := s.start(startSync)
	wrong := id[:len(id)-2] + "AA"
	if wrong == id {
		wrong = id[:len(id)-2] + "BA"
	}
	s.want(404, "GET", "/v1/operations/"+wrong, "")
	s.want(404, "POST", "/v1/operations/"+wrong+"/cancel", "")
	s.want(405, "DELETE", "/v1/operations/"+id, "")
	if allow := s.want(405, "DELETE", "/v1/operations/counts", "").header.Get("Allow"); allow != "GET, HEAD, OPTIONS" {
		t.Errorf("allowed are %s", allow)
	}
}

func TestATriggerIsDefinedShownRotatedAndRemoved(t *testing.T) {
	s := tracked(t)
	made := s.want(201, "PUT", resync, resyncDoes)
	url, _ := made.object(t)["url"].(string)
	if !strings.HasPrefix(url, "/t/") || len(url) < 20 || made.header.Get("Location") != resync {
		t.Errorf("made %s", made.body)
	}
	for _, g := range []got{s.want(200, "PUT", resync, resyncDoes), s.want(200, "GET", resync, ""), s.want(200, "GET", "/v1/triggers", "")} {
		if strings.Contains(g.body, "/t/") || !strings.Contains(g.body, `"version":1,`) {
			t.Errorf("got %s", g.body)
		}
	}
	turned := s.want(200, "POST", resync+"/rotate", "").object(t)["url"].(string)
	s.want(404, "POST", url, "")
	s.want(202, "POST", turned, "")
	s.want(200, "PUT", resync, strings.Replace(resyncDoes, `"per_minute":2`, `"enabled":false`, 1))
	s.want(404, "POST", turned, "")
	s.want(204, "DELETE", resync, "")
	s.want(404, "GET", resync, "")
}

func TestACallOfATriggerBeginsAnOperationOrPublishes(t *testing.T) {
	s := tracked(t)
	url := s.want(201, "PUT", resync, resyncDoes).object(t)["url"].(string)
	g := s.want(202, "POST", url, `{"ref": "main"}`, "Content-Type", "text/plain")
	id := g.object(t)["operation"].(map[string]any)["id"].(string)
	if g.header.Get("Location") != "/v1/operations/"+id {
		t.Errorf("at %q", g.header.Get("Location"))
	}
	s.operationIs(id, map[string]any{"payload": map[string]any{"by": "url", "request": map[string]any{"ref": "main"}}, "subject": "link:456"})
	if code, _ := s.want(400, "POST", url, "a=1&b=2", "Content-Type", "application/x-www-form-urlencoded").problem(t); code != "malformed" {
		t.Errorf("code %s", code)
	}
	accepted := 1.0
	for s.ask("POST", url, "").status == 202 { // whatever minute it is
		if accepted++; accepted > 10 {
			t.Fatal("it is never refused")
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		s.want(405, method, url, "")
	}
	if fired := s.want(200, "GET", resync, "").object(t)["fired"]; fired != accepted {
		t.Errorf("fired %v times", fired)
	}
	s.want(201, "PUT", "/v1/queues/emails", `{"match":":orders:"}`)
	url = s.want(201, "PUT", "/v1/triggers/built", publishDoes).object(t)["url"].(string)
	event := s.want(202, "POST", url, "[1, 2]").object(t)["event"].(map[string]any)
	if event["sinks"] != 1.0 || event["duplicate"] != any(false) {
		t.Errorf("published %v", event)
	}
	if code, faults := s.want(422, "POST", url, `"`+strings.Repeat("x", 300<<10)+`"`).problem(t); code != "invalid" || !strings.HasPrefix(faults[0], "body ") {
		t.Errorf("%s %v", code, faults)
	}
}

func TestATriggersURLNeedsNoTokenAndIsNeverLogged(t *testing.T) {
	log := make(lines, 100)
	s := newSite(t, openBroker(t), Options{RootToken: token, Logger: jsonLog(log, slog.LevelDebug)})
	auth := []string{"Authorization", "Bearer " + token}
	url := s.want(201, "PUT", "/v1/triggers/built", publishDoes, auth...).object(t)["url"].(string)
	log.next(t)
	for _, c := range []struct {
		status                    int
		method, path, body, route string
	}{
		{202, "POST", url, "{}", "POST /t/{secret}"}, {405, "GET", url, "", unknownRoute},
		{404, "POST", url + "x", "{}", "POST /t/{secret}"}, {400, "POST", url, "{", "POST /t/{secret}"},
	} {
		s.want(c.status, c.method, c.path, c.body)
		line := log.next(t)
		if line["route"] != c.route || strings.Contains(fmt.Sprint(line), strings.TrimPrefix(url, "/t/")) {
			t.Errorf("logged %v", line)
		}
	}
}
