package api

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
)

// faultCase is a bad input, its code, and each fault as "location message".
type faultCase struct {
	name, body string
	code       millrace.Code
	faults     []string
}

func (c faultCase) check(t *testing.T, err error) {
	t.Helper()
	var e *millrace.Error
	if !errors.As(err, &e) {
		t.Fatalf("no error: %v", err)
	}
	got := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		got[i] = f.Location + " " + f.Message
	}
	if e.Code != c.code {
		t.Errorf("code %s, want %s", e.Code, c.code)
	}
	equal(t, got, c.faults)
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

const (
	malformed = millrace.CodeMalformed
	invalid   = millrace.CodeInvalid
)

var publishFaults = []faultCase{
	{"nothing", "", malformed, []string{"body must be JSON: it ends too early"}},
	{"no JSON", "hello", malformed, []string{"body must be JSON: see byte 0"}},
	{"cut short", `[{"type":"a"},{"type":`, malformed, []string{"body[1].type must be JSON: it ends too early"}},
	{"duplicate", `[{"type":"a"},{"type":"a","tenant":"b","tenant":"c"}]`, malformed, []string{"body[1].tenant is given twice"}},
	{"duplicate by escape", `{"type":"a","\u0074ype":"b"}`, malformed, []string{"body.type is given twice"}},
	{"duplicate in data", `{"type":"a","data":{"x":[{"y":1,"y":2}]}}`, malformed, []string{"body.data.x[0].y is given twice"}},
	{"trailing", `{"type":"a"} {}`, malformed, []string{"body must be one JSON value, with nothing after it"}},
	{"trailing garbage", `{"type":"a"}]`, malformed, []string{"body must be one JSON value, with nothing after it"}},
	{"UTF-8", "{\"type\":\"a\xff\"}", malformed, []string{"body.type must be valid UTF-8"}},
	{"lone surrogate", `{"type":"a","key":"\ud800"}`, malformed, []string{"body.key must be JSON: see byte 19"}},
	{"too deep", `{"type":"a","data":` + nested(64) + `}`, malformed, []string{"body nests deeper than 64"}},
	{"malformed wins", `[{"nope":1},{"nope":`, malformed, []string{"body[1].nope must be JSON: it ends too early"}},

	{"unknown", `{"type":"a","colour":"red"}`, invalid, []string{"body.colour is not a known field"}},
	{"unknown and odd", `{"type":"a","my secret":"red"}`, invalid, []string{"body has an unknown field"}},
	{"case variant", `{"Type":"a"}`, invalid, []string{"body.Type is not a known field", "body.type is required"}},
	{"stamped", `{"type":"a","seq":1}`, invalid, []string{"body.seq is not a known field"}},
	{"missing", `[{"type":"a"},{}]`, invalid, []string{"body[1].type is required"}},
	{"wrong types", `[{"id":1,"type":null,"tenant":[],"key":{},"time":5,"data":1,"content_type":true,"attributes":[],"delay":3}]`, invalid, []string{
		"body[0].id must be a string", "body[0].type must be a string", "body[0].tenant must be a string", "body[0].key must be a string",
		"body[0].time must be a string", "body[0].content_type must be a string", "body[0].attributes must be an object", "body[0].delay must be a string",
	}},
	{"not an event", `[1,"x",null]`, invalid, []string{"body[0] must be an object", "body[1] must be an object", "body[2] must be an object"}},
	{"neither", `7`, invalid, []string{"body must be an array"}},
	{"empty array", `[]`, invalid, []string{"body must hold 1 to 1000 events"}},
	{"too many", `[` + strings.Repeat(`{"type":"a"},`, 1000) + `{"type":"a"}]`, invalid, []string{"body must hold 1 to 1000 events"}},
	{"names", `[{"type":"a:b","tenant":"x:y"},{"type":".","tenant":"ü"}]`, invalid, []string{
		"body[0].type must not contain ':'", "body[0].tenant must not contain ':'",
		"body[1].type must not be . or ..", "body[1].tenant must hold only letters, digits, '.', '_' and '-'",
	}},
	{"empty texts", `{"id":"","type":"","tenant":"","key":"","content_type":""}`, invalid, []string{
		"body.id must not be empty", "body.type must not be empty", "body.tenant must not be empty", "body.key must not be empty", "body.content_type must not be empty",
	}},
	{"limits", `{"id":"` + strings.Repeat("i", 129) + `","type":"` + strings.Repeat("t", 129) + `","key":"` + strings.Repeat("k", 513) + `"}`, invalid, []string{
		"body.id must be at most 128 bytes", "body.type must be at most 128 characters", "body.key must be at most 512 bytes",
	}},
	{"control character", `{"type":"a","key":"a\u0000b"}`, invalid, []string{"body.key must not contain control characters"}},
	{"times", `[{"type":"a","time":"yesterday"},{"type":"a","time":"2026-11-15"}]`, invalid, []string{
		"body[0].time must be a time as in RFC 3339", "body[1].time must be a time as in RFC 3339",
	}},
	{"delays", `[{"type":"a","delay":"-1s"},{"type":"a","delay":"367d"},{"type":"a","deliver_at":"tomorrow"},{"type":"a","delay":60}]`, invalid, []string{
		`body[0].delay must be a duration such as "1m30s"`, "body[1].delay must be between 0s and 366d",
		"body[2].deliver_at must be a time as in RFC 3339", "body[3].delay must be a string",
	}},
	{"delay and time", `[{"type":"a"},{"type":"a","delay":"1m","deliver_at":"2026-11-15T01:13:00Z"}]`, invalid, []string{"body[1].deliver_at must not be given with delay"}},
	{"both delays", `{"type":"a","delay":"0s","deliver_at":"x"}`, invalid, []string{
		"body.deliver_at must be a time as in RFC 3339", "body.deliver_at must not be given with delay",
	}},
	{"two data", `{"type":"a","data":1,"data_base64":"AA=="}`, invalid, []string{"body.data_base64 must not be given with data"}},
	{"data of another type", `{"type":"a","content_type":"text/plain","data":"x"}`, invalid, []string{
		"body.data must be given as data_base64, because the content type is not JSON",
	}},
	{"base64 of JSON", `{"type":"a","data_base64":"AA=="}`, invalid, []string{"body.data_base64 must be given as data, because the content type is JSON"}},
	{"base64", `{"type":"a","content_type":"text/plain","data_base64":"A"}`, invalid, []string{"body.data_base64 must be base64"}},
	{"attributes", `{"type":"a","attributes":{"source":1,"b":"\u0001"}}`, invalid, []string{
		"body.attributes.source must be a string", "body.attributes.b must not contain control characters",
	}},
	{"attribute name", `{"type":"a","attributes":{"A b":"x"}}`, invalid, []string{"body.attributes must have names of 1 to 64 of a-z, 0-9 and '_'"}},
	{"content type", `{"type":"a","content_type":"a b c"}`, invalid, []string{"body.content_type must be a media type"}},
	{"too large", `[{"type":"a","data":"` + strings.Repeat("x", millrace.MaxEventSize) + `"}]`, invalid, []string{"body[0] must be at most 262144 bytes"}},
}

