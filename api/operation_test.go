package api

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func exampleRequest() millrace.OperationRequest {
	return millrace.OperationRequest{
		Queue: "sync", Type: "MANUAL", Subject: "link:456", Tenant: "u1", Payload: []byte(`{"link":{"id":456}}`), DedupeKey: "link:456",
	}
}

func TestARequestForAnOperationLooksAsInTheExample(t *testing.T) {
	want := exampleRequest()
	equal(t, must[millrace.OperationRequest](t)(DecodeOperationRequest(golden(t, "operation_in"))), want)
	want.Delay = time.Minute
	equal(t, must[millrace.OperationRequest](t)(DecodeOperationRequest(AppendOperationRequest(nil, &want))), want)
	least := millrace.OperationRequest{Queue: "sync", Type: "MANUAL"}
	if text := string(AppendOperationRequest(nil, &least)); text != `{"queue":"sync","type":"MANUAL"}` {
		t.Error(text)
	}
	equal(t, must[millrace.OperationRequest](t)(DecodeOperationRequest([]byte(`{"queue":"sync","type":"MANUAL","payload":null}`))), least)
}

func TestAPayloadIsKeptAsItIsWritten(t *testing.T) {
	r := must[millrace.OperationRequest](t)(DecodeOperationRequest([]byte(`{"queue":"sync","type":"x","payload": { "n" : 1.0 } }`)))
	if string(r.Payload) != `{ "n" : 1.0 }` {
		t.Errorf("payload %s", r.Payload)
	}
}

// named checks that every one of the places has a fault, and no other.
func named(t *testing.T, err error, places ...string) {
	t.Helper()
	if millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Fatal(err)
	}
	if n := strings.Count(err.Error(), ";"); n != len(places) {
		t.Errorf("%d faults for %d places: %v", n, len(places), err)
	}
	for _, place := range places {
		if !strings.Contains(err.Error(), "; "+place+" ") {
			t.Errorf("%s is not named in %v", place, err)
		}
	}
}

func TestEveryFaultOfARequestForAnOperationIsNamed(t *testing.T) {
	_, err := DecodeOperationRequest([]byte(`{"queue":"a b","subject":"","tenant":"a:b","dedupe_key":"\u0001","delay":"-1s","nosuch":1,"payload":` + `"` + strings.Repeat("x", millrace.MaxEventSize) + `"}`))
	named(t, err, "body.queue", "body.type", "body.subject", "body.tenant", "body.dedupe_key", "body.delay", "body.nosuch", "body.payload")
}

func exampleOperations() []millrace.TrackedOperation {
	queued := at("2026-11-15T01:13:00Z")
	return []millrace.TrackedOperation{
		{ID: "Zt8", Operation: millrace.Operation{
			Queue: "sync", Tenant: "u1", Type: "MANUAL", Subject: "link:456", Event: "01K0E", Payload: []byte(`{"link":{"id":456}}`), Status: millrace.OperationRunning,
			Attempts: 1, QueuedAt: queued, StartedAt: queued.Add(time.Second), Progress: &millrace.Progress{Percent: 40, Note: "cloning"},
		}},
		{ID: "Yt7", Operation: millrace.Operation{
			Queue: "sync", Tenant: "u1", Type: "MANUAL", Event: "01K0D", Status: millrace.OperationError, Error: "boom", CancelRequested: true, Progress: &millrace.Progress{},
			Attempts: 2, QueuedAt: queued, StartedAt: queued.Add(time.Second), FinishedAt: queued.Add(2 * time.Second), ExpiresAt: queued.Add(7*24*time.Hour + 2*time.Second),
		}},
	}
}

func TestAnOperationLooksAsInTheExample(t *testing.T) {
	started := millrace.StartedOperation{ID: "Zt8", Status: millrace.OperationQueued}
	checkGolden(t, "operation_started", AppendStarted(nil, &started))
	equal(t, must[millrace.StartedOperation](t)(DecodeStarted(golden(t, "operation_started"))), started)

	list := exampleOperations()
	checkGolden(t, "operation_out", AppendOperation(nil, &list[0]))
	equal(t, must[millrace.TrackedOperation](t)(DecodeOperation(golden(t, "operation_out"))), list[0])
	checkGolden(t, "operations", AppendOperations(nil, list, "01K0D"))
	got, next, err := DecodeOperations(golden(t, "operations"))
	equal(t, must[[]millrace.TrackedOperation](t)(got, err), list)
	if place, err := ParseCursor(next); err != nil || place != "01K0D" {
		t.Errorf("next is %q: %v", place, err)
	}
	list[0].Progress, list[0].Output = nil, []byte(`{"pr": 12}`)
	equal(t, must[millrace.TrackedOperation](t)(DecodeOperation(AppendOperation(nil, &list[0]))), list[0])
}

