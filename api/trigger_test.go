package api

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func exampleTrigger() millrace.TriggerSpec {
	spec := millrace.DefaultTriggerSpec()
	spec.Operation = &millrace.OperationRequest{Queue: "sync", Type: "MANUAL", Subject: "link:456", Payload: []byte("{}")}
	return spec
}

func TestATriggersDefinitionLooksAsInTheExample(t *testing.T) {
	spec := exampleTrigger()
	checkGolden(t, "trigger_in", AppendTriggerSpec(nil, &spec))
	equal(t, must[millrace.TriggerSpec](t)(DecodeTriggerSpec(golden(t, "trigger_in"))), spec)
	equal(t, must[millrace.TriggerSpec](t)(DecodeTriggerSpec([]byte(`{"operation":{"queue":"sync","type":"MANUAL","subject":"link:456","payload":{}}}`))), spec)

	event := millrace.TriggerSpec{Event: &millrace.TriggerEvent{
		Topic: "jobs", Type: "hourly", Tenant: "acme", Key: "k", ContentType: millrace.JSONContentType, Data: []byte(`{"a":1}`),
		Attributes: map[string]string{"source": "/cron"}, Delay: time.Minute,
	}}
	checkGolden(t, "trigger_in_event", AppendTriggerSpec(nil, &event))
	equal(t, must[millrace.TriggerSpec](t)(DecodeTriggerSpec(golden(t, "trigger_in_event"))), event)
}

func TestATriggerShowsItsURLOnlyWhenItWasJustMade(t *testing.T) {
	made := millrace.Trigger{Name: "resync", Version: 1, Spec: exampleTrigger(), Fired: 3, Secret: "2Fq"}
	checkGolden(t, "trigger_made", AppendTrigger(nil, &made))
	equal(t, must[millrace.Trigger](t)(DecodeTrigger(golden(t, "trigger_made"))), made)
	made.Secret, made.LastAt = "", at("2026-11-15T01:13:00Z")
	checkGolden(t, "trigger_out", AppendTrigger(nil, &made))
	equal(t, must[millrace.Trigger](t)(DecodeTrigger(golden(t, "trigger_out"))), made)
	checkGolden(t, "triggers", AppendTriggers(nil, []millrace.Trigger{made}, ""))
	list, next, err := DecodeTriggers(golden(t, "triggers"))
	equal(t, must[[]millrace.Trigger](t)(list, err), []millrace.Trigger{made})
	if next != "" {
		t.Errorf("next is %q", next)
	}
}

func TestEveryFaultOfATriggerIsNamed(t *testing.T) {
	_, err := DecodeTriggerSpec([]byte(`{"per_minute":1000001,"enabled":"yes","nosuch":1}`))
	named(t, err, "body.per_minute", "body.enabled", "body.nosuch", "body.event")
	_, err = DecodeTriggerSpec([]byte(`{"operation":{"queue":"a b","payload":[1],"Type":"x"}}`))
	named(t, err, "body.operation.queue", "body.operation.type", "body.operation.payload", "body.operation.Type")
	_, err = DecodeTriggerSpec([]byte(`{"event":{"type":"a:b","data":7,"data_base64":"AA==","tenant":"","key":"","delay":"1w","id":"x"}}`))
	named(t, err, "body.event.topic", "body.event.type", "body.event.data", "body.event.data_base64", "body.event.tenant", "body.event.key", "body.event.delay", "body.event.id")
	_, err = DecodeTriggerSpec([]byte(`{"event":{"topic":"a","type":"b","content_type":"text/plain"}}`))
	named(t, err, "body.event.content_type")
	_, err = DecodeDocument([]byte(`{"triggers":{"a":{"operation":{"queue":"q"}},"b c":{}}}`))
	named(t, err, "body.triggers.a.operation.type", "body.triggers")
}

func TestWhatATriggerDidLooksAsInTheExample(t *testing.T) {
	for name, want := range map[string]millrace.TriggerResult{
		"trigger_result":       {Operation: &millrace.StartedOperation{ID: "Zt8", Status: millrace.OperationQueued}},
		"trigger_result_event": {Event: &millrace.Published{ID: "a-1", Seq: 41, Sinks: 3}},
	} {
		checkGolden(t, name, AppendTriggerResult(nil, &want))
		equal(t, must[millrace.TriggerResult](t)(DecodeTriggerResult(golden(t, name))), want)
	}
}

func TestATriggerIsCalledWithAnyJSONOrNothing(t *testing.T) {
	for body, want := range map[string]string{"": "", " \n": "", `{"a": 1}`: `{"a": 1}`, " 7 ": "7", "null": "null"} {
		if got, err := DecodeTriggerCall([]byte(body)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
	for _, body := range []string{"a=1", "{", `{"a":1,"a":2}`, "1 2", nested(65), "\xff" + strings.Repeat(" ", 9)} {
		if _, err := DecodeTriggerCall([]byte(body)); millrace.CodeOf(err) != millrace.CodeMalformed {
			t.Errorf("%q: %v", body, err)
		}
	}
}
