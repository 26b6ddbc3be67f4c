package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

var orders = PublishPath{Topic: "orders"}

// headers makes headers of names and values by turns.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// context is the headers that every CloudEvent of the binary form has, and more.
func context(more ...string) http.Header {
	return headers(append([]string{"ce-specversion", "1.0", "ce-id", "a-1", "ce-source", "/shop", "ce-type", "created"}, more...)...)
}

func TestACloudEventBecomesAnEventWithItsAttributes(t *testing.T) {
	want := millrace.Event{
		ID: "a-1", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7", Time: at("2026-11-15T01:13:00Z"),
		ContentType: "application/json", Data: []byte(`{"n":1}`),
		Attributes: map[string]string{"source": "/shop", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	equal(t, must[[]millrace.Event](t)(DecodeCloudEvents(StructuredForm, nil, golden(t, "cloudevent_in"), orders)), []millrace.Event{want})

	h := context("ce-time", "2026-11-15T01:13:00Z", "ce-subject", "order%3A7", "ce-tenant", "acme", "Content-Type", "application/json",
		"ce-traceparent", want.Attributes["traceparent"])
	equal(t, must[[]millrace.Event](t)(DecodeCloudEvents(BinaryForm, h, []byte(` {"n":1} `), orders)), []millrace.Event{want})
}

func TestABatchOfCloudEventsBecomesEvents(t *testing.T) {
	want := []millrace.Event{
		{ID: "a-1", Topic: "orders", Type: "created", Key: "order:7", Data: []byte(`{"n":1}`), Attributes: map[string]string{"source": "/shop"}},
		{
			ID: "a-2", Topic: "orders", Type: "scanned", Key: "order:7", ContentType: "image/png", Data: []byte{0xff, 0},
			Attributes: map[string]string{"source": "/shop", "priority": "3", "paid": "true"},
		},
	}
	equal(t, must[[]millrace.Event](t)(DecodeCloudEvents(BatchForm, nil, golden(t, "cloudevents_in"), orders)), want)
}

func TestTheHeadersSayHowAPublishIsWritten(t *testing.T) {
	const unsupported = -1
	for _, c := range []struct {
		header http.Header
		want   PublishForm
	}{
		{headers("Content-Type", "application/json"), EventsForm},
		{headers("Content-Type", "Application/JSON; charset=UTF-8"), EventsForm},
		{headers("Content-Type", "application/cloudevents+json"), StructuredForm},
		{headers("Content-Type", "application/cloudevents+json; charset=utf-8", "ce-id", "a"), StructuredForm},
		{headers("Content-Type", "application/CloudEvents-batch+json"), BatchForm},
		{headers("Content-Type", "application/json", "ce-id", "a"), BinaryForm},
		{headers("ce-specversion", "1.0"), BinaryForm},
		{headers("Content-Type", "image/png", "ce-id", "a"), BinaryForm},
		{headers("Content-Type", "text/plain; charset=latin1", "ce-id", "a"), BinaryForm},
		{headers(), unsupported},
		{headers("Content-Type", "image/png"), unsupported},
		{headers("Content-Type", "application/json; charset=latin1"), unsupported},
		{headers("Content-Type", "application/json; charset=latin1", "ce-id", "a"), unsupported},
		{headers("Content-Type", "application/cloudevents+json; charset=latin1"), unsupported},
		{headers("Content-Type", "application/cloudevents+xml", "ce-id", "a"), unsupported},
		{headers("Content-Type", "application/cloudevents+json; nonsense"), unsupported},
	} {
		got, err := PublishFormOf(c.header)
		if err != nil {
			got = unsupported
		}
		if got != c.want || (err != nil && millrace.CodeOf(err) != millrace.CodeUnsupportedMedia) {
			t.Errorf("%v: got %v, %v", c.header, got, err)
		}
	}
}

func TestHeadersArePercentDecodedOnce(t *testing.T) {
	for value, want := range map[string]string{
		"plain": "plain", "Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀", "%c3%bc": "ü", "%2541": "%41", "a+b": "a+b",
		`"quoted \"inner\" %C3%BC"`: `quoted "inner" ü`, `"`: `"`, `say "x"`: `say "x"`, "raw ü": "raw ü", `""`: "",
	} {
		got := must[[]millrace.Event](t)(DecodeCloudEvents(BinaryForm, context("ce-note", value), nil, orders))
		if got[0].Attributes["note"] != want {
			t.Errorf("%s: got %q, want %q", value, got[0].Attributes["note"], want)
		}
	}
}

func TestTheSubjectOrElseThePartitionKeyIsTheKey(t *testing.T) {
	both := must[[]millrace.Event](t)(DecodeCloudEvents(BinaryForm, context("ce-subject", "s", "ce-partitionkey", "p"), nil, orders))[0]
	if both.Key != "s" || both.Attributes["partitionkey"] != "p" {
		t.Errorf("got %q and %v", both.Key, both.Attributes)
	}
	one := must[[]millrace.Event](t)(DecodeCloudEvents(BinaryForm, context("ce-partitionkey", "p"), nil, orders))[0]
	if _, kept := one.Attributes["partitionkey"]; one.Key != "p" || kept {
		t.Errorf("got %q and %v", one.Key, one.Attributes)
	}
}

func TestTheDataOfACloudEventArrivesAsItsContentTypeSays(t *testing.T) {
	structured := func(members string) millrace.Event {
		t.Helper()
		return must[[]millrace.Event](t)(DecodeCloudEvents(StructuredForm, nil, []byte(`{"specversion":"1.0","id":"a","source":"s","type":"t",`+members+`}`), orders))[0]
	}
	binary := func(body string, more ...string) millrace.Event {
		t.Helper()
		return must[[]millrace.Event](t)(DecodeCloudEvents(BinaryForm, context(more...), []byte(body), orders))[0]
	}
	for name, c := range map[string]struct {
		got               millrace.Event
		contentType, data string
	}{
		"json":             {structured(`"data":{ "n" : 1.0 }`), "", `{ "n" : 1.0 }`},
		"null":             {structured(`"data":null`), "", ""},
		"no data":          {structured(`"subject":null`), "", ""},
		"text":             {structured(`"data":"a\nü","datacontenttype":"text/plain"`), "text/plain", "a\nü"},
		"a JSON string":    {structured(`"data":"a"`), "", `"a"`},
		"bytes":            {structured(`"data_base64":"AP8=","datacontenttype":"image/png","data":null`), "image/png", "\x00\xff"},
		"encoded JSON":     {structured(`"data_base64":"IFsxXSA="`), "", `[1]`},
		"encoded nothing":  {structured(`"data_base64":""`), "", ``},
		"binary json":      {binary(" [1]\n", "Content-Type", "application/vnd.x+json"), "application/vnd.x+json", "[1]"},
		"binary bytes":     {binary("{\xff", "Content-Type", "image/png"), "image/png", "{\xff"},
		"binary untyped":   {binary("{"), "application/octet-stream", "{"},
		"binary no data":   {binary(""), "", ""},
		"binary null":      {binary("null", "Content-Type", "application/json"), "application/json", ""},
		"binary form":      {binary("a=b", "Content-Type", "application/x-www-form-urlencoded"), "application/x-www-form-urlencoded", "a=b"},
		"binary type only": {binary("", "Content-Type", "image/png"), "image/png", ""},
	} {
		if c.got.ContentType != c.contentType || string(c.got.Data) != c.data {
			t.Errorf("%s: got %q of type %q", name, c.got.Data, c.got.ContentType)
		}
	}
}

// cloudFault is a CloudEvent that must be refused.
type cloudFault struct {
	name, body string
	code       millrace.Code
	faults     []string
}

var structuredFaults = []cloudFault{
	{"nothing", ``, malformed, []string{"body must be JSON: it ends too early"}},
	{"duplicate", `{"id":"a","id":"a"}`, malformed, []string{"body.id is given twice"}},
	{"UTF-8", "{\"id\":\"\xff\"}", malformed, []string{"body.id must be valid UTF-8"}},
	{"duplicate in the data", `{"data":{"a":1,"a":2}}`, malformed, []string{"body.data.a is given twice"}},
	{"array", `[]`, invalid, []string{"body must be an object"}},
	{"empty", `{}`, invalid, []string{"body.specversion is required", "body.id is required", "body.source is required", "body.type is required"}},
	{"nulls", `{"specversion":null,"id":null,"source":null,"type":null,"time":null}`, invalid, []string{
		"body.specversion is required", "body.id is required", "body.source is required", "body.type is required",
	}},
	{"blanks", `{"specversion":"","id":"","source":"","type":"","time":"","subject":"","tenant":"","datacontenttype":"","dataschema":""}`, invalid, []string{
		"body.datacontenttype must not be empty", "body.specversion must be 1.0", "body.source must not be empty", "body.dataschema must be a URI",
		"body.id must not be empty", "body.type must not be empty", "body.tenant must not be empty", "body.time must not be empty", "body.subject must not be empty",
	}},
	{"kinds", `{"specversion":1.0,"id":7,"source":true,"type":[],"time":{},"subject":1,"datacontenttype":1,"dataschema":1}`, invalid, []string{
		"body.specversion must be a string", "body.id must be a string", "body.source must be a string", "body.type must be a string",
		"body.time must be a string", "body.subject must be a string", "body.datacontenttype must be a string", "body.dataschema must be a string",
	}},
	{"old", good(`"specversion":"0.3"`, `"specversion":"1.0"`), invalid, []string{"body.specversion must be 1.0"}},
	{"type", good(`"type":"a/b"`, `"type":"t"`), invalid, []string{"body.type must hold only letters, digits, '.', '_' and '-'"}},
	{"source", good(`"source":"%zz"`, `"source":"/s"`), invalid, []string{"body.source must be a URI reference"}},
	{"long id", good(`"id":"`+strings.Repeat("x", 129)+`"`, `"id":"a"`), invalid, []string{"body.id must be at most 128 bytes"}},
	{"time", goodAnd(`"time":"yesterday"`), invalid, []string{"body.time must be a time as in RFC 3339"}},
	{"key", goodAnd(`"partitionkey":"\u0001"`), invalid, []string{"body.partitionkey must not contain control characters"}},
	{"tenant", goodAnd(`"tenant":"a:b"`), invalid, []string{"body.tenant must not contain ':'"}},
	{"schema", goodAnd(`"dataschema":"/relative"`), invalid, []string{"body.dataschema must be a URI"}},
	{"content type", goodAnd(`"datacontenttype":"no type;;"`), invalid, []string{"body.datacontenttype must be a media type"}},
	{"extension's name", goodAnd(`"traceParent":"x"`), invalid, []string{"body.traceParent must have a name of 1 to 64 of a-z, 0-9 and '_'"}},
	{"extension's odd name", goodAnd(`"my ext":{}`), invalid, []string{"body must have attribute names of 1 to 64 of a-z, 0-9 and '_'"}},
	{"extension's long name", goodAnd(`"` + strings.Repeat("a", 65) + `":"x"`), invalid, []string{"body must have attribute names of 1 to 64 of a-z, 0-9 and '_'"}},
	{"extension's kinds", goodAnd(`"a":{},"b":[],"c":1.5,"d":1e3,"e":2147483648`), invalid, []string{
		"body.a must be a string, true, false or an integer", "body.b must be a string, true, false or an integer",
		"body.c must be an integer of 32 bits", "body.d must be an integer of 32 bits", "body.e must be an integer of 32 bits",
	}},
	{"extension's text", goodAnd(`"a":"` + strings.Repeat("x", 1025) + `"`), invalid, []string{"body.a must be at most 1024 bytes"}},
	{"many extensions", goodAnd(manyExtensions()), invalid, []string{"body must have at most 64 attributes"}},
	{"both data", goodAnd(`"data":1,"data_base64":"AA=="`), invalid, []string{"body.data_base64 must not be given with data"}},
	{"data is no text", goodAnd(`"data":{},"datacontenttype":"text/plain"`), invalid, []string{"body.data must be a string, or given as data_base64, because the content type is not JSON"}},
	{"base64", goodAnd(`"data_base64":"?"`), invalid, []string{"body.data_base64 must be base64"}},
	{"no JSON in base64", goodAnd(`"data_base64":"ew=="`), invalid, []string{"body.data_base64 must hold JSON, as the content type says"}},
	{"duplicates in base64", goodAnd(`"data_base64":"eyJhIjoxLCJhIjoyfQ=="`), invalid, []string{"body.data_base64 must hold JSON, as the content type says"}},
	{"large", goodAnd(`"data":"` + strings.Repeat("x", millrace.MaxEventSize) + `"`), invalid, []string{"body must be at most 262144 bytes"}},
}

const goodCloudEvent = `{"specversion":"1.0","id":"a","source":"/s","type":"t"}`

// good is a good event with something in place of a part.
func good(with, part string) string { return strings.Replace(goodCloudEvent, part, with, 1) }

// goodAnd is a good event with further members.
func goodAnd(members string) string {
	return strings.TrimSuffix(goodCloudEvent, "}") + "," + members + "}"
}

func manyExtensions() string {
	names := []string{}
	for a := 'a'; a < 'a'+16; a++ {
		for b := 'a'; b < 'a'+4; b++ {
			names = append(names, `"x`+string(a)+string(b)+`":1`)
		}
	}
	return strings.Join(names, ",") // 64, and source
}

func checkFaults(t *testing.T, name string, err error, code millrace.Code, want []string) {
	t.Helper()
	got := []string{}
	if e := WireError(err); err != nil && e.Code == code {
		for _, f := range e.Faults {
			got = append(got, f.Location+" "+f.Message)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
	}
}

func TestAStructuredCloudEventIsRefusedWithAllItsFaults(t *testing.T) {
	for _, c := range structuredFaults {
		_, err := DecodeCloudEvents(StructuredForm, nil, []byte(c.body), orders)
		checkFaults(t, c.name, err, c.code, c.faults)
	}
}

func TestABatchIsRefusedWholeAndSaysWhichEventIsAtFault(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		faults []string
	}{
		"second":   {`[` + goodCloudEvent + `,` + goodAnd(`"tenant":"a:b","a":{}`) + `,7]`, []string{"body[1].a must be a string, true, false or an integer", "body[1].tenant must not contain ':'", "body[2] must be an object"}},
		"object":   {goodCloudEvent, []string{"body must be an array"}},
		"none":     {`[]`, []string{"body must hold 1 to 1000 events"}},
		"too many": {`[` + strings.Repeat(goodCloudEvent+",", 1000) + goodCloudEvent + `]`, []string{"body must hold 1 to 1000 events"}},
	} {
		_, err := DecodeCloudEvents(BatchForm, nil, []byte(c.body), orders)
		checkFaults(t, name, err, invalid, c.faults)
	}
}

func TestABinaryCloudEventIsRefusedWithAllItsFaults(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		body   string
		code   millrace.Code
		faults []string
	}{
		"nothing":   {headers("ce-foo", "bar"), "", invalid, []string{"header.ce-specversion is required", "header.ce-id is required", "header.ce-source is required", "header.ce-type is required"}},
		"twice":     {context("ce-id", "b", "ce-note", "1", "ce-note", "2"), "", invalid, []string{"header.ce-id is given twice", "header.ce-note is given twice"}},
		"name":      {context("ce-my-ext", "b"), "", invalid, []string{"header.ce-my-ext must have a name of 1 to 64 of a-z, 0-9 and '_'"}},
		"odd name":  {context("ce-a.b", "b"), "", invalid, []string{"header must have attribute names of 1 to 64 of a-z, 0-9 and '_'"}},
		"type":      {context("ce-datacontenttype", "text/plain", "ce-data", "x"), "", invalid, []string{"header.ce-data must be given as the body", "header.ce-datacontenttype must be given as the Content-Type"}},
		"percent":   {context("ce-a", "100%", "ce-b", "%ff"), "", invalid, []string{"header.ce-a must be percent-encoded: a % stands before two hexadecimal digits", "header.ce-b must be valid UTF-8"}},
		"control":   {context("ce-a", "%0a", "ce-subject", "%00"), "", invalid, []string{"header.ce-subject must not contain control characters", "header.ce-a must not contain control characters"}},
		"blank":     {context("ce-tenant", "", "ce-subject", ""), "", invalid, []string{"header.ce-tenant must not be empty", "header.ce-subject must not be empty"}},
		"media":     {context("Content-Type", "no type;;"), "x", invalid, []string{"header.Content-Type must be a media type"}},
		"no JSON":   {context("Content-Type", "application/json"), "{", malformed, []string{"body must be JSON: it ends too early"}},
		"duplicate": {context("Content-Type", "application/json"), `{"a":1,"a":2}`, malformed, []string{"body.a is given twice"}},
		"trailing":  {context("Content-Type", "application/json"), `1 2`, malformed, []string{"body must be one JSON value, with nothing after it"}},
		"deep":      {context("Content-Type", "application/json"), nested(65), malformed, []string{"body nests deeper than 64"}},
		"large":     {context("Content-Type", "image/png"), strings.Repeat("x", millrace.MaxEventSize), invalid, []string{"body must be at most 262144 bytes"}},
	} {
		_, err := DecodeCloudEvents(BinaryForm, c.header, []byte(c.body), orders)
		checkFaults(t, name, err, c.code, c.faults)
	}
}

func TestWhatStandsBesideACloudEventIsCheckedToo(t *testing.T) {
	_, err := DecodeCloudEvents(StructuredForm, nil, []byte(`{}`), PublishPath{Topic: "millrace", IdempotencyKey: strings.Repeat("k", 125)})
	checkFaults(t, "path", err, invalid, []string{
		"path.topic is reserved", "header.Idempotency-Key must be at most 124 bytes",
		"body.specversion is required", "body.id is required", "body.source is required", "body.type is required",
	})
}

func FuzzDecodeCloudEvents(f *testing.F) {
	for _, c := range structuredFaults {
		if len(c.body) < 1000 {
			f.Add(c.body, "x", "application/json")
		}
	}
	f.Add(goodCloudEvent, "%C3%BC", "image/png")
	f.Add(`[`+goodCloudEvent+`]`, `"a\"b"`, "application/json; charset=utf-8")
	f.Fuzz(func(t *testing.T, body, value, contentType string) {
		for _, form := range []PublishForm{BinaryForm, StructuredForm, BatchForm} {
			h := context("ce-note", value, "ce-subject", value, "Content-Type", contentType)
			events, err := DecodeCloudEvents(form, h, []byte(body), orders)
			if refused(t, err) {
				continue
			}
			for i := range events {
				if faults := events[i].Faults(""); faults != nil {
					t.Fatalf("form %d: took an event with faults: %v", form, faults)
				}
				if events[i].ID == "" || events[i].Source() == "" {
					t.Fatalf("form %d: took an event without an id or a source", form)
				}
			}
		}
	})
}
