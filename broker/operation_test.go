package broker

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// syncing is a queue whose messages are tracked.
const syncing = "sync"

// track starts a broker with a tracked queue on the model.
func track(t *testing.T, lanes int, edits ...func(*millrace.QueueSpec)) *Broker {
	t.Helper()
	b := start(t, enginetest.NewModel(lanes, time.Now))
	spec := millrace.DefaultQueueSpec(":links:")
	spec.Tracked = true
	for _, edit := range edits {
		edit(&spec)
	}
	if _, _, err := b.Queues().Put(t.Context(), syncing, spec); err != nil {
		t.Fatal(err)
	}
	return b
}

func begun(t *testing.T, b *Broker, r millrace.OperationRequest) millrace.StartedOperation {
	t.Helper()
	if r.Queue == "" {
		r.Queue = syncing
	}
	if r.Type == "" {
		r.Type = "MANUAL"
	}
	started, err := b.Operations().Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func leaseOne(t *testing.T, b *Broker) millrace.Message {
	t.Helper()
	messages, err := b.Queues().Lease(t.Context(), syncing, millrace.LeaseOptions{})
	if err != nil || len(messages) != 1 {
		t.Fatalf("leased %d: %v", len(messages), err)
	}
	return messages[0]
}

func operation(t *testing.T, b *Broker, id string) millrace.TrackedOperation {
	t.Helper()
	o, err := b.Operations().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAnOperationGoesThroughItsLife(t *testing.T) {
	b := track(t, 4)
	ctx := t.Context()
	started := begun(t, b, millrace.OperationRequest{Subject: "link:456", Tenant: "u1", Payload: []byte(`{"link":456}`)})
	if started.Status != millrace.OperationQueued || started.Existing {
		t.Errorf("started %+v", started)
	}
	o := operation(t, b, started.ID)
	if o.Queue != syncing || o.Tenant != "u1" || o.Subject != "link:456" || o.Type != "MANUAL" || string(o.Payload) != `{"link":456}` || o.Event == "" {
		t.Errorf("queued: %+v", o)
	}
	m := leaseOne(t, b)
	if m.Operation != started.ID || m.Event.ID != o.Event || !m.Event.Unchained || m.Event.Key != "link:456" || m.Event.Topic != syncing {
		t.Errorf("leased %+v", m)
	}
	if err := b.Operations().Report(ctx, started.ID, m.Receipt, millrace.Progress{Percent: 40, Note: "cloning"}); err != nil {
		t.Fatal(err)
	}
	if o = operation(t, b, started.ID); o.Status != millrace.OperationRunning || o.Attempts != 1 || *o.Progress != (millrace.Progress{Percent: 40, Note: "cloning"}) {
		t.Errorf("running: %+v", o)
	}
	if _, err := b.Queues().Ack(ctx, syncing, millrace.Settlement{Receipt: m.Receipt, Output: []byte(`{"pr":12}`)}); err != nil {
		t.Fatal(err)
	}
	o = operation(t, b, started.ID)
	if o.Status != millrace.OperationSuccess || string(o.Output) != `{"pr":12}` || o.ExpiresAt.Sub(o.FinishedAt) != 24*time.Hour {
		t.Errorf("finished: %+v", o)
	}
	if _, err := b.Operations().Cancel(ctx, started.ID); millrace.CodeOf(err) != millrace.CodeFinished {
		t.Errorf("cancelled when it had finished: %v", err)
	}
	if err := b.Operations().Report(ctx, started.ID, m.Receipt, millrace.Progress{Percent: 50}); millrace.CodeOf(err) != millrace.CodeLost {
		t.Errorf("reported when it had finished: %v", err)
	}
}

func TestAnIDThatIsNotWhollyKnownFindsNothing(t *testing.T) {
	b := track(t, 1)
	id, _ := millrace.ParseOperationID(begun(t, b, millrace.OperationRequest{}).ID)
	id.Secret[3] ^= 1
	for _, text := range []string{id.String(), "", "x", strings.Repeat("A", 32)} {
		if _, err := b.Operations().Get(t.Context(), text); millrace.CodeOf(err) != millrace.CodeNotFound {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhatIsOpenIsNotStartedTwice(t *testing.T) {
	b := track(t, 8)
	for _, subject := range []string{"", "link:1"} {
		r := millrace.OperationRequest{Subject: subject, DedupeKey: "nightly"}
		first := begun(t, b, r)
		if again := begun(t, b, r); !again.Existing || again.ID != first.ID {
			t.Errorf("with subject %q: %+v, then %+v", subject, first, again)
		}
		if other := begun(t, b, millrace.OperationRequest{Subject: subject, DedupeKey: "other"}); other.Existing {
			t.Errorf("with subject %q another key is the same", subject)
		}
	}
	if other := begun(t, b, millrace.OperationRequest{DedupeKey: "nightly", Tenant: "acme"}); other.Existing {
		t.Error("another tenant's is the same")
	}
}

func TestEveryMatchingEventOpensAnOperation(t *testing.T) {
	b := track(t, 4)
	events := []millrace.Event{
		{Topic: "links", Type: "changed", Key: "link:1", Data: []byte(`{"n":1}`)},
		{Topic: "links", Type: "changed", ContentType: "text/plain", Data: []byte("no JSON")},
		{Topic: "other", Type: "changed", Key: "link:1"},
	}
	if _, err := b.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	all, next, err := b.Operations().List(t.Context(), millrace.OperationQuery{Queue: syncing})
	if err != nil || len(all) != 2 || next != "" {
		t.Fatalf("listed %d, %q: %v", len(all), next, err)
	}
	of, _, err := b.Operations().List(t.Context(), millrace.OperationQuery{Subject: "link:1", Tenant: millrace.DefaultTenant})
	if err != nil || len(of) != 1 || string(of[0].Payload) != `{"n":1}` || of[0].Type != "changed" {
		t.Errorf("of the subject: %+v, %v", of, err)
	}
}

func TestWhatAQueueRedactsIsShownToItsWorkersAlone(t *testing.T) {
	b := track(t, 1, func(q *millrace.QueueSpec) { q.Redact, q.MaxAttempts = []string{"/user/token"}, 1 })
	ctx := t.Context()
	secret, hidden := []byte(`{"user":{"token":"s3cret"}}`), `{"user":{"token":"[redacted]"}}`
	id := begun(t, b, millrace.OperationRequest{Payload: secret}).ID
	if got := operation(t, b, id).Payload; string(got) != hidden {
		t.Errorf("the status shows %s", got)
	}
	peeked, err := b.Queues().Peek(ctx, syncing, "", 10)
	if err != nil || len(peeked) != 1 || string(peeked[0].Event.Data) != hidden {
		t.Errorf("peek shows %+v, %v", peeked, err)
	}
	m := leaseOne(t, b)
	if !bytes.Equal(m.Event.Data, secret) {
		t.Errorf("a worker is given %s", m.Event.Data)
	}
	if _, err := b.Queues().Bury(ctx, syncing, millrace.Settlement{Receipt: m.Receipt, Error: "boom"}); err != nil {
		t.Fatal(err)
	}
	dead, _, err := b.Queues().Dead(ctx, syncing, "", millrace.Page{})
	if err != nil || len(dead) != 1 || string(dead[0].Event.Data) != hidden {
		t.Errorf("the dead letters show %+v, %v", dead, err)
	}
	redriven(t, b, id, dead[0].ID)
	if again := leaseOne(t, b); again.Operation == id || !bytes.Equal(again.Event.Data, secret) || string(operation(t, b, again.Operation).Payload) != hidden {
		t.Errorf("redriven it is %+v", again)
	}
}

// redriven redrives a dead letter and checks that its operation stays as it ended.
func redriven(t *testing.T, b *Broker, id, message string) {
	t.Helper()
	done, left, err := b.Queues().Redrive(t.Context(), syncing, millrace.DeadSelection{IDs: []string{message}})
	if err != nil || done != 1 || left != 0 {
		t.Fatalf("redriven %d, left %d: %v", done, left, err)
	}
	if o := operation(t, b, id); o.Status != millrace.OperationError || o.Error != "boom" {
		t.Errorf("the old operation is %+v", o)
	}
}

func TestAllDeadLettersOfATrackedQueueAreRedriven(t *testing.T) {
	b := track(t, 4, func(q *millrace.QueueSpec) { q.MaxAttempts = 1 })
	for range 20 {
		begun(t, b, millrace.OperationRequest{})
	}
	for range 20 {
		m := leaseOne(t, b)
		if _, err := b.Queues().Retry(t.Context(), syncing, millrace.Settlement{Receipt: m.Receipt}); err != nil {
			t.Fatal(err)
		}
	}
	done, left, err := b.Queues().Redrive(t.Context(), syncing, millrace.DeadSelection{All: true})
	if err != nil || done != 20 || left != 0 {
		t.Errorf("redriven %d, left %d: %v", done, left, err)
	}
	queued, _, err := b.Operations().List(t.Context(), millrace.OperationQuery{Queue: syncing, Status: millrace.OperationQueued})
	if err != nil || len(queued) != 20 {
		t.Errorf("%d are queued: %v", len(queued), err)
	}
}

func TestACancelledOperationNeverRunsAndARunningOneIsTold(t *testing.T) {
	b := track(t, 1)
	ctx := t.Context()
	first, second := begun(t, b, millrace.OperationRequest{}), begun(t, b, millrace.OperationRequest{})
	if o, err := b.Operations().Cancel(ctx, first.ID); err != nil || o.Status != millrace.OperationCancelled {
		t.Fatalf("cancelled: %+v, %v", o, err)
	}
	m := leaseOne(t, b)
	if m.Operation != second.ID {
		t.Fatalf("leased %s", m.Operation)
	}
	if o, err := b.Operations().Cancel(ctx, second.ID); err != nil || o.Status != millrace.OperationRunning || !o.CancelRequested {
		t.Fatalf("asked to cancel: %+v, %v", o, err)
	}
	r, err := b.Queues().Extend(ctx, syncing, 0, m.Receipt)
	if err != nil || len(r.Cancelled) != 1 || r.Cancelled[0] != m.Receipt {
		t.Errorf("extended: %+v, %v", r, err)
	}
	if _, err := b.Queues().Retry(ctx, syncing, millrace.Settlement{Receipt: m.Receipt, Error: "gave up"}); err != nil {
		t.Fatal(err)
	}
	if o := operation(t, b, second.ID); o.Status != millrace.OperationCancelled {
		t.Errorf("after the retry it is %+v", o)
	}
	counts, err := b.Operations().Counts(ctx, millrace.OperationCountQuery{Queue: syncing})
	if err != nil || counts.Total.Cancelled != 2 || len(counts.Counts) < 60 {
		t.Errorf("counted %+v, %v", counts.Total, err)
	}
}

func TestWhoWaitsForAnOperationHearsOfItsChange(t *testing.T) {
	b := track(t, 2)
	id := begun(t, b, millrace.OperationRequest{}).ID
	type heard struct {
		o   millrace.TrackedOperation
		err error
	}
	answer := make(chan heard, 1)
	go func() {
		o, err := b.Operations().Await(t.Context(), id, millrace.OperationQueued, time.Minute)
		answer <- heard{o, err}
	}()
	seen, err := b.Operations().Watch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var statuses []millrace.OperationStatus
	for o, err := range seen {
		if err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, o.Status)
		if o.CancelRequested {
			break
		}
		switch o.Status {
		case millrace.OperationQueued:
			leaseOne(t, b)
		case millrace.OperationRunning:
			if got := <-answer; got.err != nil || got.o.Status != millrace.OperationRunning {
				t.Errorf("awaited %+v, %v", got.o, got.err)
			}
			if _, err := b.Operations().Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(statuses) != 3 {
		t.Errorf("saw %v", statuses)
	}
	if o, err := b.Operations().Await(t.Context(), id, "", 10*time.Millisecond); err != nil || o.Status != millrace.OperationRunning {
		t.Errorf("after the wait: %+v, %v", o, err)
	}
}

// numberOf is what operations are listed by.
func numberOf(id string) uint64 {
	parsed, _ := millrace.ParseOperationID(id)
	return parsed.Number
}

func TestListsOfManyLanesArePagedByTime(t *testing.T) {
	b := track(t, 8)
	var want []string
	for range 50 {
		want = append([]string{begun(t, b, millrace.OperationRequest{}).ID}, want...)
	}
	var got []string
	for q := (millrace.OperationQuery{Queue: syncing, Page: millrace.Page{Limit: 7}}); ; {
		page, next, err := b.Operations().List(t.Context(), q)
		if err != nil || len(page) > 7 {
			t.Fatalf("a page of %d: %v", len(page), err)
		}
		for _, o := range page {
			got = append(got, o.ID)
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	slices.SortFunc(want, func(a, b string) int { return cmp.Compare(numberOf(b), numberOf(a)) })
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

func TestBadRequestsForOperationsAreRefused(t *testing.T) {
	b := track(t, 1, func(q *millrace.QueueSpec) { q.Ordered, q.OnExhausted = true, millrace.ExhaustedBlock })
	define(t, b, "plain", ":x:")
	for name, r := range map[string]millrace.OperationRequest{
		"no type":         {Queue: syncing},
		"no queue":        {Type: "a"},
		"bad payload":     {Queue: syncing, Type: "a", Payload: []byte("{")},
		"negative delay":  {Queue: syncing, Type: "a", Delay: -1},
		"delay, ordered":  {Queue: syncing, Type: "a", Delay: time.Second},
		"control in text": {Queue: syncing, Type: "a", Subject: "a\nb"},
	} {
		if _, err := b.Operations().Start(t.Context(), r); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "plain", Type: "a"}); millrace.CodeOf(err) != millrace.CodeNotTracked {
		t.Errorf("untracked: %v", err)
	}
	if _, err := b.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "none", Type: "a"}); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Errorf("unknown: %v", err)
	}
	if _, err := b.Queues().Lease(t.Context(), syncing, millrace.LeaseOptions{AtMostOnce: true}); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("at most once: %v", err)
	}
	if _, _, err := b.Operations().List(t.Context(), millrace.OperationQuery{}); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("a list of nothing: %v", err)
	}
	if _, err := b.Operations().Counts(t.Context(), millrace.OperationCountQuery{Queue: syncing, Since: time.Now().Add(-30 * time.Hour)}); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("1,800 buckets: %v", err)
	}
}

func TestATriggerDoesWhatItIsToldAsOftenAsItMay(t *testing.T) {
	b := track(t, 4)
	ctx := t.Context()
	spec := millrace.DefaultTriggerSpec()
	spec.Operation = &millrace.OperationRequest{Queue: syncing, Type: "MANUAL", Payload: []byte(`{"fixed":1}`)}
	spec.PerMinute = 2
	made, created, err := b.Triggers().Put(ctx, "resync", spec)
	if err != nil || !created || made.Secret == "" {
		t.Fatalf("put: %+v %t %v", made, created, err)
	}
	again, created, err := b.Triggers().Put(ctx, "resync", spec)
	if err != nil || created || again.Secret != "" || again.Version != 1 {
		t.Errorf("put again: %+v %t %v", again, created, err)
	}
	done, err := b.Triggers().Fire(ctx, made.Secret, []byte(`{"by":"hand"}`))
	if err != nil || done.Operation == nil || string(operation(t, b, done.Operation.ID).Payload) != `{"fixed":1,"request":{"by":"hand"}}` {
		t.Errorf("fired: %+v, %v", done, err)
	}
	firedTooOften(t, b, made.Secret)
	if _, err := b.Triggers().Fire(ctx, "unknown", nil); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Errorf("unknown: %v", err)
	}
	rotated, err := b.Triggers().Rotate(ctx, "resync")
	if err != nil || rotated.Secret == "" || rotated.Secret == made.Secret || rotated.Fired == 0 {
		t.Errorf("rotated: %+v, %v", rotated, err)
	}
	if _, err := b.Triggers().Fire(ctx, made.Secret, nil); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Errorf("the old secret: %v", err)
	}
	spec.Enabled = false
	if _, _, err := b.Triggers().Put(ctx, "resync", spec); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Triggers().Fire(ctx, rotated.Secret, nil); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Errorf("disabled: %v", err)
	}
	if err := b.Triggers().Delete(ctx, "resync"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Triggers().Get(ctx, "resync"); millrace.CodeOf(err) != millrace.CodeNotFound {
		t.Errorf("deleted: %v", err)
	}
}

