package api

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestADelayedPublishIsReadAndWritten(t *testing.T) {
	body := `[{"type":"a","delay":"1h30m"},{"type":"a","deliver_at":"2026-11-15T02:13:00+01:00"},{"type":"a","delay":"0s"}]`
	got := must[[]millrace.Event](t)(DecodePublish([]byte(body), PublishPath{Topic: "orders"}))
	want := []millrace.Event{
		{Topic: "orders", Type: "a", Delay: 90 * time.Minute},
		{Topic: "orders", Type: "a", DeliverAt: at("2026-11-15T01:13:00Z")},
		{Topic: "orders", Type: "a"},
	}
	equal(t, got, want)
	equal(t, must[[]millrace.Event](t)(DecodePublish(AppendPublish(nil, got), PublishPath{Topic: "orders"})), want)
}

func TestADelayedEventIsItselfWithTheTimeItIsDue(t *testing.T) {
	want := millrace.Delayed{Event: exampleEvent, DueAt: at("2026-11-15T02:13:00Z")}
	want.RecordedAt, want.Seq, want.Prev = time.Time{}, 0, 0
	checkGolden(t, "delayed", AppendDelayed(nil, &want))
	equal(t, must[millrace.Delayed](t)(DecodeDelayed(golden(t, "delayed"))), want)
	want.Key = ""
	if text := string(AppendDelayed(nil, &want)); strings.Contains(text, "prev") || strings.Contains(text, "key") {
		t.Error(text)
	}
}

func TestARouteLooksAsInTheExample(t *testing.T) {
	want := millrace.Route{Address: "acme:orders:created", Sinks: []millrace.Sink{{Kind: "queue", Name: "emails", Match: ":orders:", State: "active"}}}
	checkGolden(t, "route", AppendRoute(nil, &want))
	equal(t, must[millrace.Route](t)(DecodeRoute(golden(t, "route"))), want)
	if text := string(AppendRoute(nil, &millrace.Route{Address: "a:b:c"})); text != `{"address":"a:b:c","sinks":[]}` {
		t.Error(text)
	}
}