func TestABadPublishIsRefusedWithEveryFault(t *testing.T) {
	for _, c := range publishFaults {
		t.Run(c.name, func(t *testing.T) {
			events, err := DecodePublish([]byte(c.body), PublishPath{Topic: "orders"})
			c.check(t, err)
			if events != nil {
				t.Errorf("got %d events with the error", len(events))
			}
		})
	}
}

func TestFaultsOfPathAndHeaderComeWithTheBodys(t *testing.T) {
	_, err := DecodePublish([]byte(`{}`), PublishPath{Topic: "a:b", IdempotencyKey: "a\x00"})
	faultCase{code: invalid, faults: []string{
		"path.topic must not contain ':'", "header.Idempotency-Key must not contain control characters", "body.type is required",
	}}.check(t, err)
	_, err = DecodePublish([]byte(`{"type":"a"}`), PublishPath{Topic: "millrace"})
	faultCase{code: invalid, faults: []string{"path.topic is reserved"}}.check(t, err)
}

func TestDataMayNestToTheLimit(t *testing.T) {
	deep := nested(63)
	events, err := DecodePublish([]byte(`{"type":"a","data":`+deep+`}`), PublishPath{Topic: "orders"})
	if err != nil || string(events[0].Data) != deep {
		t.Fatal(err)
	}
}

