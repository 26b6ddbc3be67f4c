package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// example is a golden file of the wire.
func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "api", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// canned is a server that gives one answer and notes what it was asked.
type canned struct {
	mu     sync.Mutex
	asked  []string
	status int
	body   string
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	w.WriteHeader(c.status)
	_, _ = io.WriteString(w, c.body)
}

func serveCanned(t *testing.T, status int, body string) (*canned, string) {
	t.Helper()
	c := &canned{status: status, body: body}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL
}

func TestEveryCommandAsksTheWireAndPrintsWhatItSays(t *testing.T) {
	for _, k := range []struct {
		line, asks, answer string // answer is a golden file; none: 204
		stdin              string
	}{
		{line: "queue create emails --match :email_event:", asks: "PUT /v1/queues/emails " + example(t, "queue_in"), answer: "queue_out"},
		{line: "queue create emails --match :orders: --ordered --tenant-limit 5 --max-length 1000 --dead-retention 7d", asks: "PUT /v1/queues/emails " + example(t, "queue_in_ordered"), answer: "queue_out_paused"},
		{line: "queue create emails --match x --ordered --on-exhausted dead --overflow reject", answer: "queue_out",
			asks: "PUT /v1/queues/emails " + strings.NewReplacer(`":email_event:"`, `"x"`, `"ordered":false`, `"ordered":true`).Replace(example(t, "queue_in"))},
		{line: "queue list --limit 7 --cursor YzI", asks: "GET /v1/queues?cursor=YzI&limit=7", answer: "queues"},
		{line: "queue show emails", asks: "GET /v1/queues/emails", answer: "queue_out"},
		{line: "queue delete emails --yes", asks: "DELETE /v1/queues/emails"},
		{line: "queue delete emails --if-empty", asks: "DELETE /v1/queues/emails?if_empty=true"},
		{line: "queue pause emails", asks: "POST /v1/queues/emails/pause"},
		{line: "queue resume emails", asks: "POST /v1/queues/emails/resume"},

		{line: "queue lease emails --max 1 --lease 30s --consumer w-1", asks: `POST /v1/queues/emails/lease {"max":1,"lease":"30s","consumer":"w-1"}`, answer: "lease_out"},
		{line: "queue lease emails --at-most-once", asks: `POST /v1/queues/emails/lease {"max":1,"lease":"0s"}`, answer: "lease_once_out"},
		{line: "queue lease emails=10 sms --lease 30s --consumer w-1", asks: "POST /v1/lease " + example(t, "lease_any_in"), answer: "lease_out"},
		{line: "queue ack emails q5J q6K", asks: `POST /v1/queues/emails/ack {"items":[{"receipt":"q5J"},{"receipt":"q6K"}]}`, answer: "settled"},
		{line: "queue retry emails q5J --delay 10s --error boom", asks: `POST /v1/queues/emails/retry {"items":[{"receipt":"q5J","delay":"10s","error":"boom"}]}`, answer: "settled"},
		{line: "queue retry emails q5J", asks: `POST /v1/queues/emails/retry {"items":[{"receipt":"q5J"}]}`, answer: "settled"},
		{line: "queue retry emails q5J --delay 0s", asks: `POST /v1/queues/emails/retry {"items":[{"receipt":"q5J","delay":"0s"}]}`, answer: "settled"},
		{line: "queue bury emails q5J --error boom", asks: `POST /v1/queues/emails/bury {"items":[{"receipt":"q5J","error":"boom"}]}`, answer: "settled"},
		{line: "queue extend emails q5J q6K --lease 1m", asks: "POST /v1/queues/emails/extend " + example(t, "extend_in"), answer: "extended"},
		{line: "queue release emails --consumer w-1", asks: "POST /v1/queues/emails/release " + example(t, "release_in"), answer: "released"},

		{line: "queue peek emails --tenant acme --limit 5", asks: "GET /v1/queues/emails/peek?limit=5&tenant=acme", answer: "peek"},
		{line: "queue dead emails --tenant acme --limit 1 --cursor YzI", asks: "GET /v1/queues/emails/dead?cursor=YzI&limit=1&tenant=acme", answer: "dead"},
		{line: "queue redrive emails 01K0C", asks: "POST /v1/queues/emails/dead/redrive " + example(t, "redrive_in"), answer: "redriven"},
		{line: "queue purge emails --tenant acme --yes", asks: "POST /v1/queues/emails/purge " + example(t, "purge_in"), answer: "purged"},
		{line: "queue purge emails --yes", asks: "POST /v1/queues/emails/purge {}", answer: "purged"},
		{line: "queue tenants emails --limit 5", asks: "GET /v1/queues/emails/tenants?limit=5", answer: "tenants"},
		{line: "queue weight emails idle", asks: "GET /v1/queues/emails/tenants/idle", answer: "tenant"},
		{line: "queue weight emails idle --weight 2 --limit 0", asks: "PUT /v1/queues/emails/tenants/idle " + example(t, "tenant_in"), answer: "tenant"},
		{line: "queue weight emails idle --weight 0", asks: "PUT /v1/queues/emails/tenants/idle " + example(t, "tenant_in_weight"), answer: "tenant"},
		{line: "queue inject emails", asks: "POST /v1/queues/emails/inject " + example(t, "inject_in"), answer: "injected", stdin: example(t, "inject_in")},

		{line: "subscription create shop --callback https://shop.example/hook --topic orders --uuid u-1 --secret whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
			asks: "PUT /v1/subscriptions/shop " + example(t, "subscription_in"), answer: "subscription_out"},
		{line: "subscription create shop --callback https://shop.example/hook --match :orders:", asks: "PUT /v1/subscriptions/shop " + example(t, "subscription_in_match"), answer: "subscription_made"},
		{line: "subscription list --limit 7 --cursor YzI", asks: "GET /v1/subscriptions?cursor=YzI&limit=7", answer: "subscriptions"},
		{line: "subscription show shop", asks: "GET /v1/subscriptions/shop", answer: "subscription_out"},
		{line: "subscription delete shop --if-empty", asks: "DELETE /v1/subscriptions/shop?if_empty=true"},
		{line: "subscription pause shop", asks: "POST /v1/subscriptions/shop/pause"},
		{line: "subscription resume shop", asks: "POST /v1/subscriptions/shop/resume"},
		{line: "subscription test shop", asks: "POST /v1/subscriptions/shop/test", answer: "tested"},
		{line: "subscription rotate shop --overlap 1h --secret whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", asks: "POST /v1/subscriptions/shop/rotate " + example(t, "rotate_in"), answer: "rotated"},
		{line: "subscription batches shop --state dead --limit 5", asks: "GET /v1/subscriptions/shop/batches?limit=5&state=dead", answer: "batches"},
		{line: "subscription batch shop 01K0B", asks: "GET /v1/subscriptions/shop/batches/01K0B", answer: "batch"},
		{line: "subscription attempts shop --batch 01K0B --event a-1", asks: "GET /v1/subscriptions/shop/attempts?batch=01K0B&event=a-1", answer: "attempts"},
		{line: "subscription retry shop 01K0B", asks: "POST /v1/subscriptions/shop/batches/01K0B/retry", answer: "retried"},
		{line: "subscription retry shop --dead", asks: "POST /v1/subscriptions/shop/dead/retry", answer: "retried"},
		{line: "subscription drop shop 01K0B", asks: "DELETE /v1/subscriptions/shop/batches/01K0B"},
		{line: "subscription inject shop", asks: "POST /v1/subscriptions/shop/inject " + example(t, "inject_in"), answer: "injected", stdin: example(t, "inject_in")},

		{line: "event show a:1/b --tenant acme", asks: "GET /v1/events/a:1%2Fb?tenant=acme", answer: "delayed"},
		{line: "event cancel a-1", asks: "DELETE /v1/events/a-1?tenant=default"},
		{line: "route --tenant acme --topic orders --type created", asks: "GET /v1/route?tenant=acme&topic=orders&type=created", answer: "route"},
		{line: "stats", asks: "GET /v1/stats", answer: "stats"},
	} {
		t.Run(k.line, func(t *testing.T) {
			status, body := http.StatusNoContent, ""
			if k.answer != "" {
				status, body = http.StatusOK, example(t, k.answer)
			}
			server, url := serveCanned(t, status, body)
			for _, form := range []string{"--json", "--json=false"} {
				var out, errs bytes.Buffer
				code := run(t.Context(), append(strings.Fields(k.line), "--server", url, form), strings.NewReader(k.stdin), &out, &errs)
				if code != exitOK {
					t.Fatalf("exit %d: %s", code, &errs)
				}
				if form == "--json" && compact(t, out.String()) != body {
					t.Errorf("printed %s, want %s", &out, body)
				}
				if form != "--json" && body != "" && (strings.Count(out.String(), "\n") < 2 || strings.Contains(out.String(), "{\n")) {
					t.Errorf("no table: %q", &out)
				}
			}
			if diff := cmp.Diff([]string{k.asks, k.asks}, server.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}

func TestADelayedPublishTellsWhenItIsDue(t *testing.T) {
	answer := `{"events":[{"id":"a-2","due_at":"2026-11-15T02:13:00.000Z","duplicate":false}],"durability":"durable"}`
	for flag, member := range map[string]string{"--delay=1h30m": `"delay":"1h30m"`, "--deliver-at=2026-11-15T03:13:00+01:00": `"deliver_at":"2026-11-15T02:13:00.000Z"`} {
		server, url := serveCanned(t, 200, answer)
		code, out, errs := command(t, "publish", "orders", "--type", "created", "--id", "a-2", flag, "--server", url)
		if code != exitOK || !strings.Contains(out, "2026-11-15T02:13:00Z") {
			t.Errorf("exit %d, %q, %q", code, out, errs)
		}
		if want := `POST /v1/topics/orders/events [{"id":"a-2","type":"created",` + member + `}]`; len(server.asked) != 1 || server.asked[0] != want {
			t.Errorf("asked %v, want %s", server.asked, want)
		}
	}
}

func TestRedrivingAllGoesOnUntilTheDeadOfTheBeginningAreDone(t *testing.T) {
	server, url := serveCanned(t, 200, `{"redriven":1000,"remaining":1500}`) // it never ends: they die again
	code, out, errs := command(t, "queue", "redrive", "emails", "--all", "--tenant", "acme", "--server", url, "--json")
	if code != exitOK || compact(t, out) != `{"redriven":3000,"remaining":1500}` || len(server.asked) != 3 {
		t.Errorf("exit %d after %d calls: %s%s", code, len(server.asked), out, errs)
	}
	if want := "POST /v1/queues/emails/dead/redrive " + example(t, "redrive_in_all"); server.asked[0] != want {
		t.Errorf("asked %s", server.asked[0])
	}
}

func TestErrorsSayWhatToDoNext(t *testing.T) {
	full := &millrace.Error{Code: millrace.CodeFull, Detail: "no room", Sink: "emails"}
	for _, k := range []struct {
		line string
		err  *millrace.Error
		next string
	}{
		{"queue show nothing", millrace.ErrNotFound, "millrace queue list"},
		{"event show a-1", millrace.ErrNotFound, "--tenant"},
		{"event cancel a-1", millrace.ErrNotFound, "--tenant"},
		{"queue create emails --match x", &millrace.Error{Code: millrace.CodeImmutable, Detail: "ordered cannot change"}, "queue delete"},
		{"queue delete emails --if-empty", &millrace.Error{Code: millrace.CodeNotEmpty, Detail: "it holds messages"}, "queue purge"},
		{"publish orders --type a", full, "millrace queue show emails"},
		{"publish orders --type a", &millrace.Error{Code: millrace.CodeStoreFull, Detail: "no room"}, "Make room"},
		{"stats", &millrace.Error{Code: millrace.CodeForbidden, Detail: "this needs the scope manage"}, "root token"},
		{"queue peek emails", &millrace.Error{Code: millrace.CodeUnauthenticated, Detail: "a valid token is needed"}, "MILLRACE_TOKEN"},
	} {
		_, url := serveCanned(t, api.StatusOf(k.err.Code), string(api.AppendProblem(nil, k.err, "r")))
		code, _, errs := command(t, append(strings.Fields(k.line), "--server", url)...)
		if code != exitFailure || !strings.Contains(errs, string(k.err.Code)) || !strings.Contains(errs, k.next) {
			t.Errorf("%s: exit %d, %q", k.line, code, errs)
		}
	}
}

func TestLostReceiptsAreExplained(t *testing.T) {
	_, url := serveCanned(t, 200, `{"settled":0,"lost":["q5J"],"dead":0}`)
	code, out, errs := command(t, "queue", "ack", "emails", "q5J", "--server", url)
	if code != exitOK || !strings.Contains(errs, "Lease the messages again") || !strings.Contains(out, "LOST") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestWhatIsSharpAsksFirst(t *testing.T) {
	server, url := serveCanned(t, 204, "")
	for line, says := range map[string]string{
		"queue delete emails":                              "--yes",
		"queue purge emails":                               "--yes",
		"queue redrive emails":                             "--all",
		"queue redrive emails 01K0C --all":                 "--all",
		"queue redrive emails 01K0C --tenant acme":         "--tenant",
		"queue release emails":                             "--consumer",
		"queue lease":                                      "NAME",
		"queue lease emails=0":                             "1 to 1000",
		"queue lease emails=x":                             "1 to 1000",
		"queue lease emails emails=2":                      "twice",
		"queue lease emails --at-most-once --lease 1s":     "--at-most-once",
		"queue weight emails":                              "NAME TENANT",
		"queue weight emails acme --weight 2 --reset":      "--reset",
		"queue weight emails acme --weight two":            "--weight",
		"queue retry emails":                               "RECEIPT",
		"queue create emails --match x --dead-retention 7": "--dead-retention",
		"event show":                                       "ID",
		"route --topic orders":                             "--type",
		"publish orders --type a --delay soon":             "--delay",
		"publish orders --type a --deliver-at tomorrow":    "--deliver-at",
		"publish orders --type a --delay 1s --deliver-at 2026-11-15T01:13:00Z": "give one",
	} {
		code, _, errs := command(t, append(strings.Fields(line), "--server", url)...)
		if code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
	if len(server.asked) != 0 {
		t.Errorf("asked %v", server.asked)
	}
}
