package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

const emails = "/v1/queues/emails"

// badManagement are bad requests about delayed events, routes and what queues hold.
func badManagement() []bad {
	long := strings.Repeat("x", 129)
	list := []bad{
		{"delayed event's tenant", "GET", "/v1/events/a-1?tenant=a:b", "", 422, "invalid", []string{"query.tenant must not contain ':'"}, nil},
		{"delayed event's empty tenant", "DELETE", "/v1/events/a-1?tenant=", "", 422, "invalid", []string{"query.tenant must not be empty"}, nil},
		{"delayed event's id", "GET", "/v1/events/" + long + "?nope=1", "", 422, "invalid", []string{"path.id must be at most 128 bytes", "query.nope is not a known parameter"}, nil},
		{"control character", "GET", "/v1/events/a%01", "", 422, "invalid", []string{"path.id must not contain control characters"}, nil},
		{"no delayed event", "GET", "/v1/events/a%3A1%2Fb?tenant=acme", "", 404, "not_found", nil, nil},
		{"no delayed event to cancel", "DELETE", "/v1/events/a-1", "", 404, "not_found", nil, nil},
		{"no id", "GET", "/v1/events/", "", 404, "not_found", nil, nil},
		{"route", "GET", "/v1/route?tenant=x:y", "", 422, "invalid", []string{"query.tenant must not contain ':'", "query.topic is required", "query.type is required"}, nil},
		{"route's words", "GET", "/v1/route?topic=&type=a%2Fb", "", 422, "invalid", []string{"query.topic must not be empty", "query.type must hold only letters, digits, '.', '_' and '-'"}, nil},

		{"tracked", "PUT", emails, `{"match":"x","tracked":1,"redact":["token"]}`, 422, "invalid", []string{"body.tracked must be true or false", "body.redact[0] must be a JSON Pointer, such as /user/token"}, nil},
		{"gap", "PUT", emails, `{"match":"x","ordered":true,"overflow":"drop_oldest"}`, 422, "invalid", []string{"body.overflow must be reject in an ordered queue: a dropped message would be a gap"}, nil},
		{"exhausted", "PUT", emails, `{"match":"x","on_exhausted":"retry"}`, 422, "invalid", []string{"body.on_exhausted must be dead or block"}, nil},

		{"lease of several", "POST", "/v1/lease", `{}`, 422, "invalid", []string{"body.queues is required"}, nil},
		{"lease of several without a body", "POST", "/v1/lease", ``, 400, "malformed", []string{"body must be JSON: it ends too early"}, nil},
		{"weights", "POST", "/v1/lease", `{"queues":{"a":0,"b":1001}}`, 422, "invalid", []string{"body.queues.a must be between 1 and 1000", "body.queues.b must be between 1 and 1000"}, nil},
		{"lease of an unknown among several", "POST", "/v1/lease", `{"queues":{"nothing":1}}`, 404, "not_found", nil, nil},
		{"short lease", "POST", emails + "/lease", `{"lease":"1ms","consumer":"a/b"}`, 422, "invalid", []string{"body.lease must be 0s or at least 100ms", "body.consumer must hold only letters, digits, '.', '_' and '-'"}, nil},
		{"release", "POST", emails + "/release", `{}`, 422, "invalid", []string{"body.consumer is required"}, nil},
		{"pause", "POST", emails + "/pause", `{"for":"1h"}`, 422, "invalid", []string{"body.for is not a known field"}, nil},
		{"resume", "POST", emails + "/resume", `[]`, 422, "invalid", []string{"body must be an object"}, nil},

		{"peek", "GET", emails + "/peek?limit=1001&tenant=", "", 422, "invalid", []string{"query.tenant must not be empty", "query.limit must be at most 1000"}, nil},
		{"peek has no pages", "GET", emails + "/peek?cursor=YQ", "", 422, "invalid", []string{"query.cursor is not a known parameter"}, nil},
		{"dead", "GET", emails + "/dead?limit=0", "", 422, "invalid", []string{"query.limit must be an integer of at least 1"}, nil},
		{"dead's cursor", "GET", emails + "/dead?cursor=!", "", 400, "bad_cursor", []string{"query.cursor must be the next of a page"}, nil},
		{"drop dead", "DELETE", emails + "/dead?tenant=a:b&all=true", "", 422, "invalid", []string{"query.tenant must not contain ':'", "query.all is not a known parameter"}, nil},
		{"redrive", "POST", emails + "/dead/redrive", `{}`, 422, "invalid", []string{"body must hold ids, or all as true"}, nil},
		{"redrive both", "POST", emails + "/dead/redrive", `{"ids":["a"],"all":true}`, 422, "invalid", []string{"body.all must not be given with ids"}, nil},
		{"redrive a tenant's ids", "POST", emails + "/dead/redrive", `{"ids":["a"],"tenant":"acme"}`, 422, "invalid", []string{"body.tenant must not be given with ids"}, nil},
		{"get of redrive", "GET", emails + "/dead/redrive", "", 405, "method_not_allowed", nil, nil},
		{"purge", "POST", emails + "/purge", `{"tenant":"","all":true}`, 422, "invalid", []string{"body.tenant must not be empty", "body.all is not a known field"}, nil},
		{"inject", "POST", emails + "/inject", `{"events":[{"id":"a"},7]}`, 422, "invalid", []string{
			"body.events[0].topic is required", "body.events[0].type is required", "body.events[0].time is required", "body.events[0].seq is required",
			"body.events[1] must be an object",
		}, nil},

		{"tenants", "GET", emails + "/tenants?limit=x", "", 422, "invalid", []string{"query.limit must be an integer of at least 1"}, nil},
		{"tenant's name", "GET", emails + "/tenants/a%3Ab", "", 422, "invalid", []string{"path.tenant must not contain ':'"}, nil},
		{"tenant's settings", "PUT", "/v1/queues/a%20b/tenants/acme", `{"weight":1001,"limit":-1}`, 422, "invalid", []string{
			"path.queue must hold only letters, digits, '.', '_' and '-'", "body.weight must be between 0 and 1000", "body.limit must be between 0 and 1073741824",
		}, nil},
		{"tenant's settings without a body", "PUT", emails + "/tenants/acme", ``, 400, "malformed", []string{"body must be JSON: it ends too early"}, nil},
	}
	return slices.Concat(list, badSubscriptions(), unknownSinks())
}

