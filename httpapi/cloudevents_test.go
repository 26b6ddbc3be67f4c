package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevent "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// anyText is a text of up to some characters, of every kind that is allowed.
func anyText(least, most int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.OneOf(
		rapid.RuneFrom([]rune(`abcXYZ019 %"\/:;,+-_.~`)), rapid.RuneFrom([]rune("üß€漢😀\u00a0")),
	), least, most, 128)
}

// drawCloudEvent makes a random event with the SDK.
func drawCloudEvent(t *rapid.T, id string) cloudevent.Event {
	e := cloudevent.New(cloudevent.CloudEventsVersionV1)
	e.SetID(id + anyText(0, 20).Draw(t, "id"))
	e.SetSource(rapid.SampledFrom([]string{"/shop", "https://shop.example/a?b=c#d", "urn:shop:7", "shop", "/sh%20op"}).Draw(t, "source"))
	e.SetType(rapid.StringMatching(`[A-Za-z0-9._-]{3,40}`).Draw(t, "type"))
	if rapid.Bool().Draw(t, "has time") {
		e.SetTime(time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "time")))
	}
	if rapid.Bool().Draw(t, "has subject") {
		e.SetSubject(anyText(1, 40).Draw(t, "subject"))
	}
	if rapid.Bool().Draw(t, "has schema") {
		e.SetDataSchema("https://shop.example/schema.json")
	}
	if rapid.Bool().Draw(t, "has partitionkey") {
		e.SetExtension("partitionkey", anyText(1, 40).Draw(t, "partitionkey"))
	}
	e.SetExtension("tenant", rapid.SampledFrom([]string{"acme", "bolt", "42"}).Draw(t, "tenant"))
	for _, name := range []string{"note", "traceparent", "a1"} {
		switch rapid.IntRange(0, 3).Draw(t, name) {
		case 1:
			e.SetExtension(name, anyText(1, 40).Draw(t, name))
		case 2:
			e.SetExtension(name, rapid.Int32().Draw(t, name))
		case 3:
			e.SetExtension(name, rapid.Bool().Draw(t, name))
		}
	}
	drawData(t, &e)
	return e
}

