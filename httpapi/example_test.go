package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shaped compares an answer with an example: the same members everywhere, and
// the same values except those of the members named, which only have the same kind.
func shaped(t *testing.T, answer, example string, free ...string) {
	t.Helper()
	var a, e any
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if err := json.Unmarshal([]byte(example), &e); err != nil {
		t.Fatal(err)
	}
	loosen(a, free)
	loosen(e, free)
	if diff := cmp.Diff(e, a); diff != "" {
		t.Errorf("differs from the example (-want +got):\n%s", diff)
	}
}

// loosen replaces the values of the named members by their kind.
func loosen(v any, free []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			for _, f := range free {
				if name == f {
					v[name] = kindOf(member)
				}
			}
			loosen(v[name], free)
		}
	case []any:
		for _, element := range v {
			loosen(element, free)
		}
	}
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", v); err == nil {
			return "a time"
		}
		return "a text"
	case float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "something else"
}

func TestTheExamplesAreAnsweredAsWritten(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	define := strings.Replace(example(t, "queue_in"), ":email_event:", ":orders:", 1)

	created := s.want(201, "PUT", "/v1/queues/emails", define)
	if got := created.header.Get("Location"); got != "/v1/queues/emails" {
		t.Errorf("Location %q", got)
	}
	queue := strings.Replace(example(t, "queue_out"), ":email_event:", ":orders:", 1)
	empty := strings.NewReplacer(`"version":3`, `"version":1`, `"ready":12,"leased":3,"delayed":1`, `"ready":0,"leased":0,"delayed":0`,
		`"tenants":4`, `"tenants":0`, `"2026-11-15T01:13:00.000Z"`, `null`, `"success":5,"error":2`, `"success":0,"error":0`).Replace(queue)
	shaped(t, created.body, empty)
	shaped(t, s.want(200, "PUT", "/v1/queues/emails", define).body, empty)
	shaped(t, s.want(200, "GET", "/v1/queues/emails", "").body, empty)

	published := s.want(200, "POST", "/v1/topics/orders/events", example(t, "publish_in"))
	shaped(t, published.body, `{"events":[{"id":"a-1","seq":1,"prev":0,"duplicate":false,"sinks":1}],"durability":"memory"}`, "seq")
	again := s.want(200, "POST", "/v1/topics/orders/events", example(t, "publish_in"))
	if want := strings.Replace(published.body, `"duplicate":false`, `"duplicate":true`, 1); again.body != want {
		t.Errorf("got %s, want %s", again.body, want)
	}

	full := s.want(200, "GET", "/v1/queues/emails", "")
	shaped(t, full.body, strings.NewReplacer(`"ready":0`, `"ready":1`, `"tenants":0`, `"tenants":1`, `"oldest":null`, `"oldest":"2026-11-15T01:13:00.000Z"`).Replace(empty), "oldest")

	leased := s.want(200, "POST", "/v1/queues/emails/lease", example(t, "lease_in"))
	want := strings.NewReplacer(`{"id":"01K0A3M8Z6"`, `{"id":"a-1"`, `{"source":"/shop"}`, `{}`, `"prev":38`, `"prev":0`, `"operation":"Zt8",`, ``).Replace(example(t, "lease_out"))
	shaped(t, strings.Replace(leased.body, `"event":{"id":"a-1"`, `"event":{"eid":"a-1"`, 1), strings.Replace(want, `"event":{"id":"a-1"`, `"event":{"eid":"a-1"`, 1),
		"id", "receipt", "leased_until", "recorded_at", "seq")
	shaped(t, s.want(200, "POST", "/v1/queues/emails/lease", "").body, example(t, "lease_out_empty"))

	receipt := receiptOf(t, leased)
	extended := s.want(200, "POST", "/v1/queues/emails/extend", strings.NewReplacer("q5J", receipt, `,"q6K"`, "").Replace(example(t, "extend_in")))
	shaped(t, extended.body, strings.Replace(example(t, "extended"), `"q5J"`, ``, 1), "leased_until")

	retry := strings.Replace(example(t, "retry_in"), "q5J", receipt, 1)
	shaped(t, s.want(200, "POST", "/v1/queues/emails/retry", strings.Replace(retry, "10s", "0s", 1)).body, example(t, "settled"))

	receipt = receiptOf(t, s.want(200, "POST", "/v1/queues/emails/lease", `{"max":5,"wait":"5s"}`))
	acked := s.want(200, "POST", "/v1/queues/emails/ack", strings.Replace(example(t, "ack_in"), "q5J", receipt, 1))
	shaped(t, acked.body, `{"settled":1,"lost":[],"dead":0}`)
	twice := s.want(200, "POST", "/v1/queues/emails/ack", strings.Replace(example(t, "ack_in"), "q5J", receipt, 1))
	shaped(t, twice.body, `{"settled":0,"lost":["`+receipt+`"],"dead":0}`)

	topic := strings.NewReplacer(`1024`, `1`, `"publisher":"shop"`, `"publisher":null`).Replace(example(t, "topic"))
	s.want(201, "PUT", shop, quietSubscription)
	shaped(t, s.want(200, "GET", "/v1/topics/orders", "").body, topic, "last_event_at")
	shaped(t, s.want(200, "GET", "/v1/topics", "").body, `{"topics":[`+topic+`]}`, "last_event_at")
	shaped(t, s.want(200, "PUT", "/v1/topics/orders", example(t, "topic_in")).body, strings.Replace(topic, "null", `"shop"`, 1), "last_event_at")
	shaped(t, s.want(200, "PUT", "/v1/topics/orders", example(t, "topic_in_free")).body, topic, "last_event_at")
	s.want(204, "DELETE", "/v1/topics/orders", "")
	s.want(404, "GET", "/v1/topics/orders", "")
	s.want(204, "DELETE", shop+"?if_empty=true", "")

	shaped(t, s.want(200, "GET", "/v1/nodes", "").body, example(t, "nodes"), "id", "host", "version", "started_at", "seen_at")
	stats := strings.NewReplacer(`"durability":"durable"`, `"durability":"memory"`, `"published":10`, `"published":1`, `"duplicates":0`, `"duplicates":1`,
		`"ready":12,"leased":3,"delayed":1`, `"ready":0,"leased":0,"delayed":0`).Replace(example(t, "stats"))
	shaped(t, s.want(200, "GET", "/v1/stats", "").body, stats, "bytes")
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/livez?verbose", "/readyz?verbose=false", "/readyz?fresh=7"} {
		shaped(t, s.want(200, "GET", path, "").body, example(t, "health"))
	}
	verbose := strings.TrimSuffix(stats, "}") + `,"ok":true,"checks":[{"name":"store","ok":true,"detail":""},` +
		`{"name":"durability","ok":true,"detail":"memory: everything ends with the process; use embedded:DIR for what must stay"},{"name":"clock","ok":true,"detail":""}]}`
	for _, path := range []string{"/readyz?verbose", "/healthz?verbose=true"} {
		shaped(t, s.want(200, "GET", path, "").body, verbose, "bytes")
	}

	s.want(204, "DELETE", "/v1/queues/emails?if_empty=true", "")
	s.want(404, "DELETE", "/v1/queues/emails", "")
}