func TestAFrameOfAWatchedOperationIsReadAsItIsWritten(t *testing.T) {
	o := exampleOperations()[0]
	if frame := string(AppendOperationFrame(nil, &o)); frame != "event: operation\ndata: "+string(golden(t, "operation_out"))+"\n\n" {
		t.Error(frame)
	}
	o.Payload = []byte("{\n  \"n\":\r\n1}")
	frame := string(AppendOperationFrame(nil, &o))
	var data []string
	for _, line := range strings.Split(strings.TrimSuffix(frame, "\n\n"), "\n")[1:] {
		text, found := strings.CutPrefix(line, "data: ")
		if !found {
			t.Fatalf("a line without data: %q", line)
		}
		data = append(data, text)
	}
	got, ok, err := DecodeOperationFrame("operation", []byte(strings.Join(data, "\n")))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	o.Payload = []byte("{\n  \"n\":\n1}") // a frame knows one line break
	equal(t, got, o)
	if _, ok, err := DecodeOperationFrame("event", golden(t, "event")); ok || err != nil {
		t.Error(ok, err)
	}
}

func TestProgressLooksAsInTheExample(t *testing.T) {
	want := millrace.Progress{Percent: 40, Note: "cloning"}
	checkGolden(t, "progress_in", AppendProgress(nil, "q5J", want))
	receipt, p, err := DecodeProgress(golden(t, "progress_in"))
	if err != nil || receipt != "q5J" {
		t.Fatal(receipt, err)
	}
	equal(t, p, want)
	_, _, err = DecodeProgress([]byte(`{"percent":101,"note":"` + strings.Repeat("x", millrace.MaxNoteLen+1) + `","Receipt":"q"}`))
	named(t, err, "body.percent", "body.note", "body.receipt", "body.Receipt")
}

func TestAnAcksOutputIsBounded(t *testing.T) {
	fits := `{"receipts":["a"],"output":"` + strings.Repeat("x", millrace.MaxOutput-2) + `"}`
	if _, err := DecodeSettle([]byte(fits), Ack); err != nil {
		t.Error(err)
	}
	_, err := DecodeSettle([]byte(strings.Replace(fits, "x", "xx", 1)), Ack)
	named(t, err, "body.output")
	_, err = DecodeSettle([]byte(`{"items":[{"receipt":"a"},{"receipt":"b","output":"`+strings.Repeat("x", millrace.MaxOutput)+`"}]}`), Ack)
	named(t, err, "body.items[1].output")
}

func TestAnEventOfAnOperationHasAKeyAndNoPrev(t *testing.T) {
	e := exampleEvent
	e.Unchained, e.Prev = true, 0
	text := AppendEvent(nil, &e)
	if strings.Contains(string(text), "prev") || !strings.Contains(string(text), `"key":"order:7"`) || !strings.Contains(string(text), `"seq":41`) {
		t.Errorf("written %s", text)
	}
	equal(t, must[millrace.Event](t)(DecodeEvent(text)), e)
	equal(t, must[[]millrace.Event](t)(DecodeInject(AppendInject(nil, []millrace.Event{e, exampleEvent}))), []millrace.Event{e, exampleEvent})
	if cloud := string(AppendCloudEvent(nil, &e)); strings.Contains(cloud, "previd") {
		t.Error(cloud)
	}
}

func TestTheCountsOfOperationsLookAsInTheExample(t *testing.T) {
	queued := millrace.Spans{millrace.SpanIndex(3): 50, millrace.SpanIndex(9): 50}
	running := millrace.Spans{millrace.SpanIndex(40): 50, millrace.SpanIndex(90): 50}
	tally := millrace.Tally{Success: 1, Error: 1, Retried: 1}
	want := millrace.OperationCounts{
		Queue: "sync", Bucket: millrace.Minutes, Since: at("2026-11-15T00:13:00Z"), Until: at("2026-11-15T01:13:00Z"), Total: tally,
		Counts: []millrace.OperationCount{{At: at("2026-11-15T01:12:00Z"), Tally: tally, Queued: queued, Running: running}},
	}
	checkGolden(t, "operation_counts", AppendOperationCounts(nil, &want))
	equal(t, must[millrace.OperationCounts](t)(DecodeOperationCounts(golden(t, "operation_counts"))), want)
}

