package api

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/schematest"
)

// compiled is every named schema, ready to be used. Answers are closed here: an
// example must not have a member that its schema does not name.
func compiled(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": Schemas()}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	schematest.CloseObjects(doc)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("wire.json", doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]*jsonschema.Schema{}
	for name := range Schemas() {
		all[name] = must[*jsonschema.Schema](t)(c.Compile("wire.json#/components/schemas/" + name))
	}
	return all
}

// unfit is why a text does not fit a schema.
func unfit(s *jsonschema.Schema, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// goldenSchemas says which schema each golden file fits.
var goldenSchemas = map[string]string{
	"ack_in": "Ack", "bury_in": "Bury", "cloudevent_in": "CloudEvent", "cloudevents_in": "CloudEvents", "dead": "DeadLetters", "delayed": "DelayedEvent",
	"event": "Event", "event_binary": "Event", "extend_in": "Extend", "extended": "Extended", "health": "Health", "inject_in": "Inject", "injected": "Injected",
	"lease_any_in": "LeaseAny", "lease_in": "Lease", "lease_once_in": "Lease", "lease_once_out": "Messages", "lease_out": "Messages", "lease_out_empty": "Messages",
	"nodes": "Nodes", "peek": "Peeked", "problem": "UnprocessableEntity", "problem_conflict": "PreconditionFailed", "problem_full": "TooManyRequests",
	"problem_partly": "ServiceUnavailable", "publish_in": "Publish", "publish_out": "Published", "purge_in": "Purge", "purged": "Purged", "queue_in": "QueueSpec",
	"queue_in_ordered": "QueueSpec", "queue_out": "Queue", "queue_out_paused": "Queue", "queues": "Queues", "redrive_in": "Redrive", "redrive_in_all": "Redrive",
	"redriven": "Redriven", "release_in": "Release", "released": "Released", "retry_in": "Retry", "route": "Route", "settled": "Settled", "stats": "Stats",
	"tenant": "Tenant", "tenant_in": "TenantSettings", "tenant_in_weight": "TenantSettings", "tenants": "Tenants", "topic": "Topic", "topic_in": "TopicOwner",
	"topic_in_free": "TopicOwner", "topics": "Topics",
	"readiness": "Readiness", "applied": "Applied", "definitions": "Definitions", "definitions_in": "Apply",
	"subscription_in": "SubscriptionSpec", "subscription_in_match": "SubscriptionSpec", "subscription_out": "Subscription", "subscription_made": "Subscription",
	"subscriptions": "Subscriptions", "rotate_in": "Rotate", "rotated": "Rotated", "batches": "Batches", "batch": "Batch", "attempts": "Attempts", "tested": "Tested", "retried": "Retried",
	"operation_in": "OperationRequest", "operation_started": "StartedOperation", "operation_out": "Operation", "operations": "Operations", "progress_in": "ReportProgress", "operation_counts": "OperationCounts",
	"trigger_in": "TriggerSpec", "trigger_in_event": "TriggerSpec", "trigger_made": "Trigger", "trigger_out": "Trigger", "triggers": "Triggers", "trigger_result": "TriggerResult", "trigger_result_event": "TriggerResult",
}

func TestEveryGoldenFileFitsItsSchemaAndNoOther(t *testing.T) {
	schemas := compiled(t)
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		schema, known := schemas[goldenSchemas[name]]
		if !known {
			t.Errorf("which schema %s fits is not said", name)
			continue
		}
		text := golden(t, name)
		if err := unfit(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// The schema looks at it at all: with a member more it does not fit.
		more := bytes.Replace(text, []byte("{"), []byte(`{"not_a_member":{"a":1},`), 1)
		if unfit(schema, more) == nil {
			t.Errorf("%s fits with a member that is not known", name)
		}
	}
}

func TestTheSchemaOfARouteKnowsEveryStateOfASink(t *testing.T) {
	schema := compiled(t)["Route"]
	for _, state := range []string{millrace.StateActive, millrace.StatePaused, millrace.StateFailing, millrace.StateDisabled} {
		route := millrace.Route{Address: "acme:orders:created", Sinks: []millrace.Sink{{Kind: millrace.KindSubscription, Name: "shop", Match: ":orders:", State: state}}}
		if err := unfit(schema, AppendRoute(nil, &route)); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// readers is, for every schema of a request, whether its decoder takes a body.
var readers = map[string]func(body []byte) error{
	"Publish":          func(b []byte) error { _, err := DecodePublish(b, orders); return err },
	"CloudEvent":       func(b []byte) error { _, err := DecodeCloudEvents(StructuredForm, nil, b, orders); return err },
	"CloudEvents":      func(b []byte) error { _, err := DecodeCloudEvents(BatchForm, nil, b, orders); return err },
	"TopicOwner":       func(b []byte) error { _, err := DecodeTopicPut(b); return err },
	"QueueSpec":        func(b []byte) error { _, err := DecodeQueueSpec(b); return err },
	"TenantSettings":   func(b []byte) error { _, err := DecodeTenantSettings(b); return err },
	"Lease":            func(b []byte) error { _, err := DecodeLease(b); return err },
	"LeaseAny":         func(b []byte) error { _, _, err := DecodeLeaseAny(b); return err },
	"Ack":              func(b []byte) error { _, err := DecodeSettle(b, Ack); return err },
	"Retry":            func(b []byte) error { _, err := DecodeSettle(b, Retry); return err },
	"Bury":             func(b []byte) error { _, err := DecodeSettle(b, Bury); return err },
	"Extend":           func(b []byte) error { _, err := DecodeSettle(b, Extend); return err },
	"Release":          func(b []byte) error { _, err := DecodeRelease(b); return err },
	"SubscriptionSpec": func(b []byte) error { _, err := DecodeSubscriptionSpec(b); return err },
	"Rotate":           func(b []byte) error { _, _, err := DecodeRotate(b); return err },
	"OperationRequest": func(b []byte) error { _, err := DecodeOperationRequest(b); return err },
	"ReportProgress":   func(b []byte) error { _, _, err := DecodeProgress(b); return err },
	"TriggerSpec":      func(b []byte) error { _, err := DecodeTriggerSpec(b); return err },
	"Apply":            func(b []byte) error { _, err := DecodeDocument(b); return err },
	"Nothing":          DecodeNothing,
	"Purge":            func(b []byte) error { _, err := DecodePurge(b); return err },
	"Redrive":          func(b []byte) error { _, err := DecodeRedrive(b); return err },
	"Inject":           func(b []byte) error { _, err := DecodeInject(b); return err },
}

// agree fails if a decoder takes what the schema of its body does not allow.
func agree(t *testing.T, schemas map[string]*jsonschema.Schema, body []byte) {
	t.Helper()
	for name, take := range readers {
		if len(bytes.TrimSpace(body)) == 0 || take(body) != nil {
			continue
		}
		if err := unfit(schemas[name], body); err != nil {
			t.Errorf("%s takes %s, but its schema does not: %v", name, body, err)
		}
	}
}

// FuzzWhatIsTakenFitsItsSchema holds the schemas of requests against the decoders.
func FuzzWhatIsTakenFitsItsSchema(f *testing.F) {
	seed(f, `{"type":"a","delay":"1d0","key":"ü"}`, `{"type":"a","deliver_at":"2026-11-15t01:13:00.5+14:00"}`, `{"type":"a","data":null,"time":"2016-12-31T23:59:60Z"}`,
		`{"max":1000,"wait":".5s","lease":"0"}`, `{"receipts":[]}`, `{"items":[]}`, `{"receipts":[""],"error":"x"}`, `{"all":true}`, `{"ids":["a"],"all":false}`,
		`{"match":"x","lease":"1h1h","redact":[]}`, `{"queue":"a","type":"b","payload":null,"delay":"1d"}`, `{"receipt":"a"}`, `{"receipt":"a","note":""}`,
		`{"event":{"topic":"a","type":"b","data":null,"attributes":{}}}`, `{"operation":{"queue":"a","type":"b","payload":{"request":1}},"per_minute":0}`, `{"triggers":{"a":{"event":{"topic":"a","type":"b"}}}}`,
		`{"callback":"HTTP://x","match":"x","topics":[]}`, `{"callback":"https://x.example","match":"","topics":["a"],"retry_schedule":[]}`, `{"overlap":"0","secret":"x"}`, goodAnd(`"time":null,"tenant":7,"partitionkey":true,"dataschema":null,"data_base64":null,"x":-1`), good(`"source":"a b\\c"`, `"source":"/s"`))
	schemas := compiled(f)
	f.Fuzz(func(t *testing.T, body []byte) { agree(t, schemas, body) })
}

func TestARequestThatIsRefusedForItsFormDoesNotFitItsSchema(t *testing.T) {
	schemas := compiled(t)
	for _, c := range []struct{ schema, body string }{
		{"Publish", `{}`}, {"Publish", `[]`}, {"Publish", `{"type":"a","Tenant":"b"}`}, {"Publish", `{"type":"a:b"}`}, {"Publish", `{"type":".."}`},
		{"Publish", `{"type":"a","tenant":""}`}, {"Publish", `{"type":"a","key":"\u0001"}`}, {"Publish", `{"type":"a","delay":"1s","deliver_at":"2026-11-15T01:13:00Z"}`},
		{"Publish", `{"type":"a","data":1,"data_base64":"AA=="}`}, {"Publish", `{"type":"a","delay":"-1s"}`}, {"Publish", `{"type":"a","time":"yesterday"}`},
		{"Publish", `{"type":"a","attributes":{"A":"b"}}`}, {"Publish", `{"type":"a","attributes":{"a":1}}`}, {"Publish", `{"type":"a","id":"` + strings.Repeat("x", 129) + `"}`},
		{"CloudEvent", `{}`}, {"CloudEvent", good(`"0.3"`, `"1.0"`)}, {"CloudEvent", goodAnd(`"traceParent":"x"`)}, {"CloudEvent", goodAnd(`"a":{}`)}, {"CloudEvent", goodAnd(`"a":1.5`)},
		{"CloudEvents", `[]`}, {"TopicOwner", `{}`}, {"TopicOwner", `{"publisher":"a b"}`}, {"QueueSpec", `{}`}, {"QueueSpec", `{"match":""}`},
		{"QueueSpec", `{"match":"x","overflow":"burst"}`}, {"QueueSpec", `{"match":"x","max_attempts":10001}`}, {"TenantSettings", `{"weight":1001}`},
		{"Lease", `{"max":0}`}, {"Lease", `{"max":1001}`}, {"Lease", `{"consumer":"a/b"}`}, {"LeaseAny", `{}`}, {"LeaseAny", `{"queues":{}}`}, {"LeaseAny", `{"queues":{"a":0}}`},
		{"Ack", `{}`}, {"Ack", `{"receipts":["a","a"]}`}, {"Ack", `{"receipts":["a"],"delay":"1s"}`}, {"Retry", `{"items":[{"delay":"1s"}]}`}, {"Retry", `{"items":[],"delay":"1s"}`},
		{"Bury", `{"receipts":["a"],"items":[]}`}, {"Extend", `{"receipts":["a"],"error":"x"}`}, {"Release", `{}`}, {"Nothing", `{"for":"1h"}`}, {"Purge", `{"tenant":""}`},
		{"Redrive", `{}`}, {"Redrive", `{"ids":[]}`}, {"Redrive", `{"ids":["a"],"all":true}`}, {"Redrive", `{"ids":["a"],"tenant":"b"}`}, {"Rotate", `{"secret":""}`}, {"Rotate", `{"overlap":1}`}, {"Rotate", `{"Overlap":"1s"}`},
		{"SubscriptionSpec", `{}`}, {"SubscriptionSpec", `{"callback":"https://x.example"}`}, {"SubscriptionSpec", `{"callback":"ftp://x.example","match":"x"}`},
		{"SubscriptionSpec", `{"callback":"https://x.example","match":"x","topics":["a"]}`}, {"SubscriptionSpec", `{"callback":"https://x.example","topics":["a:b"]}`},
		{"SubscriptionSpec", `{"callback":"https://x.example","match":"x","max_events":0}`}, {"SubscriptionSpec", `{"callback":"https://x.example","match":"x","format":"xml"}`},
		{"SubscriptionSpec", `{"callback":"https://x.example","match":"x","uuid":"a:b"}`}, {"SubscriptionSpec", `{"callback":"https://x.example","match":"x","secret":""}`},
		{"SubscriptionSpec", `{"callback":"https://x.example","match":"x","retry_schedule":["soon"]}`}, {"SubscriptionSpec", `{"callback":"https://x.example","match":"x","Timeout":"1s"}`},
		{"OperationRequest", `{}`}, {"OperationRequest", `{"queue":"a"}`}, {"OperationRequest", `{"queue":"a b","type":"c"}`}, {"OperationRequest", `{"queue":"a","type":"c","subject":""}`},
		{"OperationRequest", `{"queue":"a","type":"c","tenant":""}`}, {"OperationRequest", `{"queue":"a","type":"c","dedupe_key":""}`}, {"OperationRequest", `{"queue":"a","type":"c","delay":1}`}, {"OperationRequest", `{"queue":"a","type":"c","Payload":1}`},
		{"ReportProgress", `{"percent":1}`}, {"ReportProgress", `{"receipt":"a","percent":101}`}, {"ReportProgress", `{"receipt":"a","note":"\u0001"}`}, {"ReportProgress", `{"receipt":"","percent":1}`},
		{"TriggerSpec", `{}`}, {"TriggerSpec", `{"event":{"topic":"a","type":"b"},"operation":{"queue":"a","type":"b"}}`}, {"TriggerSpec", `{"event":{"topic":"a"}}`}, {"TriggerSpec", `{"event":{"topic":"a","type":"b","id":"c"}}`},
		{"TriggerSpec", `{"event":{"topic":"a","type":"b","data":[1]}}`}, {"TriggerSpec", `{"operation":{"queue":"a","type":"b"},"per_minute":-1}`}, {"TriggerSpec", `{"operation":{"queue":"a","type":"b"},"enabled":1}`},
		{"Apply", `{"triggers":{"a":{}}}`}, {"Apply", `{"triggers":{"a b":{"event":{"topic":"a","type":"b"}}}}`},
		{"Inject", `{"events":[]}`}, {"Inject", `{"events":[{"id":"a"}]}`},
	} {
		if readers[c.schema]([]byte(c.body)) == nil {
			t.Errorf("%s takes %s", c.schema, c.body)
		}
		if unfit(schemas[c.schema], []byte(c.body)) == nil {
			t.Errorf("%s: the schema allows %s", c.schema, c.body)
		}
	}
}

func TestEveryGoldenFileIsAnExample(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if got := bytes.TrimSpace(Example(name)); !bytes.Equal(got, golden(t, name)) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
