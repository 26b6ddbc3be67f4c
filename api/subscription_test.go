package api

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

const exampleSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

func exampleSubscription() millrace.SubscriptionSpec {
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics, spec.UUID, spec.Secrets = []string{"orders"}, "u-1", []millrace.Secret{{Text: exampleSecret}}
	return spec
}

func TestASubscriptionsDefinitionLooksAsInTheExample(t *testing.T) {
	spec := exampleSubscription()
	checkGolden(t, "subscription_in", AppendSubscriptionSpec(nil, &spec))
	equal(t, must[millrace.SubscriptionSpec](t)(DecodeSubscriptionSpec(golden(t, "subscription_in"))), spec)
}

func TestASubscriptionThatSaysLittleHasTheDefaults(t *testing.T) {
	want := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	want.Match = ":orders:"
	checkGolden(t, "subscription_in_match", AppendSubscriptionSpec(nil, &want))
	equal(t, must[millrace.SubscriptionSpec](t)(DecodeSubscriptionSpec(golden(t, "subscription_in_match"))), want)
	equal(t, must[millrace.SubscriptionSpec](t)(DecodeSubscriptionSpec([]byte(`{"callback":"https://shop.example/hook","match":":orders:"}`))), want)
}

func TestEveryFaultOfASubscriptionIsNamed(t *testing.T) {
	_, err := DecodeSubscriptionSpec([]byte(`{"callback":"ftp://x","topics":["a:b"],"match":"(","timeout":"-1s","max_events":0,"max_bytes":1,
		"format":"xml","uuid":"a:b","concurrency":99,"request_timeout":"0s","retry_schedule":["soon"],"nosuch":1}`))
	if millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Fatal(err)
	}
	for _, want := range []string{
		"callback", "topics", "timeout", "max_events", "max_bytes", "format", "uuid", "concurrency", "request_timeout", "retry_schedule[0]", "nosuch",
	} {
		if !strings.Contains(err.Error(), "body."+want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	for _, bad := range []string{`{}`, `{"callback":"https://x.example"}`, `{"callback":"https://x.example","topics":[]}`, `{"callback":"https://x.example","topics":["a"],"match":"b"}`, `{"callback":"https://x.example","topics":["a","b","a"]}`} {
		if _, err := DecodeSubscriptionSpec([]byte(bad)); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestASubscriptionLooksAsInTheExampleAndShowsNoSecret(t *testing.T) {
	s := millrace.Subscription{
		Name: "shop", Version: 1, State: millrace.StateFailing, Reason: "status 500", Spec: exampleSubscription(),
		Queued: 12, Sent: 1024, Failed: 3, Oldest: at("2026-11-15T01:13:00Z"), NextAttemptAt: at("2026-11-15T01:18:00Z"),
	}
	text := AppendSubscription(nil, &s)
	checkGolden(t, "subscription_out", text)
	if strings.Contains(string(text), exampleSecret) || strings.Contains(string(text), "u-1") {
		t.Errorf("a secret is shown: %s", text)
	}
	s.Spec.UUID, s.Spec.Secrets = "", []millrace.Secret{{Text: "NTY3"}}
	equal(t, must[millrace.Subscription](t)(DecodeSubscription(text)), s)
	s.MadeSecret = exampleSecret
	equal(t, must[millrace.Subscription](t)(DecodeSubscription(AppendSubscription(nil, &s))), s)
	list, next, err := DecodeSubscriptions(AppendSubscriptions(nil, []millrace.Subscription{s, s}, "here"))
	if err != nil || next != FormatCursor("here") || len(list) != 2 {
		t.Errorf("%d subscriptions, %q, %v", len(list), next, err)
	}
}

func TestANewSubscriptionShowsTheSecretThatWasMade(t *testing.T) {
	s := millrace.Subscription{Name: "shop", Version: 1, State: millrace.StateActive, Spec: millrace.DefaultSubscriptionSpec("https://shop.example/hook"), MadeSecret: exampleSecret}
	s.Spec.Match, s.Spec.Secrets = ":orders:", []millrace.Secret{{Text: exampleSecret}}
	checkGolden(t, "subscription_made", AppendSubscription(nil, &s))
	other := s
	other.Name, other.MadeSecret = "warehouse", ""
	other.Spec.Secrets = []millrace.Secret{{Text: exampleSecret}, {Text: "whsec_old1", ExpiresAt: at("2026-11-16T01:13:00Z")}}
	s.MadeSecret = ""
	checkGolden(t, "subscriptions", AppendSubscriptions(nil, []millrace.Subscription{s, other}, ""))
	list, _, err := DecodeSubscriptions(golden(t, "subscriptions"))
	s.Spec.Secrets, other.Spec.Secrets = []millrace.Secret{{Text: "NTY3"}}, []millrace.Secret{{Text: "NTY3"}, {Text: "old1", ExpiresAt: at("2026-11-16T01:13:00Z")}}
	equal(t, must[[]millrace.Subscription](t)(list, err), []millrace.Subscription{s, other})
	s.MadeSecret = exampleSecret
	equal(t, must[millrace.Subscription](t)(DecodeSubscription(golden(t, "subscription_made"))), s)
}

func TestBatchesLookAsInTheExample(t *testing.T) {
	b := millrace.SubscriptionBatch{ID: "01K0B", Batch: millrace.Batch{
		State: millrace.BatchDead, Count: 10, Bytes: 2560, Attempts: 10, CreatedAt: at("2026-11-15T01:13:00Z"), Error: "status 500",
	}}
	checkGolden(t, "batches", AppendBatches(nil, []millrace.SubscriptionBatch{b}, ""))
	list, _, err := DecodeBatches(golden(t, "batches"))
	equal(t, must[[]millrace.SubscriptionBatch](t)(list, err), []millrace.SubscriptionBatch{b})
	b.Events, b.DueAt, b.Node, b.Current = []millrace.Event{exampleEvent}, b.CreatedAt, "01K0N", true
	equal(t, must[millrace.SubscriptionBatch](t)(DecodeBatch(AppendBatch(nil, &b))), b)
	b.State, b.Current, b.Count, b.Bytes, b.Attempts, b.Error = millrace.BatchPending, false, 1, 256, 1, ""
	checkGolden(t, "batch", AppendBatch(nil, &b))
	equal(t, must[millrace.SubscriptionBatch](t)(DecodeBatch(golden(t, "batch"))), b)
}

func TestAttemptsLookAsInTheExample(t *testing.T) {
	a := millrace.Attempt{
		Batch: "01K0B", Attempt: 2, At: at("2026-11-15T01:13:00Z"), Status: 500, Error: millrace.AttemptStatus,
		Duration: 12 * time.Millisecond, Count: 10, Answer: "oops", Node: "01K0N",
	}
	checkGolden(t, "attempts", AppendAttempts(nil, []millrace.Attempt{a}))
	equal(t, must[[]millrace.Attempt](t)(DecodeAttempts(golden(t, "attempts"))), []millrace.Attempt{a})
	a.OK, a.Error, a.Batch, a.Attempt, a.Status, a.Count, a.Answer = true, "", "", 1, 204, 1, ""
	checkGolden(t, "tested", AppendAttempt(nil, &a))
	equal(t, must[millrace.Attempt](t)(DecodeAttempt(golden(t, "tested"))), a)
}

func TestARotationSaysWhatItMeans(t *testing.T) {
	checkGolden(t, "rotate_in", AppendRotate(nil, exampleSecret, time.Hour))
	secret, overlap, err := DecodeRotate(golden(t, "rotate_in"))
	if err != nil || secret != exampleSecret || overlap != time.Hour {
		t.Errorf("%q, %s, %v", secret, overlap, err)
	}
	for _, body := range []string{"", "{}"} {
		if secret, overlap, err := DecodeRotate([]byte(body)); err != nil || secret != "" || overlap != 24*time.Hour {
			t.Errorf("%q: %q, %s, %v", body, secret, overlap, err)
		}
	}
	if _, _, err := DecodeRotate([]byte(`{"overlap":"-1s","secret":""}`)); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("got %v", err)
	}
	until := at("2026-11-16T01:13:00Z")
	checkGolden(t, "rotated", AppendRotated(nil, exampleSecret, until))
	made, old, err := DecodeRotated(golden(t, "rotated"))
	if err != nil || made != exampleSecret || !old.Equal(until) {
		t.Errorf("%q, %s, %v", made, old, err)
	}
	checkGolden(t, "retried", AppendRetried(nil, 1))
	if n, err := DecodeRetried(golden(t, "retried")); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
