package api

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// seed adds every golden file and some broken texts to a fuzz target.
func seed(f *testing.F, more ...string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no golden files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, s := range append(more, "", "{", "[[", `{"a":1,"a":2}`, "\xff", `{"type":"\ud800"}`, `null`, nested(65)) {
		f.Add([]byte(s))
	}
}

// refused reports whether a request was refused, and that it was refused in order.
func refused(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return false
	}
	var e *millrace.Error
	if !errors.As(err, &e) || (e.Code != malformed && e.Code != invalid) || len(e.Faults) == 0 {
		t.Fatalf("refused with %v", err)
	}
	if e.Code == malformed && len(e.Faults) != 1 {
		t.Fatalf("malformed with %d faults", len(e.Faults))
	}
	back := DecodeProblem(StatusOf(e.Code), AppendProblem(nil, e, "r"))
	if back.Code != e.Code || !slices.Equal(back.Faults, e.Faults) {
		t.Fatalf("%v came back as %v", e, back)
	}
	return true
}

func FuzzDecodePublish(f *testing.F) {
	seed(f, `{"type":"a"}`, `[{"type":"a","content_type":"text/plain","data_base64":"AA=="}]`, `{"type":"a","attributes":{"a":"b"},"key":"k","time":"2026-11-15T01:13:00Z"}`,
		`{"type":"a","delay":"1h"}`, `{"type":"a","deliver_at":"2026-11-15T01:13:00.5+14:00"}`)
	for _, c := range publishFaults {
		if len(c.body) < 1000 {
			f.Add([]byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		path := PublishPath{Topic: "orders", IdempotencyKey: "K"}
		events, err := DecodePublish(body, path)
		if refused(t, err) {
			return
		}
		for i := range events {
			if faults := events[i].Faults(""); faults != nil {
				t.Fatalf("took an event with faults: %v", faults)
			}
			events[i].Time = events[i].Time.Truncate(1e6)
			if events[i].DeliverAt = events[i].DeliverAt.Truncate(1e6); events[i].DeliverAt.Year() < 0 || events[i].DeliverAt.Year() > 9999 {
				return // the offset led out of the years that can be written
			}
		}
		again, err := DecodePublish(AppendPublish(nil, events), path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			events[i].ContentType, again[i].ContentType = contentType(&events[i]), contentType(&again[i])
			if len(events[i].Data) == 0 {
				events[i].Data = nil
			}
		}
		equal(t, again, events)
	})
}

func FuzzDecodeQueueSpec(f *testing.F) {
	seed(f, `{"match":"x","lease":"1s","redact":["a"]}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, err := DecodeQueueSpec(body)
		if refused(t, err) {
			return
		}
		if faults := spec.Faults(""); faults != nil {
			t.Fatal(faults)
		}
		equal(t, must[millrace.QueueSpec](t)(DecodeQueueSpec(AppendQueueSpec(nil, &spec))), spec)
	})
}

func FuzzDecodeSubscriptionSpec(f *testing.F) {
	seed(f, `{"callback":"http://x","match":"x","topics":[]}`, `{"callback":"https://x.example","topics":["a"],"match":"","retry_schedule":[]}`, `{"overlap":"0s"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		if secret, overlap, err := DecodeRotate(body); !refused(t, err) {
			again, length, err := DecodeRotate(AppendRotate(nil, secret, overlap))
			if err != nil || again != secret || length != overlap {
				t.Fatal(again, length, err)
			}
		}
		spec, err := DecodeSubscriptionSpec(body)
		if refused(t, err) {
			return
		}
		if faults := spec.Faults(""); faults != nil {
			t.Fatal(faults)
		}
		equal(t, must[millrace.SubscriptionSpec](t)(DecodeSubscriptionSpec(AppendSubscriptionSpec(nil, &spec))), spec)
	})
}

func FuzzDecodeLease(f *testing.F) {
	seed(f, `{"max":1000,"wait":"1m","lease":"12h"}`, `{"lease":"0s","consumer":"w-1"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := DecodeLease(body)
		if refused(t, err) {
			return
		}
		equal(t, must[millrace.LeaseOptions](t)(DecodeLease(AppendLease(nil, o))), o)
	})
}

func FuzzDecodeLeaseAny(f *testing.F) {
	seed(f, `{"queues":{"a":1},"lease":"0s"}`, `{"queues":{"a.b":1001,"":1}}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		weights, o, err := DecodeLeaseAny(body)
		if refused(t, err) {
			return
		}
		again, options, err := DecodeLeaseAny(AppendLeaseAny(nil, weights, o))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, again, weights)
		equal(t, options, o)
	})
}

