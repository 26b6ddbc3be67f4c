package millrace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

func sample() millrace.Event {
	return millrace.Event{
		ID: "a-1", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7",
		Time:        time.UnixMilli(1794704000123).UTC(),
		ContentType: millrace.JSONContentType,
		Data:        []byte(`{"n":1}`),
		Attributes:  map[string]string{"source": "/shop", "b": "2"},
	}
}

func TestAnEventSurvivesItsStoredForm(t *testing.T) {
	bare := millrace.Event{ID: "x", Topic: "t", Type: "u", Tenant: "default", Time: time.UnixMilli(0).UTC(), ContentType: millrace.JSONContentType}
	binary := sample()
	binary.ContentType, binary.Data = "application/octet-stream", []byte{0, 1, 255}
	for _, e := range []millrace.Event{sample(), bare, binary} {
		got, err := millrace.DecodeEvent(millrace.AppendEvent(nil, &e))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheStoredFormOfAnEventIsTheSameEveryTime(t *testing.T) {
	e := sample()
	first := millrace.AppendEvent(nil, &e)
	for range 50 {
		if got := millrace.AppendEvent(nil, &e); string(got) != string(first) {
			t.Fatalf("got %q, want %q", got, first)
		}
	}
}

func TestATruncatedEventIsAnError(t *testing.T) {
	e := sample()
	e.Data = nil
	whole := millrace.AppendEvent(nil, &e)
	for n := range whole {
		if _, err := millrace.DecodeEvent(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes: got no error", n, len(whole))
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	e := sample()
	f.Add(millrace.AppendEvent(nil, &e))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := millrace.DecodeEvent(b)
		if err != nil {
			return
		}
		again, err := millrace.DecodeEvent(millrace.AppendEvent(nil, &e))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEveryFaultOfAnEventIsNamed(t *testing.T) {
	e := sample()
	e.ID = strings.Repeat("x", 129)
	e.Topic = "a:b"
	e.Type = ""
	e.Tenant = ".."
	e.Key = "tab\there"
	e.ContentType = "no media type"
	e.Attributes = map[string]string{"Upper": "x"}
	var got []string
	for _, f := range e.Faults("body[3]") {
		got = append(got, f.Location+" "+f.Message)
	}
	want := []string{
		"body[3].id must be at most 128 bytes",
		"body[3].topic must not contain ':'",
		"body[3].type must not be empty",
		"body[3].tenant must not be . or ..",
		"body[3].key must not contain control characters",
		"body[3].content_type must be a media type",
		"body[3].attributes must have names of 1 to 64 of a-z, 0-9 and '_'",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnEventIsRefusedForWhatItsDataIs(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*millrace.Event)
		want  int
	}{
		{"fine", func(*millrace.Event) {}, 0},
		{"no data", func(e *millrace.Event) { e.Data = nil }, 0},
		{"not JSON", func(e *millrace.Event) { e.Data = []byte("{") }, 1},
		{"not JSON, and not said to be", func(e *millrace.Event) { e.Data, e.ContentType = []byte("{"), "text/plain" }, 0},
		{"too large", func(e *millrace.Event) {
			e.Data = []byte(`"` + strings.Repeat("x", millrace.MaxEventSize) + `"`)
		}, 1},
		{"the store's own topic", func(e *millrace.Event) { e.Topic = millrace.SystemTopic }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := sample()
			tt.spoil(&e)
			if got := e.Faults(""); len(got) != tt.want {
				t.Errorf("got %v, want %d faults", got, tt.want)
			}
		})
	}
}