func TestAnOrderedQueueBlocksUnlessItSaysOtherwise(t *testing.T) {
	for body, want := range map[string]millrace.Exhausted{
		`{"match":"x"}`:                                          millrace.ExhaustedDead,
		`{"match":"x","ordered":true}`:                           millrace.ExhaustedBlock,
		`{"ordered":true,"match":"x","on_exhausted":"dead"}`:     millrace.ExhaustedDead,
		`{"on_exhausted":"dead","match":"x","ordered":true}`:     millrace.ExhaustedDead,
		`{"on_exhausted":"block","match":"x","ordered":false}`:   millrace.ExhaustedBlock,
		`{"match":"x","ordered":false,"on_exhausted":"block"}`:   millrace.ExhaustedBlock,
		`{"match":"x","ordered":true,"on_exhausted":"block"}`:    millrace.ExhaustedBlock,
		`{"match":"x","ordered":false,"dead_retention":"3650d"}`: millrace.ExhaustedDead,
	} {
		if got := must[millrace.QueueSpec](t)(DecodeQueueSpec([]byte(body))).OnExhausted; got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
}

func TestEverySettingOfAQueueIsReadAndWritten(t *testing.T) {
	spec := millrace.DefaultQueueSpec(":orders:")
	spec.Ordered, spec.OnExhausted = true, millrace.ExhaustedBlock
	spec.TenantLimit, spec.MaxLength, spec.DeadRetention = 5, 1000, 7*24*time.Hour
	checkGolden(t, "queue_in_ordered", AppendQueueSpec(nil, &spec))
	equal(t, must[millrace.QueueSpec](t)(DecodeQueueSpec(golden(t, "queue_in_ordered"))), spec)
	paused := millrace.Queue{Name: "emails", Version: 2, State: millrace.StatePaused, Spec: spec}
	checkGolden(t, "queue_out_paused", AppendQueue(nil, &paused))
	equal(t, must[millrace.Queue](t)(DecodeQueue(golden(t, "queue_out_paused"))), paused)
}

func TestALeaseOverSeveralQueuesLooksAsInTheExample(t *testing.T) {
	weights := map[string]int{"emails": 10, "sms": 1}
	want := millrace.LeaseOptions{Max: 1, Lease: 30 * time.Second, Consumer: "w-1"}
	checkGolden(t, "lease_any_in", AppendLeaseAny(nil, weights, want))
	got, o, err := DecodeLeaseAny(golden(t, "lease_any_in"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, weights)
	equal(t, o, want)
}

func TestAMessageGivenAtMostOnceHasNoReceiptAndNoLease(t *testing.T) {
	once := millrace.LeaseOptions{AtMostOnce: true}
	checkGolden(t, "lease_once_in", AppendLease(nil, once))
	equal(t, must[millrace.LeaseOptions](t)(DecodeLease(golden(t, "lease_once_in"))), once)
	messages := []millrace.Message{{ID: "01K0C", Queue: "emails", Attempt: 1, Event: exampleEvent}}
	checkGolden(t, "lease_once_out", AppendMessages(nil, messages))
	equal(t, must[[]millrace.Message](t)(DecodeMessages(golden(t, "lease_once_out"))), messages)
}

func TestABadLeaseOverSeveralQueuesIsRefusedWithEveryFault(t *testing.T) {
	many := `{"queues":{"q":1`
	for i := range maxLeaseQueues {
		many += `,"q` + strconv.Itoa(i) + `":1`
	}
	for _, c := range []faultCase{
		{"nothing", ``, malformed, []string{"body must be JSON: it ends too early"}},
		{"no queues", `{"max":1}`, invalid, []string{"body.queues is required"}},
		{"empty", `{"queues":{}}`, invalid, []string{"body.queues must hold 1 to 1000 queues"}},
		{"array", `{"queues":["emails"]}`, invalid, []string{"body.queues must be an object"}},
		{"weights", `{"queues":{"a":0,"b":1001,"c":"1","d":1.5,"e":1,"f":null}}`, invalid, []string{
			"body.queues.a must be between 1 and 1000", "body.queues.b must be between 1 and 1000",
			"body.queues.c must be an integer", "body.queues.d must be an integer", "body.queues.f must be an integer",
		}},
		{"names", `{"queues":{"a:b":1}}`, invalid, []string{"body.queues must name queues: a name must not contain ':'"}},
		{"twice", `{"queues":{"a":1,"a":1}}`, malformed, []string{"body.queues.a is given twice"}},
		{"many", many + `}}`, invalid, []string{"body.queues must hold 1 to 1000 queues"}},
		{"options", `{"queues":{"a":1},"max":0,"lease":"1ms","tenant":"x"}`, invalid, []string{
			"body.max must be between 1 and 1000", "body.lease must be 0s or at least 100ms", "body.tenant is not a known field",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := DecodeLeaseAny([]byte(c.body))
			c.check(t, err)
		})
	}
}

func TestReleaseLooksAsInTheExample(t *testing.T) {
	checkGolden(t, "release_in", AppendRelease(nil, "w-1"))
	equal(t, must[string](t)(DecodeRelease(golden(t, "release_in"))), "w-1")
	checkGolden(t, "released", AppendReleased(nil, 2))
	equal(t, must[int](t)(DecodeReleased(golden(t, "released"))), 2)
}

func TestDeadLettersLookAsInTheExample(t *testing.T) {
	dead := []millrace.StoredMessage{{
		ID: "01K0C", Attempts: 20, Reason: millrace.ReasonAttempts, Error: "boom", DeadAt: at("2026-11-15T01:13:00Z"), Event: exampleEvent,
	}}
	checkGolden(t, "dead", AppendStoredMessages(nil, dead, "c2"))
	got, next, err := DecodeStoredMessages(golden(t, "dead"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, dead)
	if place, err := ParseCursor(next); err != nil || place != "c2" {
		t.Errorf("next is %q: %v", place, err)
	}

	waiting := []millrace.StoredMessage{{ID: "01K0C", Attempts: 1, Event: exampleEvent}}
	checkGolden(t, "peek", AppendStoredMessages(nil, waiting, ""))
	got, next, err = DecodeStoredMessages(golden(t, "peek"))
	if err != nil || next != "" {
		t.Fatal(next, err)
	}
	equal(t, got, waiting)
}

func TestRedriveAndPurgeLookAsInTheExamples(t *testing.T) {
	for name, want := range map[string]millrace.DeadSelection{
		"redrive_in": {IDs: []string{"01K0C"}}, "redrive_in_all": {All: true, Tenant: "acme"},
	} {
		checkGolden(t, name, AppendRedrive(nil, want))
		equal(t, must[millrace.DeadSelection](t)(DecodeRedrive(golden(t, name))), want)
	}
	checkGolden(t, "redriven", AppendRedriven(nil, 1000, 31))
	if done, left, err := DecodeRedriven(golden(t, "redriven")); done != 1000 || left != 31 || err != nil {
		t.Error(done, left, err)
	}
	checkGolden(t, "purge_in", AppendPurge(nil, "acme"))
	equal(t, must[string](t)(DecodePurge(golden(t, "purge_in"))), "acme")
	for _, everybody := range []string{"", " ", "{}"} {
		equal(t, must[string](t)(DecodePurge([]byte(everybody))), "")
	}
	checkGolden(t, "purged", AppendPurged(nil, 7, 0))
	if done, left, err := DecodePurged(golden(t, "purged")); done != 7 || left != 0 || err != nil {
		t.Error(done, left, err)
	}
}

func TestTenantsLookAsInTheExample(t *testing.T) {
	want := []millrace.Tenant{{
		Name: "acme", QueueCounts: millrace.QueueCounts{Ready: 50, Leased: 1}, Weight: 2, Oldest: at("2026-11-15T01:13:00Z"),
	}}
	checkGolden(t, "tenants", AppendTenants(nil, want, ""))
	got, next, err := DecodeTenants(golden(t, "tenants"))
	if err != nil || next != "" {
		t.Fatal(next, err)
	}
	equal(t, got, want)
	empty := millrace.Tenant{Name: "idle", Weight: 1}
	checkGolden(t, "tenant", AppendTenant(nil, &empty))
	equal(t, must[millrace.Tenant](t)(DecodeTenant(golden(t, "tenant"))), empty)

	for name, want := range map[string]millrace.TenantSettings{"tenant_in": {Weight: 2, Limit: 0}, "tenant_in_weight": {Weight: 0, Limit: -1}} {
		checkGolden(t, name, AppendTenantSettings(nil, want))
		equal(t, must[millrace.TenantSettings](t)(DecodeTenantSettings(golden(t, name))), want)
	}
	equal(t, must[millrace.TenantSettings](t)(DecodeTenantSettings([]byte(`{}`))), millrace.TenantSettings{Weight: 1, Limit: -1})
}

func TestInjectLooksAsInTheExample(t *testing.T) {
	binary := millrace.Event{
		ID: "a-1", Topic: "orders", Type: "scanned", Tenant: "default", Time: at("2026-11-15T01:13:00Z"), RecordedAt: at("2026-11-15T01:13:01Z"),
		ContentType: "image/png", Data: []byte{0xff, 0x00}, Seq: 42,
	}
	want := []millrace.Event{exampleEvent, binary}
	checkGolden(t, "inject_in", AppendInject(nil, want))
	equal(t, must[[]millrace.Event](t)(DecodeInject(golden(t, "inject_in"))), want)
	checkGolden(t, "injected", AppendInjected(nil, 2))
	equal(t, must[int](t)(DecodeInjected(golden(t, "injected"))), 2)

	short := `{"events":[{"id":"a","topic":"t","type":"x","time":"2026-11-15T01:13:00Z","seq":7}]}`
	moment := at("2026-11-15T01:13:00Z")
	equal(t, must[[]millrace.Event](t)(DecodeInject([]byte(short))), []millrace.Event{
		{ID: "a", Topic: "t", Type: "x", Tenant: "default", Time: moment, RecordedAt: moment, Seq: 7},
	})
}

const stored = `"id":"a","topic":"t","type":"x","time":"2026-11-15T01:13:00Z","seq":7`

var injectFaults = []faultCase{
	{"nothing", ``, malformed, []string{"body must be JSON: it ends too early"}},
	{"no events", `{}`, invalid, []string{"body.events is required"}},
	{"array", `[{` + stored + `}]`, invalid, []string{"body must be an object"}},
	{"empty", `{"events":[]}`, invalid, []string{"body.events must hold 1 to 1000 events"}},
	{"bare", `{"events":[{` + stored + `},{}]}`, invalid, []string{
		"body.events[1].id is required", "body.events[1].topic is required", "body.events[1].type is required",
		"body.events[1].time is required", "body.events[1].seq is required",
	}},
	{"empty words", `{"events":[{"id":"","topic":"","type":"","tenant":"","key":"","time":"","seq":1}]}`, invalid, []string{
		"body.events[0].id must not be empty", "body.events[0].topic must not be empty", "body.events[0].type must not be empty",
		"body.events[0].tenant must not be empty", "body.events[0].key must not be empty", "body.events[0].time must be a time as in RFC 3339",
	}},
	{"stamps", `{"events":[{"id":"a","topic":"t","type":"x","time":"2026-11-15T01:13:00Z","seq":0,"prev":1},{` + stored + `,"key":"k","prev":-1}]}`, invalid, []string{
		"body.events[0].seq must be at least 1", "body.events[0].prev must not be given without a key",
		"body.events[1].prev must be between 0 and 9007199254740991",
	}},
	{"a publish", `{"events":[{` + stored + `,"delay":"1s","due_at":null}]}`, invalid, []string{"body.events[0].delay is not a known field", "body.events[0].due_at is not a known field"}},
	{"data", `{"events":[{` + stored + `,"data":1,"data_base64":"AA=="},{` + stored + `,"content_type":"text/plain","data":"x"}]}`, invalid, []string{
		"body.events[0].data_base64 must not be given with data",
		"body.events[1].data must be given as data_base64, because the content type is not JSON",
	}},
	{"our topic", `{"events":[{"id":"a","topic":"millrace","type":"x","time":"2026-11-15T01:13:00Z","seq":7}]}`, invalid, []string{"body.events[0].topic is reserved"}},
	{"too large", `{"events":[{` + stored + `,"data":"` + strings.Repeat("x", millrace.MaxEventSize) + `"}]}`, invalid, []string{"body.events[0] must be at most 262144 bytes"}},
}

func TestABadInjectionIsRefusedWithEveryFault(t *testing.T) {
	for _, c := range injectFaults {
		t.Run(c.name, func(t *testing.T) {
			events, err := DecodeInject([]byte(c.body))
			c.check(t, err)
			if events != nil {
				t.Errorf("got %d events with the error", len(events))
			}
		})
	}
	many := `{"events":[{` + stored + `}` + strings.Repeat(`,{`+stored+`}`, millrace.MaxEvents) + `]}`
	_, err := DecodeInject([]byte(many))
	faultCase{code: invalid, faults: []string{"body.events must hold 1 to 1000 events"}}.check(t, err)
}

func TestABadSmallBodyIsRefusedWithEveryFault(t *testing.T) {
	redrive := func(b []byte) error { _, err := DecodeRedrive(b); return err }
	purge := func(b []byte) error { _, err := DecodePurge(b); return err }
	release := func(b []byte) error { _, err := DecodeRelease(b); return err }
	settings := func(b []byte) error { _, err := DecodeTenantSettings(b); return err }
	for _, c := range []struct {
		decode func([]byte) error
		faultCase
	}{
		{redrive, faultCase{"", ``, malformed, []string{"body must be JSON: it ends too early"}}},
		{redrive, faultCase{"", `{}`, invalid, []string{"body must hold ids, or all as true"}}},
		{redrive, faultCase{"", `{"all":false,"tenant":"acme"}`, invalid, []string{"body must hold ids, or all as true"}}},
		{redrive, faultCase{"", `{"ids":["a"],"all":true}`, invalid, []string{"body.all must not be given with ids"}}},
		{redrive, faultCase{"", `{"ids":["a"],"tenant":"acme"}`, invalid, []string{"body.tenant must not be given with ids"}}},
		{redrive, faultCase{"", `{"ids":[]}`, invalid, []string{"body.ids must hold 1 to 1000 ids"}}},
		{redrive, faultCase{"", `{"ids":[1,"",null]}`, invalid, []string{"body.ids[0] must be a string", "body.ids[1] must not be empty", "body.ids[2] must be a string"}}},
		{redrive, faultCase{"", `{"ids":["a"` + strings.Repeat(`,"a"`, MaxIDs) + `]}`, invalid, []string{"body.ids must hold 1 to 1000 ids"}}},
		{redrive, faultCase{"", `{"all":true,"tenant":"a:b","limit":1}`, invalid, []string{"body.tenant must not contain ':'", "body.limit is not a known field"}}},
		{purge, faultCase{"", `{"tenant":""}`, invalid, []string{"body.tenant must not be empty"}}},
		{purge, faultCase{"", `{"tenant":null,"all":true}`, invalid, []string{"body.tenant must be a string", "body.all is not a known field"}}},
		{release, faultCase{"", ``, malformed, []string{"body must be JSON: it ends too early"}}},
		{release, faultCase{"", `{}`, invalid, []string{"body.consumer is required"}}},
		{release, faultCase{"", `{"consumer":"a/b"}`, invalid, []string{"body.consumer must hold only letters, digits, '.', '_' and '-'"}}},
		{settings, faultCase{"", `{"weight":1001,"limit":-1}`, invalid, []string{"body.weight must be between 0 and 1000", "body.limit must be between 0 and 1073741824"}}},
		{settings, faultCase{"", `{"weight":"2","limit":null,"ready":1}`, invalid, []string{"body.weight must be an integer", "body.limit must be an integer", "body.ready is not a known field"}}},
		{settings, faultCase{"", `{"weight":-1}`, invalid, []string{"body.weight must be between 0 and 1000"}}},
		{DecodeNothing, faultCase{"", `{"a":1}`, invalid, []string{"body.a is not a known field"}}},
		{DecodeNothing, faultCase{"", `[]`, invalid, []string{"body must be an object"}}},
		{DecodeNothing, faultCase{"", `{`, malformed, []string{"body must be JSON: it ends too early"}}},
	} {
		c.check(t, c.decode([]byte(c.body)))
	}
	for _, nothing := range []string{"", " \n", "{}"} {
		if err := DecodeNothing([]byte(nothing)); err != nil {
			t.Errorf("%q: %v", nothing, err)
		}
	}
}

func TestTheStatisticsTellHowManyEventsAreDelayed(t *testing.T) {
	want := millrace.Stats{LaneStats: millrace.LaneStats{Held: 7}}
	text := AppendStats(nil, &want)
	if !strings.Contains(string(text), `"delayed":7,"queues"`) {
		t.Error(string(text))
	}
	equal(t, must[millrace.Stats](t)(DecodeStats(text)), want)
}