// receiptOf is the receipt of the first message that was leased.
func receiptOf(t *testing.T, g got) string {
	t.Helper()
	messages := g.object(t)["messages"].([]any)
	if len(messages) == 0 {
		t.Fatal("no message was leased")
	}
	return messages[0].(map[string]any)["receipt"].(string)
}

func TestBuriedMessagesAreDeadAndAQueueThatHoldsThemIsNotEmpty(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/emails", `{"match":":orders:"}`)
	s.want(200, "POST", "/v1/topics/orders/events", `[{"type":"a"},{"type":"a"}]`)
	receipt := receiptOf(t, s.want(200, "POST", "/v1/queues/emails/lease", `{"max":1}`))
	shaped(t, s.want(200, "POST", "/v1/queues/emails/bury", `{"receipts":["`+receipt+`"],"error":"broken"}`).body, `{"settled":1,"lost":[],"dead":0}`)
	counts := s.want(200, "GET", "/v1/queues/emails", "").object(t)["counts"]
	if diff := cmp.Diff(map[string]any{"ready": 1.0, "leased": 0.0, "delayed": 0.0, "dead": 1.0}, counts); diff != "" {
		t.Error(diff)
	}
	if code, _ := s.want(409, "DELETE", "/v1/queues/emails?if_empty=true", "").problem(t); code != "not_empty" {
		t.Error(code)
	}
	s.want(204, "DELETE", "/v1/queues/emails", "")
}

func TestListsComeInPages(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, name := range []string{"c", "a", "b"} {
		s.want(201, "PUT", "/v1/queues/"+name, `{"match":":`+name+`:"}`)
		s.want(200, "POST", "/v1/topics/"+name+"/events", `{"type":"x"}`)
	}
	for _, noun := range []string{"queues", "topics"} {
		names, path := []string{}, "/v1/"+noun+"?limit=2"
		for range 3 {
			page := s.want(200, "GET", path, "").object(t)
			for _, item := range page[noun].([]any) {
				names = append(names, item.(map[string]any)["name"].(string))
			}
			next, more := page["next"].(string)
			if !more {
				break
			}
			path = "/v1/" + noun + "?limit=2&cursor=" + next
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
			t.Errorf("%s: %s", noun, diff)
		}
	}
}

func TestTheIdempotencyKeyMakesAPublishSafeToRepeat(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	body := `[{"type":"a"},{"type":"b"}]`
	first := s.want(200, "POST", "/v1/topics/orders/events", body, "Idempotency-Key", "K")
	second := s.want(200, "POST", "/v1/topics/orders/events", body, "Idempotency-Key", "K")
	if want := strings.ReplaceAll(first.body, `"duplicate":false`, `"duplicate":true`); second.body != want || !strings.Contains(first.body, `"id":"K.1"`) {
		t.Errorf("first %s, second %s", first.body, second.body)
	}
	if n := s.published(); n != 2 {
		t.Errorf("%v events are stored", n)
	}
}
