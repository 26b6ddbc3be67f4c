package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandLines says which command line asks for each operation of the API.
var commandLines = map[string]string{
	"POST /v1/topics/{topic}/events": "publish orders --type created",
	"GET /v1/events/{id}":            "event show a-1", "DELETE /v1/events/{id}": "event cancel a-1",
	"GET /v1/route": "route --topic orders --type created", "GET /v1/live": "tail",
	"GET /v1/topics": "topic list", "GET /v1/topics/{topic}": "topic show orders", "PUT /v1/topics/{topic}": "topic give orders --publisher shop", "DELETE /v1/topics/{topic}": "topic forget orders",
	"GET /v1/queues": "queue list", "GET /v1/queues/{queue}": "queue show emails", "PUT /v1/queues/{queue}": "queue create emails --match .", "DELETE /v1/queues/{queue}": "queue delete emails --yes",
	"POST /v1/queues/{queue}/pause": "queue pause emails", "POST /v1/queues/{queue}/resume": "queue resume emails", "POST /v1/queues/{queue}/inject": "queue inject emails",
	"GET /v1/queues/{queue}/tenants": "queue tenants emails", "GET /v1/queues/{queue}/tenants/{tenant}": "queue weight emails acme",
	"PUT /v1/queues/{queue}/tenants/{tenant}": "queue weight emails acme --weight 2", "DELETE /v1/queues/{queue}/tenants/{tenant}": "queue weight emails acme --reset",
	"POST /v1/lease": "queue lease emails sms", "POST /v1/queues/{queue}/lease": "queue lease emails",
	"POST /v1/queues/{queue}/ack": "queue ack emails q5J", "POST /v1/queues/{queue}/retry": "queue retry emails q5J", "POST /v1/queues/{queue}/bury": "queue bury emails q5J",
	"POST /v1/queues/{queue}/extend": "queue extend emails q5J", "POST /v1/queues/{queue}/release": "queue release emails --consumer w-1",
	"GET /v1/queues/{queue}/peek": "queue peek emails", "POST /v1/queues/{queue}/purge": "queue purge emails --yes", "GET /v1/queues/{queue}/dead": "queue dead emails",
	"DELETE /v1/queues/{queue}/dead": "queue drop-dead emails --all --yes", "DELETE /v1/queues/{queue}/dead/{id}": "queue drop-dead emails 01K0C --yes",
	"POST /v1/queues/{queue}/dead/redrive":                     "queue redrive emails --all",
	"GET /v1/subscriptions":                                    "subscription list",
	"GET /v1/subscriptions/{subscription}":                     "subscription show shop",
	"PUT /v1/subscriptions/{subscription}":                     "subscription create shop --callback https://shop.example/hook --topic orders",
	"DELETE /v1/subscriptions/{subscription}":                  "subscription delete shop --yes",
	"POST /v1/subscriptions/{subscription}/pause":              "subscription pause shop",
	"POST /v1/subscriptions/{subscription}/resume":             "subscription resume shop",
	"POST /v1/subscriptions/{subscription}/test":               "subscription test shop",
	"POST /v1/subscriptions/{subscription}/rotate":             "subscription rotate shop",
	"POST /v1/subscriptions/{subscription}/inject":             "subscription inject shop",
	"GET /v1/subscriptions/{subscription}/batches":             "subscription batches shop",
	"GET /v1/subscriptions/{subscription}/batches/{id}":        "subscription batch shop 01K0B",
	"DELETE /v1/subscriptions/{subscription}/batches/{id}":     "subscription drop shop 01K0B",
	"POST /v1/subscriptions/{subscription}/batches/{id}/retry": "subscription retry shop 01K0B",
	"POST /v1/subscriptions/{subscription}/dead/retry":         "subscription retry shop --dead",
	"GET /v1/subscriptions/{subscription}/attempts":            "subscription attempts shop",
	"POST /v1/operations":                                      "operation start sync --type MANUAL",
	"GET /v1/operations":                                       "operation list --subject link:456",
	"GET /v1/operations/counts":                                "operation counts sync",
	"GET /v1/operations/{id}":                                  "operation show Zt8",
	"GET /v1/operations/{id}/watch":                            "operation watch Zt8",
	"POST /v1/operations/{id}/cancel":                          "operation cancel Zt8",
	"POST /v1/operations/{id}/progress":                        "operation progress Zt8 q5J --percent 40",
	"GET /v1/triggers":                                         "trigger list",
	"GET /v1/triggers/{trigger}":                               "trigger show resync",
	"PUT /v1/triggers/{trigger}":                               "trigger create resync --queue sync --type MANUAL",
	"DELETE /v1/triggers/{trigger}":                            "trigger delete resync",
	"POST /v1/triggers/{trigger}/rotate":                       "trigger rotate resync",
	"POST /t/{secret}":                                         "trigger fire 2Fq",
	"GET /v1/definitions":                                      "export", "PUT /v1/definitions": "apply -f -",
	"GET /v1/nodes": "nodes", "GET /v1/stats": "stats",
}

