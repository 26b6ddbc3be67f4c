package acceptance

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/httpapi"
)

// operations is every operation that a server's description names, as METHOD /path.
func operations(t *testing.T) (list []string) {
	t.Helper()
	b, err := broker.Open(t.Context(), "memory:", broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	httpapi.Handler(b, httpapi.Options{}).ServeHTTP(w, r)
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for path, item := range doc.Paths {
		for method := range item {
			list = append(list, strings.ToUpper(method)+" "+path)
		}
	}
	if len(list) < 30 {
		t.Fatalf("found only %d operations", len(list))
	}
	slices.Sort(list)
	return list
}

// asked is a server that notes what it is asked, and has nothing.
type asked struct {
	mu   sync.Mutex
	list []string
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, r.Method+" "+r.URL.EscapedPath())
	w.WriteHeader(http.StatusNotFound)
}

// takes reports whether the server was asked for an operation since the last time.
func (a *asked) takes(operation string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pattern := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(operation), "[^/]+") + "$")
	found := slices.ContainsFunc(a.list, pattern.MatchString)
	a.list = nil
	return found
}

// method is a method of the client, by the names that lead to it, and arguments
// that are not the usual ones of their types.
type method struct {
	name string
	with []any
}

// clientMethods says which method of the client asks for each operation.
var clientMethods = map[string]method{
	"POST /v1/topics/{topic}/events": {name: "Publish", with: []any{[]millrace.Event{{Topic: "orders", Type: "created"}}}},
	"GET /v1/events/{id}":            {name: "Held"}, "DELETE /v1/events/{id}": {name: "CancelHeld"},
	"GET /v1/route": {name: "Route"}, "GET /v1/live": {name: "Live"},
	"GET /v1/topics": {name: "Topics.List"}, "GET /v1/topics/{topic}": {name: "Topics.Get"}, "PUT /v1/topics/{topic}": {name: "Topics.Put"}, "DELETE /v1/topics/{topic}": {name: "Topics.Delete"},
	"GET /v1/queues": {name: "Queues.List"}, "GET /v1/queues/{queue}": {name: "Queues.Get"}, "PUT /v1/queues/{queue}": {name: "Queues.Put"}, "DELETE /v1/queues/{queue}": {name: "Queues.Delete"},
	"POST /v1/queues/{queue}/pause": {name: "Queues.Pause"}, "POST /v1/queues/{queue}/resume": {name: "Queues.Resume"},
	"POST /v1/queues/{queue}/inject": {name: "Queues.Inject", with: []any{[]millrace.Event{{ID: "a-1", Topic: "orders", Type: "created", Time: time.Unix(1, 0), Seq: 1}}}},
	"GET /v1/queues/{queue}/tenants": {name: "Queues.Tenants"}, "GET /v1/queues/{queue}/tenants/{tenant}": {name: "Queues.Tenant"},
	"PUT /v1/queues/{queue}/tenants/{tenant}": {name: "Queues.PutTenant"}, "DELETE /v1/queues/{queue}/tenants/{tenant}": {name: "Queues.DeleteTenant"},
	"POST /v1/lease": {name: "Queues.LeaseAny", with: []any{map[string]int{"emails": 1}}}, "POST /v1/queues/{queue}/lease": {name: "Queues.Lease"},
	"POST /v1/queues/{queue}/ack": {name: "Queues.Ack"}, "POST /v1/queues/{queue}/retry": {name: "Queues.Retry"}, "POST /v1/queues/{queue}/bury": {name: "Queues.Bury"},
	"POST /v1/queues/{queue}/extend": {name: "Queues.Extend"}, "POST /v1/queues/{queue}/release": {name: "Queues.Release"},
	"GET /v1/queues/{queue}/peek": {name: "Queues.Peek"}, "POST /v1/queues/{queue}/purge": {name: "Queues.Purge"}, "GET /v1/queues/{queue}/dead": {name: "Queues.Dead"},
	"DELETE /v1/queues/{queue}/dead":                           {name: "Queues.DropDead", with: []any{millrace.DeadSelection{All: true}}},
	"DELETE /v1/queues/{queue}/dead/{id}":                      {name: "Queues.DropDead", with: []any{millrace.DeadSelection{IDs: []string{"a-1"}}}},
	"POST /v1/queues/{queue}/dead/redrive":                     {name: "Queues.Redrive", with: []any{millrace.DeadSelection{All: true}}},
	"GET /v1/subscriptions":                                    {name: "Subscriptions.List"},
	"GET /v1/subscriptions/{subscription}":                     {name: "Subscriptions.Get"},
	"PUT /v1/subscriptions/{subscription}":                     {name: "Subscriptions.Put"},
	"DELETE /v1/subscriptions/{subscription}":                  {name: "Subscriptions.Delete"},
	"POST /v1/subscriptions/{subscription}/pause":              {name: "Subscriptions.Pause"},
	"POST /v1/subscriptions/{subscription}/resume":             {name: "Subscriptions.Resume"},
	"POST /v1/subscriptions/{subscription}/test":               {name: "Subscriptions.Test"},
	"POST /v1/subscriptions/{subscription}/rotate":             {name: "Subscriptions.Rotate"},
	"POST /v1/subscriptions/{subscription}/inject":             {name: "Subscriptions.Inject", with: []any{[]millrace.Event{{ID: "a-1", Topic: "orders", Type: "created", Time: time.Unix(1, 0), Seq: 1}}}},
	"GET /v1/subscriptions/{subscription}/batches":             {name: "Subscriptions.Batches"},
	"GET /v1/subscriptions/{subscription}/batches/{id}":        {name: "Subscriptions.GetBatch"},
	"DELETE /v1/subscriptions/{subscription}/batches/{id}":     {name: "Subscriptions.DropBatch"},
	"POST /v1/subscriptions/{subscription}/batches/{id}/retry": {name: "Subscriptions.RetryBatch"},
	"POST /v1/subscriptions/{subscription}/dead/retry":         {name: "Subscriptions.RetryDead"},
	"GET /v1/subscriptions/{subscription}/attempts":            {name: "Subscriptions.Attempts"},
	"POST /v1/operations":                                      {name: "Operations.Start", with: []any{millrace.OperationRequest{Queue: "sync", Type: "MANUAL"}}},
	"GET /v1/operations":                                       {name: "Operations.List", with: []any{millrace.OperationQuery{Subject: "link:1"}}},
	"GET /v1/operations/counts":                                {name: "Operations.Counts", with: []any{millrace.OperationCountQuery{Queue: "sync"}}},
	"GET /v1/operations/{id}":                                  {name: "Operations.Get"},
	"GET /v1/operations/{id}/watch":                            {name: "Operations.Watch"},
	"POST /v1/operations/{id}/cancel":                          {name: "Operations.Cancel"},
	"POST /v1/operations/{id}/progress":                        {name: "Operations.Report"},
	"GET /v1/triggers":                                         {name: "Triggers.List"},
	"GET /v1/triggers/{trigger}":                               {name: "Triggers.Get"},
	"PUT /v1/triggers/{trigger}":                               {name: "Triggers.Put", with: []any{millrace.TriggerSpec{Event: &millrace.TriggerEvent{Topic: "orders", Type: "created"}}}},
	"DELETE /v1/triggers/{trigger}":                            {name: "Triggers.Delete"},
	"POST /v1/triggers/{trigger}/rotate":                       {name: "Triggers.Rotate"},
	"POST /t/{secret}":                                         {name: "Triggers.Fire", with: []any{[]byte("{}")}},
	"GET /v1/definitions":                                      {name: "Definitions"}, "PUT /v1/definitions": {name: "Apply"},
	"GET /v1/nodes": {name: "Nodes"}, "GET /v1/stats": {name: "Stats"},
}