func drawData(t *rapid.T, e *cloudevent.Event) {
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "data") {
	case 1:
		err = e.SetData("application/json", map[string]any{"n": rapid.Int().Draw(t, "n"), "s": anyText(0, 20).Draw(t, "s")})
	case 2:
		err = e.SetData("application/json", []byte(`{"as":["bytes", 1.0 ]}`))
	case 3:
		err = e.SetData("text/plain; charset=utf-8", anyText(1, 40).Draw(t, "text"))
	case 4:
		err = e.SetData("image/png", rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wanted is the event that a CloudEvent is to become.
func wanted(e *cloudevent.Event) millrace.Event {
	w := millrace.Event{ID: e.ID(), Topic: "orders", Type: e.Type(), Time: e.Time(), ContentType: e.DataContentType(), Data: e.Data(), Key: e.Subject()}
	w.Attributes = map[string]string{"source": e.Source()}
	if e.DataSchema() != "" {
		w.Attributes["dataschema"] = e.DataSchema()
	}
	for name, value := range e.Extensions() {
		w.Attributes[name] = fmt.Sprint(value)
	}
	w.Tenant = w.Attributes["tenant"]
	delete(w.Attributes, "tenant")
	if w.Key == "" {
		w.Key = w.Attributes["partitionkey"]
		delete(w.Attributes, "partitionkey")
	}
	if w.ContentType == "" {
		w.ContentType = millrace.JSONContentType
	}
	return w
}

// newRequest is an empty publish.
func newRequest(t *rapid.T, url string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+events, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// written is the request that the SDK makes of an event in a mode.
func written(t *rapid.T, url string, mode binding.Encoding, e *cloudevent.Event) *http.Request {
	r := newRequest(t, url)
	ctx := binding.WithForceBinary(context.Background())
	if mode == binding.EncodingStructured {
		ctx = binding.WithForceStructured(context.Background())
	}
	if err := cehttp.WriteRequest(ctx, (*binding.EventMessage)(e), r); err != nil {
		t.Fatal(err)
	}
	// The SDK leaves out the percent-encoding that the HTTP binding asks for.
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Ce-") {
			r.Header[name] = []string{percentEncoded(values[0])}
		}
	}
	return r
}

// percentEncoded writes a value as the HTTP binding says: what is not a printable
// character of ASCII, the space, the quote and the percent sign are encoded.
func percentEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// batchOf is the request that holds events as a batch; each is as the SDK writes it.
func batchOf(t *rapid.T, url string, list []cloudevent.Event) *http.Request {
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(t, url)
	r.Header.Set("Content-Type", cloudevent.ApplicationCloudEventsBatchJSON)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

func TestWhatTheCloudEventsSDKSendsArrivesWithEqualFields(t *testing.T) {
	b := openBroker(t)
	s := newSite(t, b, Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		one := []cloudevent.Event{drawCloudEvent(t, fmt.Sprintf("%d.", round))}
		batch := []cloudevent.Event{}
		for i := range rapid.IntRange(1, 4).Draw(t, "size") {
			batch = append(batch, drawCloudEvent(t, fmt.Sprintf("%d.%d.", round, i)))
		}
		s.arrives(t, b, written(t, s.url, binding.EncodingBinary, &one[0]), one)
		one[0].SetID("s" + one[0].ID())
		s.arrives(t, b, written(t, s.url, binding.EncodingStructured, &one[0]), one)
		s.arrives(t, b, batchOf(t, s.url, batch), batch)
	})
}

// arrives sends a request and compares what is then in the queue.
func (s *site) arrives(t *rapid.T, b millrace.Backbone, r *http.Request, sent []cloudevent.Event) {
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %d: %s", err, res.StatusCode, text)
	}
	messages, err := b.Queues().Lease(context.Background(), "emails", millrace.LeaseOptions{Max: 100, AtMostOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	got, want := []millrace.Event{}, []millrace.Event{}
	for i := range messages {
		e := messages[i].Event
		e.Seq, e.Prev, e.RecordedAt = 0, 0, time.Time{}
		got = append(got, e)
	}
	for i := range sent {
		want = append(want, wanted(&sent[i]))
	}
	byID := func(a, b millrace.Event) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	for i := range min(len(got), len(want)) {
		if want[i].Time.IsZero() {
			got[i].Time = time.Time{} // that of its arrival
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("differs (-sent +arrived):\n%s", diff)
	}
}

func TestCloudEventsWithOneIDAndSourceAreStoredOnce(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	structured := example(t, "cloudevent_in")
	first := s.want(200, "POST", events, structured, "Content-Type", api.CloudEventType)
	shaped(t, first.body, `{"events":[{"id":"a-1","seq":1,"prev":0,"duplicate":false,"sinks":1}],"durability":"memory"}`, "seq")

	again := s.want(200, "POST", events, `{"n":1}`, "ce-specversion", "1.0", "ce-id", "a-1", "ce-source", "/shop", "ce-type", "created", "ce-subject", "order:7", "ce-tenant", "acme")
	if want := strings.Replace(first.body, "false", "true", 1); again.body != want {
		t.Errorf("got %s, want %s", again.body, want)
	}
	other := s.want(200, "POST", events, strings.Replace(structured, "/shop", "/other", 1), "Content-Type", api.CloudEventType)
	if !strings.Contains(other.body, `"duplicate":false`) {
		t.Errorf("another source's event is a duplicate: %s", other.body)
	}
	batch := s.want(200, "POST", events, example(t, "cloudevents_in"), "Content-Type", api.CloudEventBatchType)
	if n := strings.Count(batch.body, `"sinks":1`); n != 2 {
		t.Errorf("got %s", batch.body)
	}
	if n := s.published(); n != 4 {
		t.Errorf("%v events are stored", n)
	}
}

func TestABadCloudEventIsRefusedWholeAndNothingIsStored(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	good := example(t, "cloudevent_in")
	for _, b := range []bad{
		{"structured", "POST", events, `{"type":"a"}`, 422, "invalid", []string{"body.specversion is required", "body.id is required", "body.source is required"}, []string{"Content-Type", api.CloudEventType}},
		{"batch", "POST", events, `[` + good + `,{"specversion":"0.3"}]`, 422, "invalid", []string{"body[1].id is required", "body[1].source is required", "body[1].type is required", "body[1].specversion must be 1.0"}, []string{"Content-Type", api.CloudEventBatchType}},
		{"binary without a body", "POST", events, ``, 422, "invalid", []string{"header.ce-specversion is required", "header.ce-id is required", "header.ce-source is required"}, []string{"ce-type", "a"}},
		{"binary", "POST", events + "?x=1", `{`, 400, "malformed", []string{"body must be JSON: it ends too early"}, []string{"ce-type", "a"}},
		{"batch without a body", "POST", events, ``, 400, "malformed", []string{"body must be JSON: it ends too early"}, []string{"Content-Type", api.CloudEventBatchType}},
		{"encoded", "POST", events, good, 415, "unsupported_media_type", nil, []string{"Content-Type", api.CloudEventType, "Content-Encoding", "gzip"}},
	} {
		t.Run(b.name, func(t *testing.T) {
			s := &site{t: t, url: s.url, client: s.client}
			code, faults := s.want(b.status, b.method, b.path, b.body, b.header...).problem(t)
			if diff := cmp.Diff(b.faults, faults); diff != "" || code != b.code {
				t.Errorf("%s (-want +got):\n%s", code, diff)
			}
		})
	}
	if n := s.published(); n != 0 {
		t.Errorf("%v events are stored", n)
	}
}