func TestDataKeepsItsText(t *testing.T) {
	for _, data := range []string{`{ "b" : 1.0,  "a":[ 1e400 ,2 ] }`, `"\u00fc\/"`, `123456789012345678901234567890`, `false`} {
		events, err := DecodePublish([]byte(`[{"type":"a","data": `+data+` }]`), PublishPath{Topic: "orders"})
		if err != nil || string(events[0].Data) != data {
			t.Errorf("%s became %s: %v", data, events[0].Data, err)
		}
	}
}

func TestTheIdempotencyKeyNamesEventsWithoutAnID(t *testing.T) {
	events, err := DecodePublish([]byte(`[{"type":"a"},{"type":"a","id":"mine"},{"type":"a"}]`), PublishPath{Topic: "orders", IdempotencyKey: "K"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []string{events[0].ID, events[1].ID, events[2].ID}, []string{"K.0", "mine", "K.2"})
}

func TestABadQueueIsRefusedWithEveryFault(t *testing.T) {
	for _, c := range []faultCase{
		{"empty", `{}`, invalid, []string{"body.match is required"}},
		{"null", `null`, invalid, []string{"body must be an object"}},
		{"pattern", `{"match":"("}`, invalid, []string{"body.match is not a regular expression: missing closing )"}},
		{"types", `{"match":1,"lease":30,"max_attempts":"20","ordered":0,"redact":"x","overflow":null}`, invalid, []string{
			"body.match must be a string", "body.lease must be a string", "body.max_attempts must be an integer",
			"body.ordered must be true or false", "body.redact must be an array", "body.overflow must be a string",
		}},
		{"values", `{"match":"x","lease":"1ms","max_attempts":-1,"on_exhausted":"explode","max_length":9007199254740992,"tenant_limit":1.5}`, invalid, []string{
			"body.max_attempts must be between 0 and 9007199254740991", "body.on_exhausted must be dead or block",
			"body.max_length must be between 0 and 9007199254740991", "body.tenant_limit must be an integer",
			"body.lease must be between 100ms and 12h0m0s",
		}},
		{"huge", `{"match":"x","max_length":92233720368547758080}`, invalid, []string{"body.max_length must be between 0 and 9007199254740991"}},
		{"tracking", `{"match":"x","tracked":1,"redact":["a"],"retention":"4000d","error_retention":"-1s"}`, invalid, []string{
			"body.tracked must be true or false", "body.error_retention must be a duration such as \"1m30s\"",
			"body.retention must be between 0s and 87600h0m0s", "body.redact[0] must be a JSON Pointer, such as /user/token",
		}},
		{"ways", `{"match":"x","overflow":"wait","on_exhausted":null,"ordered":"yes"}`, invalid, []string{
			"body.overflow must be reject or drop_oldest", "body.on_exhausted must be a string", "body.ordered must be true or false",
		}},
		{"gap", `{"match":"x","ordered":true,"overflow":"drop_oldest"}`, invalid, []string{"body.overflow must be reject in an ordered queue: a dropped message would be a gap"}},
		{"limits", `{"match":"x","tenant_limit":1073741825,"max_length":1073741825,"dead_retention":"4000d"}`, invalid, []string{
			"body.tenant_limit must be between 0 and 1073741824", "body.max_length must be between 0 and 1073741824",
			"body.dead_retention must be between 0s and 87600h0m0s",
		}},
		{"read only", `{"match":"x","name":"emails","counts":{}}`, invalid, []string{"body.name is not a known field", "body.counts is not a known field"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeQueueSpec([]byte(c.body))
			c.check(t, err)
		})
	}
}

func TestABadLeaseIsRefusedWithEveryFault(t *testing.T) {
	for _, c := range []faultCase{
		{"bounds", `{"max":0,"wait":"61s","lease":"13h","consumer":""}`, invalid, []string{
			"body.max must be between 1 and 1000", "body.wait must be between 0s and 1m", "body.lease must be between 0s and 12h", "body.consumer must not be empty",
		}},
		{"consumer", `{"consumer":"a b"}`, invalid, []string{"body.consumer must hold only letters, digits, '.', '_' and '-'"}},
		{"queues", `{"queues":{"a":1}}`, invalid, []string{"body.queues is not a known field"}},
		{"short", `{"lease":"1ms","max":1001}`, invalid, []string{"body.lease must be 0s or at least 100ms", "body.max must be between 1 and 1000"}},
		{"array", `[]`, invalid, []string{"body must be an object"}},
		{"text", `x`, malformed, []string{"body must be JSON: see byte 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeLease([]byte(c.body))
			c.check(t, err)
		})
	}
}

func TestABadSettlementIsRefusedWithEveryFault(t *testing.T) {
	many := `{"receipts":["r0"`
	for i := range millrace.MaxReceipts {
		many += `,"r` + strconv.Itoa(i+1) + `"`
	}
	for _, c := range []struct {
		faultCase
		verb Verb
	}{
		{faultCase{"neither", `{}`, invalid, []string{"body.receipts is required"}}, Ack},
		{faultCase{"both", `{"receipts":[],"items":[]}`, invalid, []string{"body.items must not be given with receipts"}}, Ack},
		{faultCase{"twice", `{"receipts":["a","b","a"]}`, invalid, []string{"body.receipts[2] is given twice"}}, Ack},
		{faultCase{"twice in items", `{"items":[{"receipt":"a"},{"receipt":"a"},{}]}`, invalid, []string{"body.items[1].receipt is given twice", "body.items[2].receipt is required"}}, Bury},
		{faultCase{"another verb's", `{"receipts":["a"],"delay":"1s","lease":"1s"}`, invalid, []string{"body.delay is not a known field", "body.lease is not a known field"}}, Ack},
		{faultCase{"shared with items", `{"items":[{"receipt":"a"}],"error":"boom"}`, invalid, []string{"body.error must be given in each of the items"}}, Retry},
		{faultCase{"values", `{"items":[{"receipt":1,"delay":"31d"},7]}`, invalid, []string{
			"body.items[0].receipt must be a string", "body.items[0].delay must be between 0s and 30d", "body.items[1] must be an object",
		}}, Retry},
		{faultCase{"lease", `{"receipts":["a"],"lease":"0s"}`, invalid, []string{"body.lease must be between 100ms and 12h"}}, Extend},
		{faultCase{"too many", many + `]}`, invalid, []string{"body.receipts must hold at most 10000"}}, Ack},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeSettle([]byte(c.body), c.verb)
			c.check(t, err)
		})
	}
}

