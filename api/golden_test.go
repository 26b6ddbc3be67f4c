package api

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(text)
}

// checkGolden compares what is written with the golden file of a name.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name+".json"), append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := golden(t, name); string(got) != string(want) {
		t.Errorf("%s\n got %s\nwant %s", name, got, want)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(sameError)); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func sameError(a, b error) bool { return millrace.CodeOf(a) == millrace.CodeOf(b) }

func at(text string) time.Time {
	t, ok := ParseTime(text)
	if !ok {
		panic(text)
	}
	return t
}

var exampleEvent = millrace.Event{
	ID: "01K0A3M8Z6", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7",
	Time: at("2026-11-15T01:13:00Z"), RecordedAt: at("2026-11-15T01:13:00.12Z"),
	ContentType: "application/json", Data: []byte(`{"n":1}`), Attributes: map[string]string{"source": "/shop"},
	Seq: 41, Prev: 38,
}

func TestAnEventLooksAsInTheExample(t *testing.T) {
	checkGolden(t, "event", AppendEvent(nil, &exampleEvent))
	equal(t, must[millrace.Event](t)(DecodeEvent(golden(t, "event"))), exampleEvent)
}

func TestAnEventWithoutAKeyHasNoPrev(t *testing.T) {
	e := millrace.Event{
		ID: "a-1", Topic: "orders", Type: "scanned", Tenant: "default",
		Time: at("2026-11-15T01:13:00Z"), RecordedAt: at("2026-11-15T01:13:00Z"),
		ContentType: "image/png", Data: []byte{0xff, 0x00}, Seq: 42,
	}
	checkGolden(t, "event_binary", AppendEvent(nil, &e))
	equal(t, must[millrace.Event](t)(DecodeEvent(golden(t, "event_binary"))), e)
}

func TestAPublishLooksAsInTheExample(t *testing.T) {
	want := []millrace.Event{{
		ID: "a-1", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7",
		Time: at("2026-11-15T01:13:00Z"), ContentType: "application/json", Data: []byte(`{"n":1}`),
	}}
	got := must[[]millrace.Event](t)(DecodePublish(golden(t, "publish_in"), PublishPath{Topic: "orders"}))
	equal(t, got, want)
	want[0].ContentType = ""
	equal(t, must[[]millrace.Event](t)(DecodePublish(AppendPublish(nil, got), PublishPath{Topic: "orders"})), want)
}

func TestThePublishAnswerLooksAsInTheExample(t *testing.T) {
	want := []millrace.Published{
		{ID: "a-1", Seq: 41, Prev: 38, HasKey: true, Sinks: 3},
		{ID: "a-2", DueAt: at("2026-11-15T02:13:00Z")},
	}
	checkGolden(t, "publish_out", AppendPublished(nil, want, millrace.Durable))
	got, level, err := DecodePublished(golden(t, "publish_out"))
	if err != nil || level != millrace.Durable {
		t.Fatal(level, err)
	}
	equal(t, got, want)
}

