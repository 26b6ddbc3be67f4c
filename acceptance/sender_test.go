package acceptance

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

func TestABatchWhoseSenderWasKilledBeforeItsRecordComesAgainByteForByte(t *testing.T) {
	t.Parallel() // most of it is waiting
	stores := map[string]string{"embedded": "embedded:" + filepath.Join(t.TempDir(), "store"), "redis": redis(t)}
	for engine, store := range stores {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			killTheSender(t, store)
		})
	}
}

// killTheSender kills a server while a receiver has its batch and has not answered yet: the
// receiver did its work, and the server never learns of it.
func killTheSender(t *testing.T, store string) {
	args := []string{"--namespace", fmt.Sprintf("t%d", namespaces.Add(1)), "--allow-callbacks-to", "127.0.0.0/8"}
	p := launch(t, "127.0.0.1:0", store, args...)
	listen := p.url[len("http://"):]
	h := &house{Backbone: dial(t, p.url)}
	kill := sync.OnceFunc(p.kill)
	r := newReceiver(t, func(_ int, w http.ResponseWriter) {
		kill()
		w.WriteHeader(http.StatusNoContent)
	})
	sub := h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.RequestTimeout = 100 * time.Millisecond })
	publish(t, h, order("acme", "a", 1), order("acme", "a", 2))
	first := r.await(t, 1)
	kill()
	launch(t, listen, store, args...)
	if held := h.batches(t, millrace.BatchPending); len(held) != 1 || held[0].ID != first.id || held[0].Attempts != 1 {
		t.Errorf("after the kill these are pending: %+v", held)
	}
	second := r.await(t, 2) // when the time of the first is over
	t.Logf("it came again after %s", second.at.Sub(first.at).Round(time.Millisecond))
	if second.id != first.id || second.body != first.body || second.attempt != "2" || len(second.events) != 2 || !second.signedWith(sub.MadeSecret) {
		t.Errorf("got %+v after %+v", second, first)
	}
	eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 2 && s.Queued == 0 && s.Failed == 1 })
}

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

// deaf is an engine that does not tell when definitions change.
type deaf struct{ millrace.Engine }

func (e deaf) Watch(f func(millrace.Hint)) (stop func()) {
	return e.Engine.Watch(func(h millrace.Hint) {
		if h.Kind != millrace.HintRegistry {
			f(h)
		}
	})
}

func TestABatchIsSentByANodeThatHasNotHeardOfItsSubscription(t *testing.T) {
	h := &house{store: redis(t), options: broker.Options{
		Logger: slog.New(slog.DiscardHandler), Roles: []string{broker.RoleWeb, broker.RoleMonitor},
		Engine: millrace.EngineOptions{Lanes: 1, Namespace: fmt.Sprintf("t%d", namespaces.Add(1))},
	}}
	allowLoopback(h)
	h.Backbone = h.broker(t)
	sender := &house{store: h.store, options: h.options, wrap: func(e millrace.Engine) millrace.Engine { return deaf{e} }}
	sender.options.Roles = []string{broker.RoleDeliver}
	sender.broker(t)
	r := newReceiver(t, nil)
	h.subscribe(t, r)
	publish(t, h, order("acme", "a", 1))
	if p := r.await(t, 1); p.attempt != "1" {
		t.Errorf("it came as attempt %s", p.attempt)
	}
	eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 1 && s.Failed == 0 })
}
