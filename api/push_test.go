package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/millrace-dev/millrace"
)

func TestAPushedBatchIsAnArrayOfEvents(t *testing.T) {
	body, kind := AppendPush(nil, millrace.FormatEvents, []millrace.Event{exampleEvent, exampleEvent})
	want := "[" + string(golden(t, "event")) + "," + string(golden(t, "event")) + "]"
	if string(body) != want || kind != "application/json" {
		t.Errorf("%s %s", kind, body)
	}
}

func TestTheCloudEventsLibraryReadsAPushedBatch(t *testing.T) {
	binary := exampleEvent
	binary.ContentType, binary.Data, binary.Key, binary.Attributes = "image/png", []byte{0, 1, 255}, "", map[string]string{"traceparent": "00-1", "with_line": "x"}
	empty := exampleEvent
	empty.Data, empty.Seq = nil, 1<<53-1
	body, kind := AppendPush(nil, millrace.FormatCloudEvents, []millrace.Event{exampleEvent, binary, empty})
	if kind != "application/cloudevents-batch+json" {
		t.Error(kind)
	}
	var events []event.Event
	if err := json.Unmarshal(body, &events); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	for i, want := range []millrace.Event{exampleEvent, binary, empty} {
		got := events[i]
		if err := got.Validate(); err != nil {
			t.Error(err)
		}
		if got.ID() != want.ID || got.Type() != want.Type || got.Subject() != want.Key || !got.Time().Equal(want.Time) || string(got.Data()) != string(want.Data) {
			t.Errorf("got %v, want %+v", got, want)
		}
		if x := got.Extensions(); x["tenant"] != want.Tenant || x["topic"] != want.Topic {
			t.Errorf("extensions %v", x)
		}
	}
	if got := events[0]; got.Source() != "/shop" || got.Extensions()["previd"] != "38" || got.Extensions()["partitionkey"] != "order:7" {
		t.Errorf("%v", got)
	}
	if got := events[1]; got.Source() != "/topics/orders" || got.Extensions()["traceparent"] != "00-1" || got.DataContentType() != "image/png" {
		t.Errorf("%v", got)
	}
	if got := events[2].Extensions()["seq"]; got != "9007199254740991" {
		t.Errorf("seq is %v", got)
	}
	if _, err := time.Parse(time.RFC3339, events[0].Extensions()["recordedtime"].(string)); err != nil {
		t.Error(err)
	}
}

func TestWhatAPublisherOfCloudEventsSaidIsPushedAsItWasSaid(t *testing.T) {
	in := `{"specversion":"1.0","id":"a-1","source":"/shop","type":"created","subject":"order:7","partitionkey":"p-1","dataschema":"https://shop.example/v1","note":"x","data":{"n":1}}`
	told := func(text []byte) millrace.Event {
		t.Helper()
		return must[[]millrace.Event](t)(DecodeCloudEvents(StructuredForm, nil, text, PublishPath{Topic: "orders"}))[0]
	}
	first := told([]byte(in))
	first.Time, first.RecordedAt, first.Tenant, first.Seq = exampleEvent.Time, exampleEvent.RecordedAt, "acme", 41
	pushed := AppendCloudEvent(nil, &first)
	var seen event.Event
	if err := json.Unmarshal(pushed, &seen); err != nil || seen.Validate() != nil {
		t.Fatalf("%v, %v\n%s", err, seen.Validate(), pushed)
	}
	if seen.Subject() != "order:7" || seen.DataSchema() != "https://shop.example/v1" || seen.Extensions()["partitionkey"] != "p-1" {
		t.Errorf("pushed %s", pushed)
	}
	again := told(pushed)
	for name, want := range first.Attributes {
		if got := again.Attributes[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if again.Key != first.Key || len(first.Attributes) != 4 {
		t.Errorf("key %q, %v", again.Key, first.Attributes)
	}
}

func TestAnAttributeThatIsNoSchemaMakesNoBrokenCloudEvent(t *testing.T) {
	e := exampleEvent
	e.Attributes = map[string]string{"dataschema": "v1"}
	var seen event.Event
	if err := json.Unmarshal(AppendCloudEvent(nil, &e), &seen); err != nil || seen.Validate() != nil || seen.DataSchema() != "" {
		t.Errorf("%v, %v, %q", err, seen.Validate(), seen.DataSchema())
	}
}
