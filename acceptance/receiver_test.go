package acceptance

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

// push is one request that a receiver got.
type push struct {
	id, attempt, body string
	header            http.Header
	at                time.Time
	events            []pushed
	taken             bool // it was answered with a 2xx, or will be
}

// pushed is an event of a batch, as a receiver reads it.
type pushed struct {
	ID, Key    string
	Seq        uint64
	RecordedAt time.Time `json:"recorded_at"`
}

// signedWith reports whether a secret verifies the request.
func (p *push) signedWith(secret string) bool {
	return webhook.Verify(p.header, []byte(p.body), secret) == nil
}

// receiver is a callback on this machine that notes what arrives and answers as it is told.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	pushes []push
	answer func(n int, w http.ResponseWriter) // of the n-th request, from 1; nil: 204
}

// status answers every request with a status.
func status(code int) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) { w.WriteHeader(code) }
}

// dead breaks every connection without an answer, as a receiver does that is down.
func dead(_ int, w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	p := push{
		id: q.Header.Get(webhook.HeaderID), attempt: q.Header.Get(webhook.HeaderAttempt), body: string(body), header: q.Header.Clone(), at: time.Now(),
	}
	_ = json.Unmarshal(body, &p.events)
	r.mu.Lock()
	answer := r.answer
	p.taken = answer == nil
	r.pushes = append(r.pushes, p)
	n := len(r.pushes)
	r.mu.Unlock()
	if answer == nil {
		answer = status(http.StatusNoContent)
	}
	answer(n, w)
}

// answers changes how requests are answered; nil takes them.
func (r *receiver) answers(f func(n int, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) got() []push {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pushes)
}

// taken are the events that arrived and were taken, in their order.
func (r *receiver) taken() (events []pushed) {
	for _, p := range r.got() {
		if p.taken {
			events = append(events, p.events...)
		}
	}
	return events
}

// await waits for a number of requests and returns the last of them.
func (r *receiver) await(t *testing.T, n int) push {
	t.Helper()
	return r.awaitFor(t, n, 60*time.Second)
}

// awaitFor waits for a number of requests, so long and no longer, and returns the last of them.
func (r *receiver) awaitFor(t *testing.T, n int, patience time.Duration) push {
	t.Helper()
	within(t, patience, "the request arrives", func() bool { return len(r.got()) >= n })
	return r.got()[n-1]
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	within(t, 60*time.Second, what, f)
}

// within waits for a condition, so long and no longer.
func within(t *testing.T, patience time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// allowLoopback lets subscriptions of a house call this machine.
func allowLoopback(h *house) {
	h.options.AllowCallbacksTo = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// pushing runs a test everywhere with houses that may call this machine.
func pushing(t *testing.T, prepare func(*house), test func(t *testing.T, h *house)) {
	t.Helper()
	everywhereAs(t, func(h *house) {
		allowLoopback(h)
		if prepare != nil {
			prepare(h)
		}
	}, test)
}

// subscribe defines a subscription to orders, quick to try again, and returns it with its secret.
func (h *house) subscribe(t *testing.T, r *receiver, change ...func(*millrace.SubscriptionSpec)) millrace.Subscription {
	t.Helper()
	spec := millrace.DefaultSubscriptionSpec(r.URL)
	spec.Topics, spec.Timeout = []string{"orders"}, 20*time.Millisecond
	spec.RetrySchedule = slices.Repeat([]time.Duration{50 * time.Millisecond}, millrace.MaxScheduleLen)
	for _, f := range change {
		f(&spec)
	}
	sub, created, err := h.Subscriptions().Put(t.Context(), "shop", spec)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	return sub
}

// shop is the subscription as it is now.
func (h *house) shop(t *testing.T) millrace.Subscription {
	t.Helper()
	sub, err := h.Subscriptions().Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// batches are those of the subscription in a state, or in all of them.
func (h *house) batches(t *testing.T, state millrace.BatchState) []millrace.SubscriptionBatch {
	t.Helper()
	list, _, err := h.Subscriptions().Batches(t.Context(), "shop", millrace.BatchQuery{State: state})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