func FuzzDecodeInject(f *testing.F) {
	seed(f)
	for _, c := range injectFaults {
		if len(c.body) < 1000 {
			f.Add([]byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := DecodeInject(body)
		if refused(t, err) {
			return
		}
		for i := range events {
			e := &events[i]
			if faults := e.Faults(""); faults != nil || e.Seq == 0 || e.ID == "" {
				t.Fatalf("took an event with faults: %v", faults)
			}
			e.Time, e.RecordedAt = e.Time.Truncate(1e6), e.RecordedAt.Truncate(1e6)
			e.ContentType = contentType(e)
			if len(e.Data) == 0 && e.IsJSON() {
				e.Data = nil
			}
		}
		equal(t, must[[]millrace.Event](t)(DecodeInject(AppendInject(nil, events))), events)
	})
}

// FuzzDecodeManagement reads every small body of a queue's management.
func FuzzDecodeManagement(f *testing.F) {
	seed(f, `{"ids":["a","b"]}`, `{"all":true}`, `{"tenant":"acme"}`, `{"consumer":"w-1"}`, `{"weight":0,"limit":1073741824}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		if which, err := DecodeRedrive(body); !refused(t, err) {
			equal(t, must[millrace.DeadSelection](t)(DecodeRedrive(AppendRedrive(nil, which))), which)
		}
		if tenant, err := DecodePurge(body); !refused(t, err) {
			equal(t, must[string](t)(DecodePurge(AppendPurge(nil, tenant))), tenant)
		}
		if consumer, err := DecodeRelease(body); !refused(t, err) {
			equal(t, must[string](t)(DecodeRelease(AppendRelease(nil, consumer))), consumer)
		}
		if s, err := DecodeTenantSettings(body); !refused(t, err) {
			equal(t, must[millrace.TenantSettings](t)(DecodeTenantSettings(AppendTenantSettings(nil, s))), s)
		}
		refused(t, DecodeNothing(body))
	})
}

// FuzzDecodeManagementAnswers reads every answer of a queue's management.
func FuzzDecodeManagementAnswers(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if done, left, err := DecodeRedriven(text); err == nil && (done < 0 || left < 0) {
			t.Fatal("a negative count")
		}
		if n, err := DecodeReleased(text); err == nil && n < 0 {
			t.Fatal("a negative count")
		}
		if list, _, err := DecodeTenants(text); err == nil {
			for i := range list {
				list[i].Oldest = at("2026-11-15T01:13:00Z")
				equal(t, must[millrace.Tenant](t)(DecodeTenant(AppendTenant(nil, &list[i]))), list[i])
			}
		}
		if r, err := DecodeRoute(text); err == nil {
			equal(t, must[millrace.Route](t)(DecodeRoute(AppendRoute(nil, &r))), r)
		}
		if list, _, err := DecodeStoredMessages(text); err == nil {
			for _, m := range list {
				if m.Attempts < 0 {
					t.Fatal("a negative number of attempts")
				}
			}
		}
		if _, err := DecodeDelayed(text); err != nil && millrace.CodeOf(err) == millrace.CodeInternal {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeSettle(f *testing.F) {
	seed(f, `{"receipts":["a","b"],"error":"e","delay":"1s"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, verb := range []Verb{Ack, Retry, Bury, Extend} {
			items, err := DecodeSettle(body, verb)
			if refused(t, err) || verb == Extend {
				continue
			}
			settlements := make([]millrace.Settlement, len(items))
			for i := range items {
				settlements[i] = items[i].Settlement
			}
			again, err := DecodeSettle(AppendSettle(nil, settlements), verb)
			if err != nil || len(again) != len(items) {
				t.Fatal(len(again), len(items), err)
			}
			for i := range again {
				equal(t, again[i], items[i])
			}
		}
	})
}

func FuzzDecodeTopicPut(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		publisher, err := DecodeTopicPut(body)
		if refused(t, err) {
			return
		}
		equal(t, must[string](t)(DecodeTopicPut(AppendTopicPut(nil, publisher))), publisher)
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"24h", "7d", "1d12h", "1m30s", "0s", "-1s", "106751d23h47m16.854775807s", "1.000000001h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := ParseDuration(s)
		if !ok {
			return
		}
		if again, ok := ParseDuration(FormatDuration(d)); d < 0 || !ok || again != d {
			t.Fatalf("%q is %d, written %s, read again as %d", s, d, FormatDuration(d), again)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-11-15T01:13:00Z", "2026-11-15t01:13:00.5+14:00", "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseTime(s)
		if !ok || got.Year() < 0 || got.Year() > 9999 {
			return
		}
		if again, ok := ParseTime(FormatTime(got)); !ok || again.UnixMilli() != got.Truncate(1e6).UnixMilli() {
			t.Fatalf("%q is %s, read again as %s", s, got, again)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"b3JkZXJz", "", "!", "AA==", "AB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		place, err := ParseCursor(s)
		if err == nil && FormatCursor(place) != s {
			t.Fatalf("%q is %q", s, place)
		}
		if err != nil && millrace.CodeOf(err) != millrace.CodeBadCursor {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeProblem(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		e := DecodeProblem(http.StatusServiceUnavailable, text)
		if !OnWire(e.Code) {
			t.Fatalf("code %q", e.Code)
		}
		again := DecodeProblem(StatusOf(e.Code), AppendProblem(nil, e, "r"))
		if again.Code != e.Code || again.Detail != e.Detail || len(again.Events) > len(e.Events) {
			t.Fatalf("%v came back as %v", e, again)
		}
	})
}

func FuzzDecodeMessages(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		messages, err := DecodeMessages(text)
		if err != nil {
			return
		}
		again, err := DecodeSettled(text) // any answer may be read as any other: nothing but an error may come of it
		if err == nil && again.Settled < 0 {
			t.Fatal("a negative count")
		}
		for _, m := range messages {
			if m.Attempt < 0 {
				t.Fatal("a negative attempt")
			}
		}
	})
}

func FuzzDecodeHouse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := DecodeStats(text); err == nil {
			equal(t, must[millrace.Stats](t)(DecodeStats(AppendStats(nil, &s))), s)
		}
		if q, err := DecodeQueue(text); err == nil && q.Oldest.Year() > 0 && q.Oldest.Year() < 10000 {
			again := must[millrace.Queue](t)(DecodeQueue(AppendQueue(nil, &q)))
			again.Oldest, q.Oldest = again.Oldest.Truncate(1e6), q.Oldest.Truncate(1e6)
			equal(t, again.QueueStats, q.QueueStats)
		}
	})
}

