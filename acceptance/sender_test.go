package acceptance

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

func TestASenderThatWasFrozenPastItsTimeChangesNothingWhenItWakes(t *testing.T) {
	t.Parallel() // most of it is waiting
	h := &house{store: redis(t), options: broker.Options{
		Logger: slog.New(slog.DiscardHandler), Engine: millrace.EngineOptions{Lanes: 1, Namespace: fmt.Sprintf("t%d", namespaces.Add(1))},
	}}
	allowLoopback(h)
	frozen := launch(t, "127.0.0.1:0", h.store, "--namespace", h.options.Engine.Namespace, "--allow-callbacks-to", "127.0.0.0/8")
	h.Backbone = dial(t, frozen.url)
	second := make(chan struct{})
	defer closeOnce(second)
	r := newReceiver(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 1:
			frozen.freeze(t)
			w.WriteHeader(http.StatusNoContent) // it reads this when it wakes
		case 2:
			<-second
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.RequestTimeout = 10 * time.Second })
	publish(t, h, order("acme", "a", 1))
	first := r.await(t, 1)
	h.Backbone = h.broker(t)
	t.Logf("it came again after %s", r.await(t, 2).at.Sub(first.at).Round(time.Millisecond))
	if again := r.await(t, 2); again.id != first.id || again.body != first.body || again.attempt != "2" {
		t.Errorf("got %+v after %+v", again, first)
	}
	frozen.thaw(t)
	eventually(t, "the late result is logged", func() bool {
		log, err := h.Subscriptions().Attempts(t.Context(), "shop", first.id, "")
		return err == nil && len(log) == 1 && log[0].Attempt == 1
	})
	if pending := h.batches(t, millrace.BatchPending); len(pending) != 1 || pending[0].Attempts != 2 || h.shop(t).Sent != 0 {
		t.Errorf("got %+v, want the second attempt under way and nothing sent", pending)
	}
	close(second)
	eventually(t, "it is sent once", func() bool { s := h.shop(t); return s.Sent == 1 && s.Queued == 0 && s.Failed == 2 })
}

// deaf is an engine of one lane that does not tell when definitions change, nor that they may have.
type deaf struct{ millrace.Engine }

func (e deaf) Watch(f func(millrace.Hint)) (stop func()) {
	return e.Engine.Watch(func(h millrace.Hint) {
		switch h.Kind {
		case millrace.HintRegistry:
		case millrace.HintAll:
			f(millrace.Hint{Kind: millrace.HintBatch})
		default:
			f(h)
		}
	})
}

// apart starts two nodes: one is talked to and sends nothing, the other sends and hears of no definition.
func apart(t *testing.T) *house {
	t.Helper()
	h := &house{store: redis(t), options: broker.Options{
		Logger: slog.New(slog.DiscardHandler), Roles: []string{broker.RoleWeb, broker.RoleMonitor},
		Engine: millrace.EngineOptions{Lanes: 1, Namespace: fmt.Sprintf("t%d", namespaces.Add(1))},
	}}
	allowLoopback(h)
	h.Backbone = h.broker(t)
	sender := &house{store: h.store, options: h.options, wrap: func(e millrace.Engine) millrace.Engine { return deaf{e} }}
	sender.options.Roles = []string{broker.RoleDeliver}
	sender.broker(t)
	return h
}

// soon is how long a batch is waited for that is sent at once: less than its time, after which it would come again.
const soon = 14 * time.Second

func TestABatchIsSentByANodeThatHasNotHeardOfItsSubscription(t *testing.T) {
	h, r := apart(t), newReceiver(t, nil)
	h.subscribe(t, r)
	publish(t, h, order("acme", "a", 1))
	if p := r.awaitFor(t, 1, soon); p.attempt != "1" {
		t.Errorf("it came as attempt %s", p.attempt)
	}
	eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 1 && s.Failed == 0 })
}

func TestANodeThatHasNotHeardOfANewCallbackOrSecretUsesThemAllTheSame(t *testing.T) {
	h, old, moved := apart(t), newReceiver(t, nil), newReceiver(t, nil)
	sub := h.subscribe(t, old)
	publish(t, h, order("acme", "a", 1))
	old.awaitFor(t, 1, soon) // from here on the sender knows the subscription as it was

	spec := sub.Spec
	spec.Callback, spec.Secrets = moved.URL, nil
	if _, created, err := h.Subscriptions().Put(t.Context(), "shop", spec); err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	publish(t, h, order("acme", "a", 2))
	if second := moved.awaitFor(t, 1, soon); !second.signedWith(sub.MadeSecret) || len(old.got()) != 1 {
		t.Errorf("got %+v, and %d requests came to where it was", second, len(old.got()))
	}
	secret, _, err := h.Subscriptions().Rotate(t.Context(), "shop", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, h, order("acme", "a", 3))
	if third := moved.awaitFor(t, 2, soon); !third.signedWith(secret) || third.signedWith(sub.MadeSecret) {
		t.Errorf("got %+v, want it signed with the new secret alone", third.header)
	}
}
