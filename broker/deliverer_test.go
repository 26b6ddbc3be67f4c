package broker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/webhook"
)

// push is one request that a receiver got.
type push struct {
	id, attempt, body string
	events            []string // ids
	verified          bool
}

// receiver is a callback that notes what arrives and answers as it is told.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	pushes []push
	secret string
	answer func(n int, w http.ResponseWriter) // nil: 204
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	var events []struct{ ID string }
	_ = json.Unmarshal(body, &events)
	p := push{id: q.Header.Get(webhook.HeaderID), attempt: q.Header.Get(webhook.HeaderAttempt), body: string(body)}
	for _, e := range events {
		p.events = append(p.events, e.ID)
	}
	r.mu.Lock()
	p.verified = webhook.Verify(q.Header, body, r.secret) == nil
	r.pushes = append(r.pushes, p)
	n, answer := len(r.pushes), r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(n, w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) got() []push {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pushes)
}

// ids are the events that arrived, in their order, with repeats.
func (r *receiver) ids() (all []string) {
	for _, p := range r.got() {
		all = append(all, p.events...)
	}
	return all
}

func (r *receiver) answers(f func(n int, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		pause(t.Context(), 5*time.Millisecond)
	}
}

// startPushing starts a broker that may call this machine, and returns it with its subscriptions.
func startPushing(t *testing.T, e millrace.Engine) (*Broker, millrace.SubscriptionService) {
	t.Helper()
	b, err := New(t.Context(), e, Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b, b.Subscriptions()
}

// subscribe defines a subscription to orders that is quick about everything.
func subscribe(t *testing.T, s millrace.SubscriptionService, r *receiver, change ...func(*millrace.SubscriptionSpec)) millrace.Subscription {
	t.Helper()
	spec := millrace.DefaultSubscriptionSpec(r.URL)
	spec.Topics, spec.Timeout = []string{"orders"}, 20*time.Millisecond
	spec.RetrySchedule = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond}
	for _, f := range change {
		f(&spec)
	}
	sub, created, err := s.Put(t.Context(), "shop", spec)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = sub.MadeSecret
	return sub
}

func publishOrders(t *testing.T, b *Broker, n int) (ids []string) {
	t.Helper()
	for i := range n {
		id := "e-" + strconv.Itoa(i)
		if _, err := b.Publish(t.Context(), millrace.Event{ID: id, Topic: "orders", Type: "created", Key: "k", Data: []byte(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func model() *enginetest.Model { return enginetest.NewModel(1, time.Now) }

func TestEventsArriveSignedAndInBatches(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) { spec.MaxEvents = 4 })
	want := publishOrders(t, b, 10)
	eventually(t, "all events arrive", func() bool { return len(r.ids()) == 10 })
	got := r.ids()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, p := range r.got() {
		if !p.verified || p.attempt != "1" || len(p.events) > 4 {
			t.Errorf("%+v", p)
		}
	}
	eventually(t, "the sent are counted", func() bool {
		sub, err := s.Get(t.Context(), "shop")
		return err == nil && sub.Sent == 10 && sub.Queued == 0 && sub.State == millrace.StateActive
	})
}

func TestAFailedBatchComesAgainByteForByte(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	r.answers(func(n int, w http.ResponseWriter) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	subscribe(t, s, r)
	publishOrders(t, b, 1)
	eventually(t, "the third attempt", func() bool { return len(r.got()) == 3 })
	for i, p := range r.got() {
		if first := r.got()[0]; p.id != first.id || p.body != first.body || p.attempt != strconv.Itoa(i+1) || !p.verified {
			t.Errorf("attempt %d: %+v", i+1, p)
		}
	}
	eventually(t, "it is sent", func() bool {
		sub, err := s.Get(t.Context(), "shop")
		return err == nil && sub.Sent == 1 && sub.Failed == 2
	})
	attempts, err := s.Attempts(t.Context(), "shop", "", "e-0")
	if err != nil || len(attempts) != 3 || !attempts[0].OK || attempts[2].Status != 500 || attempts[2].Error != millrace.AttemptStatus {
		t.Errorf("%+v, %v", attempts, err)
	}
}

func TestABatchWhoseAttemptsAreSpentIsDeadAndCanBeRetried(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	r.answers(func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) })
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) { spec.RetrySchedule = []time.Duration{5 * time.Millisecond} })
	publishOrders(t, b, 1)
	var dead []millrace.SubscriptionBatch
	eventually(t, "it is dead", func() bool {
		var err error
		dead, _, err = s.Batches(t.Context(), "shop", millrace.BatchQuery{State: millrace.BatchDead})
		return err == nil && len(dead) == 1
	})
	if len(r.got()) != 2 || dead[0].Attempts != 2 || dead[0].Error != "status 400" {
		t.Errorf("%d requests, %+v", len(r.got()), dead[0])
	}
	r.answers(nil)
	if n, err := s.RetryDead(t.Context(), "shop"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	eventually(t, "it arrives", func() bool {
		sub, err := s.Get(t.Context(), "shop")
		return err == nil && sub.Sent == 1 && sub.Dead == 0
	})
}

func TestAReceiverThatIsGoneDisablesItsSubscriptionWhichIsAnEvent(t *testing.T) {
	b, s := startPushing(t, model())
	if _, _, err := b.Queues().Put(t.Context(), "house", millrace.DefaultQueueSpec(":millrace:")); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	r.answers(func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) })
	subscribe(t, s, r)
	publishOrders(t, b, 1)
	eventually(t, "it is disabled", func() bool {
		sub, err := s.Get(t.Context(), "shop")
		return err == nil && sub.State == millrace.StateDisabled && sub.Reason != ""
	})
	messages, err := b.Queues().Lease(t.Context(), "house", millrace.LeaseOptions{Max: 10, Wait: 10 * time.Second})
	if err != nil || len(messages) != 1 || messages[0].Event.Type != "subscription.disabled" || messages[0].Event.Key != "shop" {
		t.Errorf("%+v, %v", messages, err)
	}
	publishOrdersAgain(t, b, "late")
	sub, err := s.Get(t.Context(), "shop")
	if err != nil || sub.Skipped != 1 || sub.Queued != 1 {
		t.Errorf("%+v, %v: it skips what comes and keeps what it has", sub, err)
	}
	r.answers(nil)
	if err := s.Resume(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what it kept arrives", func() bool { sub, err := s.Get(t.Context(), "shop"); return err == nil && sub.Sent == 1 })
}

