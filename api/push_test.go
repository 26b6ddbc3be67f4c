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