func FuzzDecodeOperationRequest(f *testing.F) {
	seed(f, `{"queue":"a","type":"b","payload": [1 , 2],"delay":"1d"}`, `{"receipt":"a","percent":7}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		if receipt, p, err := DecodeProgress(body); !refused(t, err) {
			again, back, err := DecodeProgress(AppendProgress(nil, receipt, p))
			if err != nil || again != receipt || back != p {
				t.Fatal(again, back, err)
			}
		}
		r, err := DecodeOperationRequest(body)
		if refused(t, err) {
			return
		}
		if faults := r.Faults(""); faults != nil {
			t.Fatal(faults)
		}
		equal(t, must[millrace.OperationRequest](t)(DecodeOperationRequest(AppendOperationRequest(nil, &r))), r)
	})
}

func FuzzDecodeTriggerSpec(f *testing.F) {
	seed(f, `{"event":{"topic":"a","type":"b","data":null}}`, `{"operation":{"queue":"a","type":"b"},"per_minute":0,"enabled":false}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, err := DecodeTriggerSpec(body)
		if refused(t, err) {
			return
		}
		if faults := spec.Faults(""); faults != nil {
			t.Fatal(faults)
		}
		equal(t, must[millrace.TriggerSpec](t)(DecodeTriggerSpec(AppendTriggerSpec(nil, &spec))), spec)
	})
}

// FuzzDecodeOperation reads any text as an operation, a trigger and counts: what can be read can be written and read again.
func FuzzDecodeOperation(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if o, err := DecodeOperation(text); err == nil {
			o.QueuedAt, o.StartedAt, o.FinishedAt, o.ExpiresAt = at("2026-11-15T01:13:00Z"), time.Time{}, time.Time{}, time.Time{}
			equal(t, must[millrace.TrackedOperation](t)(DecodeOperation(AppendOperation(nil, &o))), o)
		}
		if trigger, err := DecodeTrigger(text); err == nil {
			trigger.LastAt = time.Time{}
			must[millrace.Trigger](t)(DecodeTrigger(AppendTrigger(nil, &trigger)))
		}
		if c, err := DecodeOperationCounts(text); err == nil && len(c.Counts) > 0 && c.Counts[0].Queued.Percentile(99) < 0 {
			t.Fatal("a negative length")
		}
	})
}