// withoutMethod is the operations that the client need not have, and why.
var withoutMethod = map[string]string{
	"GET /livez":        "a prober asks it, by a URL in its own settings",
	"GET /readyz":       "a prober asks it, by a URL in its own settings",
	"GET /healthz":      "a prober asks it, by a URL in its own settings",
	"GET /metrics":      "Prometheus asks it, by a URL in its own settings",
	"GET /openapi.json": "generators of clients ask it; this client is written by hand",
}

func TestEveryOperationHasAMethodOfTheClient(t *testing.T) {
	a := &asked{}
	server := httptest.NewServer(a)
	defer server.Close()
	c, err := client.New(server.URL, client.Options{RetryFor: -1, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, op := range operations(t) {
		m, found := clientMethods[op]
		switch {
		case !found && withoutMethod[op] == "":
			t.Errorf("no method of the client asks for %s", op)
		case found:
			m.call(t, c)
			if !a.takes(op) {
				t.Errorf("%s does not ask for %s", m.name, op)
			}
		}
	}
	if (method{name: "Queues.Pause"}).call(t, c); a.takes("POST /v1/queues/{queue}/resume") {
		t.Error("a method is taken to ask for another operation")
	}
}

// call calls a method with an argument of each type that it takes.
func (m method) call(t *testing.T, c *client.Client) {
	t.Helper()
	v := reflect.ValueOf(c)
	names := strings.Split(m.name, ".")
	for _, name := range names[:len(names)-1] {
		v = v.MethodByName(name).Call(nil)[0]
	}
	f := v.MethodByName(names[len(names)-1])
	if !f.IsValid() {
		t.Errorf("the client has no method %s", m.name)
		return
	}
	args := []reflect.Value{}
	for i := range f.Type().NumIn() {
		args = append(args, m.argument(t, f.Type().In(i)))
	}
	if f.Type().IsVariadic() {
		f.CallSlice(args)
	} else {
		f.Call(args)
	}
}

// argument is a value of a type that a client takes without a fault.
func (m method) argument(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	if of == reflect.TypeFor[context.Context]() {
		return reflect.ValueOf(t.Context())
	}
	usual := []any{"a-1", time.Second, millrace.DefaultQueueSpec("."), millrace.DefaultSubscriptionSpec("https://shop.example"), []millrace.Settlement{{Receipt: "r"}}, []string{"r"}}
	for _, v := range append(slices.Clone(m.with), usual...) {
		if reflect.TypeOf(v) == of {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Zero(of)
}

// documented is every operation that the table in docs/http.md has a line for.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	lines := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(read(t, "../docs/http.md"), -1) {
		lines[m[1]] = true
	}
	return lines
}

func TestEveryOperationHasALineInTheDocuments(t *testing.T) {
	lines := documented(t)
	for _, op := range operations(t) {
		if !lines[op] {
			t.Errorf("docs/http.md has no line for %s", op)
		}
	}
}

func TestEveryExceptionHasAReason(t *testing.T) {
	for op, reason := range withoutMethod {
		if len(reason) < 20 {
			t.Errorf("%s has no reason", op)
		}
		if _, both := clientMethods[op]; both {
			t.Errorf("%s is an exception and none", op)
		}
	}
	for script, p := range provedElsewhere {
		if len(p.why) < 10 {
			t.Errorf("%s has no reason", script)
		}
	}
}