func publishOrdersAgain(t *testing.T, b *Broker, id string) {
	t.Helper()
	if _, err := b.Publish(t.Context(), millrace.Event{ID: id, Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
}

func TestASlowReceiverDelaysNobodyElse(t *testing.T) {
	for _, lanes := range []int{1, 16} {
		t.Run(strconv.Itoa(lanes), func(t *testing.T) { slowAmongQuick(t, lanes) })
	}
}

// slowAmongQuick gives a receiver that answers nothing more batches in every lane than it may have on their way.
func slowAmongQuick(t *testing.T, lanes int) {
	b, s := startPushing(t, enginetest.NewModel(lanes, time.Now))
	slow, quick := newReceiver(t), newReceiver(t)
	hold := make(chan struct{})
	slow.answers(func(int, http.ResponseWriter) { <-hold })
	t.Cleanup(func() { close(hold) })
	subscribe(t, s, slow, func(spec *millrace.SubscriptionSpec) {
		spec.MaxEvents, spec.RequestTimeout = 1, millrace.MaxRequestTimeout
	})
	spec := millrace.DefaultSubscriptionSpec(quick.URL)
	spec.Topics, spec.MaxEvents, spec.Timeout = []string{"orders"}, 1, 20*time.Millisecond
	if _, _, err := s.Put(t.Context(), "quick", spec); err != nil {
		t.Fatal(err)
	}
	for i := range 20 * lanes {
		publishOrdersAgain(t, b, strconv.Itoa(i)) // without a key, so in every lane
	}
	eventually(t, "the quick one has all", func() bool { return len(quick.ids()) == 20*lanes })
	if n := len(slow.got()); n > 8*lanes {
		t.Errorf("%d batches at once to one subscription, want at most 8 in each lane", n)
	}
}

func TestAPingIsSentBesideTheBatches(t *testing.T) {
	_, s := startPushing(t, model())
	r := newReceiver(t)
	subscribe(t, s, r)
	a, err := s.Test(t.Context(), "shop")
	if err != nil || !a.OK || a.Status != http.StatusNoContent || a.Batch != "" {
		t.Errorf("%+v, %v", a, err)
	}
	if got := r.got(); len(got) != 1 || !got[0].verified {
		t.Errorf("%+v", got)
	}
}

func TestASecretRotatesWithoutAGap(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	sub := subscribe(t, s, r)
	made, until, err := s.Rotate(t.Context(), "shop", "", time.Hour)
	if err != nil || made == sub.MadeSecret || time.Until(until) > time.Hour {
		t.Fatalf("%q, %s, %v", made, until, err)
	}
	publishOrders(t, b, 1)
	eventually(t, "it arrives", func() bool { return len(r.got()) == 1 })
	r.mu.Lock()
	r.secret = made
	r.mu.Unlock()
	publishOrdersAgain(t, b, "second")
	eventually(t, "the second arrives", func() bool { return len(r.got()) == 2 })
	for _, p := range r.got() {
		if !p.verified {
			t.Errorf("%+v is not signed with a secret the receiver knows", p)
		}
	}
	if got, err := s.Get(t.Context(), "shop"); err != nil || len(got.Spec.Secrets) != 2 || got.Spec.Secrets[1].ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", got.Spec.Secrets, err)
	}
}

func TestAClosedAddressIsRefusedAtTheDoor(t *testing.T) {
	b, err := New(t.Context(), model(), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	for _, callback := range []string{"https://127.0.0.1/x", "http://shop.example/x", "https://169.254.169.254/", "https://localhost/"} {
		spec := millrace.DefaultSubscriptionSpec(callback)
		spec.Topics = []string{"orders"}
		if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", callback, err)
		}
	}
}

func TestTheSameSubscriptionAgainChangesNothing(t *testing.T) {
	_, s := startPushing(t, model())
	r := newReceiver(t)
	first := subscribe(t, s, r)
	spec := first.Spec
	spec.Secrets = nil
	again, created, err := s.Put(t.Context(), "shop", spec)
	if err != nil || created || again.Version != first.Version || again.MadeSecret != "" {
		t.Errorf("created %v, version %d, %v", created, again.Version, err)
	}
	spec.Timeout = time.Second
	changed, _, err := s.Put(t.Context(), "shop", spec)
	if err != nil || changed.Version != first.Version+1 || len(changed.Spec.Secrets) != 1 || changed.Spec.Secrets[0] != first.Spec.Secrets[0] {
		t.Errorf("%+v, %v", changed, err)
	}
	spec.Ordered = true
	if _, _, err := s.Put(t.Context(), "shop", spec); millrace.CodeOf(err) != millrace.CodeImmutable {
		t.Errorf("got %v", err)
	}
}
