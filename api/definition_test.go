package api

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func exampleDocument() millrace.Document {
	ordered := millrace.DefaultQueueSpec(":orders:")
	ordered.Ordered, ordered.OnExhausted, ordered.Lease = true, millrace.ExhaustedBlock, time.Minute
	shop := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	shop.Topics, shop.Timeout = []string{"orders"}, 2*time.Second
	return millrace.Document{
		Queues: map[string]millrace.QueueSpec{"emails": millrace.DefaultQueueSpec(":email_event:"), "or.ders": ordered},
		Tenants: map[string]map[string]millrace.TenantSettings{
			"emails": {"acme": {Weight: 2, Limit: 0}, "big.co": {Weight: 0, Limit: queuesLimit}},
		},
		Subscriptions: map[string]millrace.SubscriptionSpec{"s.hop": shop},
	}
}

func TestADocumentOfDefinitionsLooksAsInTheExample(t *testing.T) {
	doc := exampleDocument()
	checkGolden(t, "definitions", AppendDocument(nil, &doc))
	equal(t, must[millrace.Document](t)(DecodeDocument(golden(t, "definitions"))), doc)
	equal(t, must[millrace.Document](t)(DecodeDefinitions(golden(t, "definitions"))), doc)
	equal(t, must[millrace.Document](t)(DecodeDocument(golden(t, "definitions_in"))), doc)

	applied := millrace.Applied{Created: []string{"queue/emails"}, Changed: []string{}, Deleted: []string{}, Same: 7}
	checkGolden(t, "applied", AppendApplied(nil, &applied))
	equal(t, must[millrace.Applied](t)(DecodeApplied(golden(t, "applied"))), applied)
}

func TestEveryFaultOfADocumentIsLocated(t *testing.T) {
	_, err := DecodeDocument([]byte(`{
		"queues": {"emails": {"lease":"x","nope":1}, "s.ms": {"match":"["}, "a:b": {"match":"x"}, "flat": 7},
		"tenants": {"emails": {"acme": {"weight":1001}, "b/c": {}, "d.e": {"limit":"x","Weight":1}}, "../x": {}},
		"subscriptions": {"shop": {"callback":"https://shop.example","nope":1}, "a/b": {}, "w.h": {"topics":["x"]}},
		"streams": {}, "a b": 1}`))
	var e *millrace.Error
	if !errors.As(err, &e) || e.Code != millrace.CodeInvalid {
		t.Fatal(err)
	}
	equal(t, e.Faults, []millrace.Fault{
		{Location: "body.queues.emails.lease", Message: `must be a duration such as "1m30s"`},
		{Location: "body.queues.emails.nope", Message: "is not a known field"},
		{Location: "body.queues.emails.match", Message: "is required"},
		{Location: "body.queues.s.ms.match", Message: "is not a regular expression: missing closing ]"},
		{Location: "body.queues", Message: "a queue's name must not contain ':'"},
		{Location: "body.queues.flat", Message: "must be an object"},
		{Location: "body.tenants.emails.acme.weight", Message: "must be between 0 and 1000"},
		{Location: "body.tenants.emails", Message: "a tenant's name must hold only letters, digits, '.', '_' and '-'"},
		{Location: "body.tenants.emails.d.e.limit", Message: "must be an integer"},
		{Location: "body.tenants.emails.d.e.Weight", Message: "is not a known field"},
		{Location: "body.tenants", Message: "a queue's name must hold only letters, digits, '.', '_' and '-'"},
		{Location: "body.subscriptions.shop.nope", Message: "is not a known field"},
		{Location: "body.subscriptions.shop.topics", Message: "must be given, or match, but not both"},
		{Location: "body.subscriptions", Message: "a subscription's name must hold only letters, digits, '.', '_' and '-'"},
		{Location: "body.subscriptions.w.h.callback", Message: "is required"},
		{Location: "body.streams", Message: "is not a known field"},
		{Location: "body", Message: "has an unknown field"},
	})
}

func TestADocumentThatIsNotJSONOrNamesAQueueTwiceIsMalformed(t *testing.T) {
	for _, text := range []string{``, `{"queues":`, `{"queues":{"a":{"match":"x"},"a":{"match":"y"}}}`, `{"queues":{"a":{"match":"x","match":"y"}}}`, `{"tenants":{"a":{"b":{},"b":{}}}}`, `{} {}`} {
		if _, err := DecodeDocument([]byte(text)); millrace.CodeOf(err) != millrace.CodeMalformed {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzDecodeDocument(f *testing.F) {
	doc := exampleDocument()
	f.Add(AppendDocument(nil, &doc))
	f.Add([]byte(`{"queues":{"a":{"match":"x"}},"tenants":{"a":{"b":{"weight":0}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := DecodeDocument(text)
		if err != nil {
			return
		}
		if faults := got.Faults(""); len(faults) > 0 {
			t.Fatalf("%s is accepted with %v", text, faults)
		}
		again, err := DecodeDocument(AppendDocument(nil, &got))
		if err != nil {
			t.Fatalf("%s does not come back: %v", text, err)
		}
		equal(t, again, got)
	})
}