func TestAnEmptySettlementIsLegal(t *testing.T) {
	for _, body := range []string{`{"receipts":[]}`, `{"items":[]}`} {
		if items, err := DecodeSettle([]byte(body), Ack); err != nil || len(items) != 0 {
			t.Errorf("%s: %v %v", body, items, err)
		}
	}
}

func TestABadPublisherIsRefused(t *testing.T) {
	for body, fault := range map[string]string{
		`{}`: "body.publisher is required", `{"publisher":1}`: "body.publisher must be a string",
		`{"publisher":""}`: "body.publisher must not be empty", `{"publisher":"a:b"}`: "body.publisher must not contain ':'",
	} {
		_, err := DecodeTopicPut([]byte(body))
		faultCase{code: invalid, faults: []string{fault}}.check(t, err)
	}
}

func TestABadPageIsRefused(t *testing.T) {
	for limit, fault := range map[string]string{
		"0": "query.limit must be an integer of at least 1", "-1": "query.limit must be an integer of at least 1",
		"": "query.limit must be an integer of at least 1", "x": "query.limit must be an integer of at least 1", "1001": "query.limit must be at most 1000",
	} {
		_, err := DecodePage(url.Values{"limit": {limit}})
		faultCase{code: invalid, faults: []string{fault}}.check(t, err)
	}
	for _, cursor := range []string{"", "!", "b3JkZXJz=", strings.Repeat("A", 2000)} {
		_, err := DecodePage(url.Values{"cursor": {cursor}})
		faultCase{code: millrace.CodeBadCursor, faults: []string{"query.cursor must be the next of a page"}}.check(t, err)
	}
	want := millrace.Page{Limit: 7, Cursor: "orders"}
	if got, err := DecodePage(url.Values{"limit": {"7"}, "cursor": {FormatCursor("orders")}}); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestFaultsNeverShowWhatWasSubmitted(t *testing.T) {
	const secret = "hunter2"
	for _, body := range []string{
		`{"type":"hunter2:"}`, `{"type":"a","key":"hunter2\u0000"}`, `{"type":"a","time":"hunter2"}`, `{"type":"a","delay":"hunter2"}`,
		`{"type":"a","hunter2 ":1}`, `{"type":"a","content_type":"hunter2 x y"}`, `{"type":"a","attributes":{"hunter2!":"x"}}`,
		`{"type":"a","data":{"hunter2!":1,"hunter2!":2}}`, `{"type":"a","data":hunter2}`, `hunter2`,
	} {
		_, err := DecodePublish([]byte(body), PublishPath{Topic: "orders"})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestTheNumberOfFaultsIsBounded(t *testing.T) {
	_, err := DecodePublish([]byte(`{"type":"a"`+unknownMembers(maxFaults+5)+`}`), PublishPath{Topic: "orders"})
	var e *millrace.Error
	if !errors.As(err, &e) || len(e.Faults) != maxFaults {
		t.Fatalf("got %d faults", len(e.Faults))
	}
}

func unknownMembers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"x` + strconv.Itoa(i) + `":0`)
	}
	return b.String()
}

func TestClientsIgnoreWhatTheyDoNotKnow(t *testing.T) {
	for name, decode := range map[string]func([]byte) error{
		"event":       func(b []byte) error { _, err := DecodeEvent(b); return err },
		"publish_out": func(b []byte) error { _, _, err := DecodePublished(b); return err },
		"topic":       func(b []byte) error { _, err := DecodeTopic(b); return err },
		"queue_out":   func(b []byte) error { _, err := DecodeQueue(b); return err },
		"lease_out":   func(b []byte) error { _, err := DecodeMessages(b); return err },
		"settled":     func(b []byte) error { _, err := DecodeSettled(b); return err },
		"nodes":       func(b []byte) error { _, err := DecodeNodes(b); return err },
		"stats":       func(b []byte) error { _, err := DecodeStats(b); return err },
		"delayed":     func(b []byte) error { _, err := DecodeDelayed(b); return err },
		"route":       func(b []byte) error { _, err := DecodeRoute(b); return err },
		"dead":        func(b []byte) error { _, _, err := DecodeStoredMessages(b); return err },
		"tenants":     func(b []byte) error { _, _, err := DecodeTenants(b); return err },
		"redriven":    func(b []byte) error { _, _, err := DecodeRedriven(b); return err },
		"purged":      func(b []byte) error { _, _, err := DecodePurged(b); return err },
		"released":    func(b []byte) error { _, err := DecodeReleased(b); return err },
		"injected":    func(b []byte) error { _, err := DecodeInjected(b); return err },
	} {
		text := strings.ReplaceAll(string(golden(t, name)), "{", `{"a_new_member":[{}],`)
		text = strings.ReplaceAll(text, ",}", "}")
		text = strings.ReplaceAll(text, `"attributes":{"a_new_member":[{}],`, `"attributes":{`)
		if err := decode([]byte(text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