// firedTooOften fires until it is refused, whatever minute it is.
func firedTooOften(t *testing.T, b *Broker, secret string) {
	t.Helper()
	for range 10 {
		_, err := b.Triggers().Fire(context.WithoutCancel(t.Context()), secret, nil)
		if millrace.CodeOf(err) == millrace.CodeRateLimited {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("it is never refused")
}

func TestATriggerPublishesItsEvent(t *testing.T) {
	b := track(t, 1)
	spec := millrace.DefaultTriggerSpec()
	spec.Event = &millrace.TriggerEvent{Topic: "links", Type: "pushed", Key: "link:9"}
	made, _, err := b.Triggers().Put(t.Context(), "hook", spec)
	if err != nil {
		t.Fatal(err)
	}
	done, err := b.Triggers().Fire(t.Context(), made.Secret, []byte(`[1,2]`))
	if err != nil || done.Event == nil || done.Event.Sinks != 1 {
		t.Fatalf("fired: %+v, %v", done, err)
	}
	if m := leaseOne(t, b); string(m.Event.Data) != `[1,2]` || m.Event.Key != "link:9" {
		t.Errorf("it published %+v", m.Event)
	}
	if _, err := b.Triggers().Fire(t.Context(), made.Secret, []byte(`{`)); millrace.CodeOf(err) != millrace.CodeMalformed {
		t.Errorf("a body that is not JSON: %v", err)
	}
	doc, err := b.Definitions(t.Context())
	if err != nil || len(doc.Triggers) != 1 {
		t.Fatalf("the document has %d triggers: %v", len(doc.Triggers), err)
	}
	applied, err := b.Apply(t.Context(), doc, millrace.ApplyOptions{Prune: true})
	if err != nil || len(applied.Created)+len(applied.Changed)+len(applied.Deleted) != 0 {
		t.Errorf("applied again: %+v, %v", applied, err)
	}
}

func TestALeaseThatComesToManyCancelledOnesEndsAndAWaitingOneGoesOn(t *testing.T) {
	b := track(t, 1)
	for range 2*maxLooks + 10 {
		if _, err := b.Operations().Cancel(t.Context(), begun(t, b, millrace.OperationRequest{}).ID); err != nil {
			t.Fatal(err)
		}
	}
	last := begun(t, b, millrace.OperationRequest{}).ID
	if got, err := b.Queues().Lease(t.Context(), syncing, millrace.LeaseOptions{}); err != nil || len(got) != 0 {
		t.Errorf("one look came through all of them: %d, %v", len(got), err)
	}
	got, err := b.Queues().Lease(t.Context(), syncing, millrace.LeaseOptions{Wait: time.Minute})
	if err != nil || len(got) != 1 || got[0].Operation != last {
		t.Errorf("a lease that waits found %+v, %v", got, err)
	}
}
