package api

import (
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestAFrameLooksAsInTheExample(t *testing.T) {
	got := string(AppendFrame(nil, &millrace.LiveItem{Event: exampleEvent}))
	if want := "id: 01K0A3M8Z6\nevent: event\ndata: " + string(golden(t, "event")) + "\n\n"; got != want {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	got = string(AppendFrame(nil, &millrace.LiveItem{Missed: 12}))
	if want := "event: missed\ndata: {\"missed\":12}\n\n"; got != want {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

func TestAFrameOfDataWithLineBreaksHasALineForEach(t *testing.T) {
	e := exampleEvent
	e.Data = []byte("{\n\"n\":\r\n1\r}\n")
	var data []string
	for line := range strings.Lines(string(AppendFrame(nil, &millrace.LiveItem{Event: e}))) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, strings.TrimSuffix(text, "\n"))
		}
	}
	item, ok, err := DecodeFrame("event", []byte(strings.Join(data, "\n")))
	if len(data) != 5 || !ok || err != nil || string(item.Event.Data) != "{\n\"n\":\n1\n}" {
		t.Errorf("%d lines: %q %v %v", len(data), item.Event.Data, ok, err)
	}
}

func TestAFrameIsReadByItsName(t *testing.T) {
	item, ok, err := DecodeFrame("event", golden(t, "event"))
	equal(t, item, millrace.LiveItem{Event: exampleEvent})
	if !ok || err != nil {
		t.Error(ok, err)
	}
	item, ok, err = DecodeFrame("missed", []byte(`{"missed":12,"more":[]}`))
	equal(t, item, millrace.LiveItem{Missed: 12})
	if !ok || err != nil {
		t.Error(ok, err)
	}
	if _, ok, err := DecodeFrame("other", []byte(`?`)); ok || err != nil {
		t.Error(ok, err)
	}
	for _, text := range []string{``, `{`, `[]`, `{"missed":-1}`, `{"missed":"1"}`} {
		if _, _, err := DecodeFrame("missed", []byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