// badSubscriptions is requests about subscriptions that must be refused.
func badSubscriptions() []bad {
	return []bad{
		{"a closed address", "PUT", shop, `{"callback":"https://10.0.0.1/hook","topics":["orders"]}`, 422, "invalid", []string{"body.callback must not be an address that is closed to callbacks"}, nil},
		{"plain http", "PUT", shop, `{"callback":"http://8.8.8.8/hook","topics":["orders"]}`, 422, "invalid", []string{"body.callback must begin with https://"}, nil},
		{"a secret that is none", "PUT", shop, `{"callback":"https://shop.example/hook","match":".","secret":"hunter2"}`, 422, "invalid", []string{"body.secret must be whsec_ and the base64 of 24 to 64 bytes"}, nil},
		{"topics and match", "PUT", shop, `{"callback":"https://shop.example/hook","match":".","topics":["a"]}`, 422, "invalid", []string{"body.topics must be given, or match, but not both"}, nil},
		{"a subscription's name", "PUT", "/v1/subscriptions/a%2Fb", `{"topics":["a"]}`, 422, "invalid", []string{"path.subscription must hold only letters, digits, '.', '_' and '-'", "body.callback is required"}, nil},
		{"a batch's state", "GET", shop + "/batches?state=lost&limit=0", "", 422, "invalid", []string{"query.limit must be an integer of at least 1", "query.state must be early, ready, pending or dead"}, nil},
		{"attempts of nothing", "GET", shop + "/attempts?batch=&event=a%01", "", 422, "invalid", []string{"query.batch must not be empty", "query.event must not contain control characters"}, nil},
		{"an overlap", "POST", shop + "/rotate", `{"overlap":"-1s"}`, 422, "invalid", []string{`body.overlap must be a duration such as "1m30s"`}, nil},
		{"a rotation's secret", "POST", shop + "/rotate", `{"secret":"hunter2"}`, 422, "invalid", []string{"body.secret must be whsec_ and the base64 of 24 to 64 bytes"}, nil},
	}
}

// unknownSinks is every route of a queue or a subscription, asked of one that is not there.
func unknownSinks() (list []bad) {
	for _, rt := range routes() {
		isOne := strings.Contains(rt.path, "{queue}") || strings.Contains(rt.path, "{subscription}")
		if !isOne || (rt.method == "PUT" && !strings.Contains(rt.path, "tenant")) {
			continue
		}
		path := strings.NewReplacer("emails", "nothing", "shop", "nothing").Replace(pathOf(&rt))
		list = append(list, bad{rt.method + " " + path, rt.method, path, goodBody(&rt), 404, "not_found", nil, nil})
	}
	return list
}

func TestFaultsThatTheBackendFindsStandWhereTheyAreInTheRequest(t *testing.T) {
	a := &ailing{Broker: openBroker(t)}
	s := newSite(t, a, Options{})
	a.err = millrace.Invalid([]millrace.Fault{{Location: "events[1].deliver_at", Message: "is too far"}, {Location: "events", Message: "are odd"}})
	for body, want := range map[string][]string{
		`[{"type":"a"},{"type":"a"}]`: {"body[1].deliver_at is too far", "body.events are odd"},
		` {"type":"a"}`:               {"body.deliver_at is too far", "body.events are odd"},
	} {
		if _, faults := s.want(422, "POST", events, body).problem(t); cmp.Diff(want, faults) != "" {
			t.Errorf("%s: %v", body, faults)
		}
	}
	rt := route{path: "/v1/queues/{queue}/dead", query: []string{"tenant", "limit"}}
	for argument, want := range map[string]string{
		"queue": "path.queue", "tenant": "query.tenant", "lease": "body.lease", "items[3].delay": "body.items[3].delay",
		"body.match": "body.match", "query.limit": "query.limit", "events[0].seq": "body.events[0].seq",
	} {
		if got := rt.locate(&call{Request: &http.Request{}}, argument); got != want {
			t.Errorf("%s stands at %s, want %s", argument, got, want)
		}
	}
}