// withoutCommand is the operations that have no command, and why.
var withoutCommand = map[string]string{
	"GET /livez":        "a prober asks it, by a URL in its own settings",
	"GET /readyz":       "a prober asks it, by a URL in its own settings",
	"GET /healthz":      "a prober asks it, by a URL in its own settings",
	"GET /metrics":      "Prometheus asks it, by a URL in its own settings",
	"GET /openapi.json": "it is for machines: `curl` shows it",
}

// inputs is what commands read from stdin.
func inputs(t *testing.T) map[string]string {
	return map[string]string{"queue inject emails": example(t, "inject_in"), "subscription inject shop": example(t, "inject_in"), "apply -f -": "queues: {emails: {match: .}}"}
}

// documented is the table of docs/http.md: for every operation the commands that do it.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	command := regexp.MustCompile("`([^`]+)`")
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|.*\\|([^|]*)\\|$").FindAllStringSubmatch(string(text), -1) {
		lines[m[1]] = []string{}
		for _, c := range command.FindAllStringSubmatch(m[2], -1) {
			lines[m[1]] = append(lines[m[1]], c[1])
		}
	}
	if len(lines) < 30 {
		t.Fatalf("found only %d operations", len(lines))
	}
	return lines
}

// found is the command that a command line names, or nil.
func found(line string) *cobra.Command {
	cmd, _, err := newRoot().Find(strings.Fields(line))
	if err != nil || !cmd.Runnable() || cmd.Name() == "millrace" {
		return nil
	}
	return cmd
}

func TestEveryOperationHasACommandThatAsksForIt(t *testing.T) {
	for op := range documented(t) {
		line := commandLines[op]
		if line == "" || found(line) == nil {
			if len(withoutCommand[op]) < 20 {
				t.Errorf("%s has no command, and no reason why", op)
			}
			continue
		}
		t.Run(line, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := &canned{status: http.StatusNoContent}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.ServeHTTP(w, r)
				if asksFor(c, op) {
					cancel() // a command that watches would go on
				}
			}))
			defer server.Close()
			var out, errs bytes.Buffer
			run(ctx, append(strings.Fields(line), "--server", server.URL), strings.NewReader(inputs(t)[line]), &out, &errs)
			if !asksFor(c, op) {
				t.Errorf("asked for %v, not for %s: %s", c.asked, op, &errs)
			}
		})
	}
}

// asksFor reports whether a server was asked for an operation.
func asksFor(c *canned, op string) bool {
	parameter := regexp.MustCompile(`\\\{[^}]+\\\}`)
	pattern := regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(op), "[^/ ?]+") + "([ ?]|$)")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.asked {
		if pattern.MatchString(asked) {
			return true
		}
	}
	return false
}

func TestEveryCommandThatTheDocumentsNameIsThere(t *testing.T) {
	for op, commands := range documented(t) {
		for _, name := range commands {
			cmd := found(name)
			if cmd == nil || strings.TrimPrefix(cmd.CommandPath(), "millrace ") != name {
				t.Errorf("docs/http.md says that %s is done by %q, which is no command", op, name)
				continue
			}
			if line := commandLines[op]; len(commands) == 1 && found(line) != nil && !strings.HasPrefix(line+" ", name+" ") {
				t.Errorf("docs/http.md says that %s is done by %q, but it is by %q", op, name, line)
			}
		}
		if len(commands) == 0 && withoutCommand[op] == "" {
			t.Errorf("docs/http.md names no command for %s", op)
		}
	}
}