func TestSpansThatWereReadHaveThePercentilesThatWereWritten(t *testing.T) {
	for _, s := range []millrace.Spans{
		{}, {0: 7}, {millrace.SpanIndex(1): 1}, {0: 98, millrace.SpanIndex(7): 1, millrace.SpanIndex(90000): 1},
		{millrace.SpanIndex(5): 1000, millrace.SpanIndex(600): 60, millrace.SpanIndex(1 << 40): 20},
	} {
		c := millrace.OperationCounts{Counts: []millrace.OperationCount{{Queued: s}}}
		text := AppendOperationCounts(nil, &c)
		again := must[millrace.OperationCounts](t)(DecodeOperationCounts(text))
		if got := AppendOperationCounts(nil, &again); strings.Replace(string(got), `"bucket":"1\u0000"`, "", 1) != strings.Replace(string(text), `"bucket":"1\u0000"`, "", 1) {
			t.Errorf("%v: written %s, then %s", s, text, got)
		}
	}
}

func TestAQueryForCountsMayGoBackFromNow(t *testing.T) {
	now := at("2026-11-15T01:13:00Z")
	for query, want := range map[string]millrace.OperationCountQuery{
		"queue=sync":                                   {Queue: "sync"},
		"queue=sync&since=1h":                          {Queue: "sync", Since: at("2026-11-15T00:13:00Z")},
		"queue=sync&since=1d&bucket=1h":                {Queue: "sync", Since: at("2026-11-14T01:13:00Z"), Bucket: millrace.Hours},
		"queue=sync&until=2026-11-15T01:00:00Z":        {Queue: "sync", Until: at("2026-11-15T01:00:00Z")},
		"queue=s&since=2026-11-14T00:00:00Z&bucket=1d": {Queue: "s", Since: at("2026-11-14T00:00:00Z"), Bucket: millrace.Days},
	} {
		q, _ := url.ParseQuery(query)
		equal(t, must[millrace.OperationCountQuery](t)(DecodeCountQuery(q, now)), want)
		equal(t, must[millrace.OperationCountQuery](t)(DecodeCountQuery(EncodeCountQuery(want), now)), want)
	}
	for query, places := range map[string][]string{
		"":                                      {"query.queue"},
		"queue=a%20b&bucket=1w&since=x&until=y": {"query.queue", "query.bucket", "query.since", "query.until"},
		"queue=a&since=3d":                      {"query.since"},
		"queue=a&since=2026-11-15T01:13:00Z&until=2026-11-14T01:13:00Z": {"query.until"},
	} {
		q, _ := url.ParseQuery(query)
		_, err := DecodeCountQuery(q, now)
		named(t, err, places...)
	}
}

func TestAQueryForOperationsNamesASubjectOrAQueue(t *testing.T) {
	want := millrace.OperationQuery{Subject: "link:456", Queue: "sync", Status: millrace.OperationError, Tenant: "u1", Page: millrace.Page{Limit: 7}}
	equal(t, must[millrace.OperationQuery](t)(DecodeOperationQuery(EncodeOperationQuery(want))), want)
	for query, places := range map[string][]string{
		"":                               {"query.subject"},
		"queue=a&subject=":               {"query.subject"},
		"subject=a&queue=":               {"query.queue"},
		"queue=a&tenant=":                {"query.tenant"},
		"queue=a&status=":                {"query.status"},
		"queue=a&status=up":              {"query.status"},
		"queue=a%20b&tenant=c:d&limit=0": {"query.queue", "query.tenant", "query.limit"},
	} {
		q, _ := url.ParseQuery(query)
		_, err := DecodeOperationQuery(q)
		named(t, err, places...)
	}
}

func TestAWaitForAnOperationIsReadAsItIsWritten(t *testing.T) {
	seen, wait, asked, err := DecodeAwait(EncodeAwait(millrace.OperationQueued, 30*time.Second))
	if err != nil || !asked || seen != millrace.OperationQueued || wait != 30*time.Second {
		t.Error(seen, wait, asked, err)
	}
	if _, _, asked, err := DecodeAwait(url.Values{}); asked || err != nil {
		t.Error(asked, err)
	}
	_, _, _, err = DecodeAwait(url.Values{"wait": {"61s"}, "seen": {""}})
	named(t, err, "query.wait", "query.seen")
}