func TestATopicLooksAsInTheExample(t *testing.T) {
	want := millrace.Topic{
		TopicStats: millrace.TopicStats{Name: "orders", Events: 1024, LastEventAt: at("2026-11-15T01:13:00Z")},
		Publisher:  "shop", Subscriptions: []string{"shop"},
	}
	checkGolden(t, "topic", AppendTopic(nil, &want))
	equal(t, must[millrace.Topic](t)(DecodeTopic(golden(t, "topic"))), want)

	unclaimed := []millrace.Topic{want, {TopicStats: millrace.TopicStats{Name: "bare"}, Subscriptions: []string{}}}
	checkGolden(t, "topics", AppendTopics(nil, unclaimed, "orders"))
	got, next, err := DecodeTopics(golden(t, "topics"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, unclaimed)
	if place, err := ParseCursor(next); err != nil || place != "orders" {
		t.Errorf("next is %q: %v", place, err)
	}
}

func TestATopicIsHandedOverAsInTheExample(t *testing.T) {
	checkGolden(t, "topic_in", AppendTopicPut(nil, "shop"))
	checkGolden(t, "topic_in_free", AppendTopicPut(nil, ""))
	for name, want := range map[string]string{"topic_in": "shop", "topic_in_free": ""} {
		if got := must[string](t)(DecodeTopicPut(golden(t, name))); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func exampleQueue() millrace.Queue {
	return millrace.Queue{
		Name: "emails", Version: 3, State: "active", Spec: millrace.DefaultQueueSpec(":email_event:"),
		QueueStats: millrace.QueueStats{
			QueueCounts: millrace.QueueCounts{Ready: 12, Leased: 3, Delayed: 1},
			Tenants:     4, Oldest: at("2026-11-15T01:13:00Z"), Acked: 5, Spent: 2,
		},
	}
}

func TestAQueueLooksAsInTheExample(t *testing.T) {
	want := exampleQueue()
	checkGolden(t, "queue_in", AppendQueueSpec(nil, &want.Spec))
	equal(t, must[millrace.QueueSpec](t)(DecodeQueueSpec(golden(t, "queue_in"))), want.Spec)
	equal(t, must[millrace.QueueSpec](t)(DecodeQueueSpec([]byte(`{"match":":email_event:"}`))), want.Spec)

	checkGolden(t, "queue_out", AppendQueue(nil, &want))
	equal(t, must[millrace.Queue](t)(DecodeQueue(golden(t, "queue_out"))), want)

	empty := millrace.Queue{Name: "idle", Version: 1, State: "active", Spec: millrace.DefaultQueueSpec("x")}
	checkGolden(t, "queues", AppendQueues(nil, []millrace.Queue{want, empty}, ""))
	got, next, err := DecodeQueues(golden(t, "queues"))
	if err != nil || next != "" {
		t.Fatal(next, err)
	}
	equal(t, got, []millrace.Queue{want, empty})
}

func TestALeaseLooksAsInTheExample(t *testing.T) {
	want := millrace.LeaseOptions{Max: 1, Lease: 30 * time.Second, Consumer: "w-1"}
	equal(t, must[millrace.LeaseOptions](t)(DecodeLease(golden(t, "lease_in"))), want)
	equal(t, must[millrace.LeaseOptions](t)(DecodeLease(AppendLease(nil, want))), want)
	for _, nothing := range []string{"", " \n", "{}"} {
		equal(t, must[millrace.LeaseOptions](t)(DecodeLease([]byte(nothing))), millrace.LeaseOptions{})
	}

	messages := []millrace.Message{{
		ID: "01K0C", Queue: "emails", Receipt: "q5J", Attempt: 1, LeasedUntil: at("2026-11-15T01:14:00Z"), Operation: "Zt8", Event: exampleEvent,
	}}
	checkGolden(t, "lease_out", AppendMessages(nil, messages))
	equal(t, must[[]millrace.Message](t)(DecodeMessages(golden(t, "lease_out"))), messages)
	checkGolden(t, "lease_out_empty", AppendMessages(nil, nil))
}

func TestASettlementLooksAsInTheExample(t *testing.T) {
	delay := 10 * time.Second
	ack := []SettleItem{{Settlement: millrace.Settlement{Receipt: "q5J", Output: []byte(`{"pr":12}`)}}}
	equal(t, must[[]SettleItem](t)(DecodeSettle(AppendSettle(nil, []millrace.Settlement{ack[0].Settlement}), Ack)), ack)
	equal(t, must[[]SettleItem](t)(DecodeSettle(golden(t, "ack_in"), Ack)), ack)
	retry := []millrace.Settlement{{Receipt: "q5J", Delay: &delay, Error: "boom"}, {Receipt: "q6K", Error: "bang"}}
	checkGolden(t, "retry_in", AppendSettle(nil, retry))
	equal(t, must[[]SettleItem](t)(DecodeSettle(golden(t, "retry_in"), Retry)), []SettleItem{{Settlement: retry[0]}, {Settlement: retry[1]}})
	checkGolden(t, "extend_in", AppendExtend(nil, time.Minute, []string{"q5J", "q6K"}))
	equal(t, must[[]SettleItem](t)(DecodeSettle(golden(t, "extend_in"), Extend)), []SettleItem{
		{Settlement: millrace.Settlement{Receipt: "q5J"}, Lease: time.Minute}, {Settlement: millrace.Settlement{Receipt: "q6K"}, Lease: time.Minute},
	})
}

func TestTheSettlementAnswerLooksAsInTheExample(t *testing.T) {
	settled := millrace.SettleResult{Settled: 1, Lost: []string{"q6K"}}
	checkGolden(t, "settled", AppendSettled(nil, Retry, &settled))
	equal(t, must[millrace.SettleResult](t)(DecodeSettled(golden(t, "settled"))), settled)
	extended := millrace.SettleResult{Settled: 1, Lost: []string{}, LeasedUntil: at("2026-11-15T01:15:00Z"), Cancelled: []string{"q5J"}}
	checkGolden(t, "extended", AppendSettled(nil, Extend, &extended))
	equal(t, must[millrace.SettleResult](t)(DecodeSettled(golden(t, "extended"))), extended)
}

func TestTheHouseLooksAsInTheExamples(t *testing.T) {
	nodes := []millrace.Node{{
		ID: "01K0N", Host: "host-7", Version: "0.1.0", Roles: []string{"web", "deliver", "monitor"},
		StartedAt: at("2026-11-15T01:13:00Z"), SeenAt: at("2026-11-15T01:13:02Z"),
	}}
	checkGolden(t, "nodes", AppendNodes(nil, nodes))
	equal(t, must[[]millrace.Node](t)(DecodeNodes(golden(t, "nodes"))), nodes)
	stats := millrace.Stats{
		Identity:   millrace.Identity{Engine: "embedded", Format: 1, Lanes: 1, Namespace: "millrace"},
		Durability: millrace.Durable, Bytes: 1048576, LaneStats: millrace.LaneStats{Published: 10},
		Queues: millrace.QueueCounts{Ready: 12, Leased: 3, Delayed: 1},
	}
	checkGolden(t, "stats", AppendStats(nil, &stats))
	equal(t, must[millrace.Stats](t)(DecodeStats(golden(t, "stats"))), stats)
	checkGolden(t, "health", AppendHealth(nil, true))
	found := []millrace.Finding{
		{Name: "store", Grade: millrace.GradeOK, Detail: "all is well"},
		{Name: "memory", Grade: millrace.GradeWarn, Detail: "85 % used", Next: "make room"},
		{Name: "eviction", Grade: millrace.GradeFail, Detail: "allkeys-lru", Next: "set noeviction"},
	}
	checkGolden(t, "readiness", AppendReadiness(nil, &stats, true, found))
	equal(t, must[[]millrace.Finding](t)(DecodeReadiness(golden(t, "readiness"))), []millrace.Finding{
		{Name: "store", Grade: millrace.GradeOK},
		{Name: "memory", Grade: millrace.GradeWarn, Detail: "85 % used; make room"},
		{Name: "eviction", Grade: millrace.GradeFail, Detail: "allkeys-lru; set noeviction"},
	})
}

func TestAProblemLooksAsInTheExample(t *testing.T) {
	invalid := millrace.Invalid([]millrace.Fault{
		{Location: "body[1].tenant", Message: "must not contain ':'"},
		{Location: "query.limit", Message: "must be at most 1000"},
	})
	partly := &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "1 of 2 events is stored", Events: []millrace.Published{
		{ID: "a-1", Seq: 41, Sinks: 1}, {ID: "a-2", Err: millrace.ErrUnavailable},
	}}
	full := &millrace.Error{Code: millrace.CodeFull, Detail: "a queue is full", Sink: "emails"}
	conflict := &millrace.Error{Code: millrace.CodeVersionConflict, Detail: "it has changed", CurrentVersion: 7}
	for name, err := range map[string]*millrace.Error{"problem": WireError(invalid), "problem_partly": partly, "problem_full": full, "problem_conflict": conflict} {
		checkGolden(t, name, AppendProblem(nil, err, "01K0A3"))
		equal(t, DecodeProblem(StatusOf(millrace.CodeOf(err)), golden(t, name)), err)
	}
}
