package httpapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefinitionsAreOneDocument(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	if got := s.want(200, "GET", "/v1/definitions", "").body; got != `{"queues":{},"tenants":{},"subscriptions":{},"triggers":{}}` {
		t.Errorf("an empty store: %s", got)
	}
	dry := s.want(200, "PUT", "/v1/definitions?dry_run=true", example(t, "definitions_in")).body
	done := s.want(200, "PUT", "/v1/definitions", example(t, "definitions_in")).body
	want := `{"created":["queue/emails","queue/or.ders","subscription/s.hop","tenant/emails/acme","tenant/emails/big.co"],"changed":[],"deleted":[],"same":0}`
	if dry != want || done != want {
		t.Errorf("dry %s, done %s", dry, done)
	}
	all := s.want(200, "GET", "/v1/definitions", "").body
	if diff := cmp.Diff(example(t, "definitions"), all); diff != "" {
		t.Error(diff)
	}
	if got := s.want(200, "PUT", "/v1/definitions?prune=true", all).body; got != `{"created":[],"changed":[],"deleted":[],"same":5}` {
		t.Errorf("the same again: %s", got)
	}
	got := s.want(200, "PUT", "/v1/definitions?prune=true", `{}`).body
	if want := `{"created":[],"changed":[],"deleted":["queue/emails","queue/or.ders","subscription/s.hop","tenant/emails/acme","tenant/emails/big.co"],"same":0}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestABadDocumentIsRefusedWithEveryFault(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", "/v1/queues/orders", `{"match":"x","ordered":true}`)
	for _, c := range []struct {
		path, body, code string
		status           int
		faults           []string
	}{
		{"?prune=yes&nope=1", `{"queues":{"a":{"lease":"1ms"}},"streams":{}}`, "invalid", 422, []string{
			"query.prune must be true or false", "body.queues.a.match is required", "body.queues.a.lease must be between 100ms and 12h0m0s", "body.streams is not a known field", "query.nope is not a known parameter",
		}},
		{"", `{"queues":{"a":{"match":"x"},"a":{"match":"x"}}}`, "malformed", 400, []string{"body.queues.a is given twice"}},
		{"", `{"tenants":{"nothing":{"acme":{}}}}`, "invalid", 422, []string{"body.tenants.nothing belongs to a queue that is not defined"}},
		{"", `{"queues":{"a":{"match":"x"},"orders":{"match":"x"}}}`, "immutable", 409, nil},
		{"", `{"queues":{"a":{"match":"` + strings.Repeat("x", 5<<20) + `"}}}`, "too_large", 413, nil},
		{"", `{"queues":{"a":{"match":"x"}},"subscriptions":{"shop":{"callback":"https://10.0.0.1/","match":"x","secret":"y"}}}`, "invalid", 422, []string{
			"body.subscriptions.shop.callback must not be an address that is closed to callbacks", "body.subscriptions.shop.secret must be whsec_ and the base64 of 24 to 64 bytes",
		}},
		{"", "", "malformed", 400, []string{"body must be JSON: it ends too early"}},
	} {
		g := s.want(c.status, "PUT", "/v1/definitions"+c.path, c.body)
		code, faults := g.problem(t)
		if diff := cmp.Diff(c.faults, faults); diff != "" || code != c.code {
			t.Errorf("%.60s: %s\n%s", c.body, code, diff)
		}
	}
	if got := s.want(200, "GET", "/v1/queues", "").object(t)["queues"].([]any); len(got) != 1 {
		t.Errorf("something was stored: %v", got)
	}
}
