package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestEventsArriveSignedInBatchesThatAreNeitherLateNorLong(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		r := newReceiver(t, nil)
		const timeout, most, events = 200 * time.Millisecond, 4, 30
		sub := h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.Timeout, s.MaxEvents = timeout, most })
		want := map[string]bool{}
		for n := range events {
			e := order("acme", fmt.Sprint("k", n%5), n)
			want[e.ID] = true
			if got := publish(t, h, e)[0].Sinks; got != 1 {
				t.Errorf("%d sinks", got)
			}
		}
		eventually(t, "all events arrive", func() bool { return len(r.taken()) >= events })
		for _, p := range r.got() {
			late := p.at.Sub(p.events[0].RecordedAt)
			if len(p.events) > most || late > timeout+5*time.Second || p.attempt != "1" || !p.signedWith(sub.MadeSecret) {
				t.Errorf("%d events, the first %s late, attempt %s: %+v", len(p.events), late, p.attempt, p.header)
			}
			for _, e := range p.events {
				if !want[e.ID] {
					t.Errorf("%s arrived twice, or was not published", e.ID)
				}
				delete(want, e.ID)
			}
		}
		if len(want) > 0 {
			t.Errorf("%v did not arrive", want)
		}
		eventually(t, "all are counted as sent", func() bool { s := h.shop(t); return s.Sent == events && s.Queued == 0 && s.Failed == 0 })
	})
}

func TestAReceiverThatWasDownGetsEverythingInTheOrderOfEachKey(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		r := newReceiver(t, dead)
		h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.Ordered, s.MaxEvents = true, 3 })
		const keys, each = 4, 12
		for n := range each {
			for k := range keys {
				publish(t, h, order("acme", fmt.Sprint("k", k), n))
			}
		}
		eventually(t, "it backs off", func() bool { return h.shop(t).State == millrace.StateFailing })
		r.answers(nil)
		eventually(t, "everything arrives", func() bool { return len(r.taken()) >= keys*each })
		last, seen := map[string]uint64{}, map[string]bool{}
		for _, e := range r.taken() {
			if e.Seq <= last[e.Key] || seen[e.ID] {
				t.Errorf("%s, seq %d of key %s, came after %d", e.ID, e.Seq, e.Key, last[e.Key])
			}
			last[e.Key], seen[e.ID] = e.Seq, true
		}
		eventually(t, "it is active again", func() bool {
			s := h.shop(t)
			return s.State == millrace.StateActive && s.Sent == keys*each && s.Queued+s.Dead == 0 && s.Failed >= 3
		})
	})
}

// firstIsShort is an engine whose first batch is pending for a short time only.
type firstIsShort struct {
	millrace.Engine
	taken atomic.Bool
}

func (e *firstIsShort) Take(ctx context.Context, lane int, t millrace.Take) (millrace.Taken, error) {
	if !e.taken.Load() {
		t.For = 200 * time.Millisecond
	}
	got, err := e.Engine.Take(ctx, lane, t)
	if len(got.Batches) > 0 {
		e.taken.Store(true)
	}
	return got, err
}

func TestAResultThatComesAfterItsTimeChangesNothing(t *testing.T) {
	short := func(h *house) {
		h.wrap = func(e millrace.Engine) millrace.Engine { return &firstIsShort{Engine: e} }
	}
	pushing(t, short, func(t *testing.T, h *house) {
		late, second := make(chan struct{}), make(chan struct{})
		r := newReceiver(t, func(n int, w http.ResponseWriter) {
			switch n {
			case 1:
				<-late // and then a 204
				w.WriteHeader(http.StatusNoContent)
			case 2:
				<-second
				w.WriteHeader(http.StatusInternalServerError)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		})
		defer closeOnce(late)
		defer closeOnce(second)
		h.subscribe(t, r)
		publish(t, h, order("acme", "a", 1))
		first, again := r.await(t, 1), r.await(t, 2)
		if again.id != first.id || again.body != first.body || first.attempt != "1" || again.attempt != "2" {
			t.Errorf("got %+v after %+v", again, first)
		}
		close(late)
		eventually(t, "the late result is logged", func() bool {
			log, err := h.Subscriptions().Attempts(t.Context(), "shop", first.id, "")
			return err == nil && len(log) == 1 && log[0].OK && log[0].Attempt == 1
		})
		pending := h.batches(t, millrace.BatchPending)
		if s := h.shop(t); s.Sent != 0 || s.Queued != 1 || len(pending) != 1 || pending[0].Attempts != 2 {
			t.Errorf("got %+v and %+v, want the second attempt under way and nothing sent", s, pending)
		}
		close(second)
		if third := r.await(t, 3); third.id != first.id || third.attempt != "3" {
			t.Errorf("got %+v", third)
		}
		eventually(t, "it is sent once", func() bool { s := h.shop(t); return s.Sent == 1 && s.Queued == 0 && s.Failed == 2 })
	})
}

// closeOnce closes a channel unless it is closed.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func TestADeletedSubscriptionTakesItsBatchesInEveryStateWithIt(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		hold := make(chan struct{})
		r := newReceiver(t, func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			<-hold
			w.WriteHeader(http.StatusNoContent)
		})
		defer closeOnce(hold)
		h.subscribe(t, r, func(s *millrace.SubscriptionSpec) {
			s.Timeout, s.MaxEvents, s.Concurrency, s.RetrySchedule = time.Hour, 2, 1, nil
		})
		h.queue(t, "all", ".")
		for n := range 2 {
			publish(t, h, order("acme", "a", n))
		}
		eventually(t, "the first batch is dead", func() bool { return len(h.batches(t, millrace.BatchDead)) == 1 })
		for n := range 5 {
			publish(t, h, order("acme", "a", 2+n))
		}
		r.await(t, 2)
		for _, state := range []millrace.BatchState{millrace.BatchDead, millrace.BatchPending, millrace.BatchReady, millrace.BatchEarly} {
			if n := len(h.batches(t, state)); n != 1 {
				t.Fatalf("%d batches are %s, want 1", n, state)
			}
		}
		if err := h.Subscriptions().Delete(t.Context(), "shop", true); millrace.CodeOf(err) != millrace.CodeNotEmpty {
			t.Errorf("delete if empty: %v", err)
		}
		if err := h.Subscriptions().Delete(t.Context(), "shop", false); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Subscriptions().Get(t.Context(), "shop"); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		h.subscribe(t, newReceiver(t, nil))
		close(hold) // a 204 for a subscription that is gone
		eventually(t, "its events are counted as dropped", func() bool {
			s, err := h.Stats(t.Context())
			return err == nil && s.Dropped == 7 && s.Subscriptions.Queued+s.Subscriptions.Dead == 0
		})
		if s := h.shop(t); s.Sent+s.Failed+s.Dropped != 0 || len(r.got()) != 2 {
			t.Errorf("the new one of its name has %+v, and %d requests came to the old one", s, len(r.got()))
		}
		leaseAll(t, h, "all", 7) // the queue shares the bodies, and keeps them
	})
}

func TestANewCallbackAndANewSecretCountFromTheNextAttempt(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		old, moved := newReceiver(t, status(http.StatusInternalServerError)), newReceiver(t, nil)
		sub := h.subscribe(t, old, func(s *millrace.SubscriptionSpec) { s.RetrySchedule = []time.Duration{time.Hour} })
		publish(t, h, order("acme", "a", 1))
		first := old.await(t, 1)
		eventually(t, "the failure is recorded", func() bool { return h.shop(t).Failed == 1 })
		spec := sub.Spec
		spec.Callback, spec.Secrets = moved.URL, nil
		if _, created, err := h.Subscriptions().Put(t.Context(), "shop", spec); err != nil || created {
			t.Fatalf("created %v, %v", created, err)
		}
		secret, _, err := h.Subscriptions().Rotate(t.Context(), "shop", "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := h.Subscriptions().RetryBatch(t.Context(), "shop", first.id); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		second := moved.await(t, 1)
		if second.id != first.id || second.body != first.body || second.attempt != "2" || len(old.got()) != 1 {
			t.Errorf("got %+v after %+v", second, first)
		}
		if !second.signedWith(secret) || !second.signedWith(sub.MadeSecret) || first.signedWith(secret) {
			t.Errorf("the second is to be signed with the new secret and, for the overlap, with the old one: %+v", second.header)
		}
		if _, _, err := h.Subscriptions().Rotate(t.Context(), "shop", "", 0); err != nil {
			t.Fatal(err)
		}
		publish(t, h, order("acme", "a", 2))
		if third := moved.await(t, 2); third.signedWith(secret) || third.signedWith(sub.MadeSecret) {
			t.Error("a secret without overlap signs on")
		}
	})
}

func TestAReceiverThatAnswersGoneIsCalledNoMore(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		r := newReceiver(t, status(http.StatusGone))
		h.subscribe(t, r)
		h.queue(t, "house", ":millrace:subscription\\.disabled$")
		publish(t, h, order("acme", "a", 1))
		told := leaseAll(t, h, "house", 1)[0].Event
		if told.Type != "subscription.disabled" || told.Key != "shop" {
			t.Errorf("got %+v", told)
		}
		if s := h.shop(t); s.State != millrace.StateDisabled || s.Reason == "" || s.Queued != 1 {
			t.Errorf("got %+v", s)
		}
		if got := publish(t, h, order("acme", "a", 2))[0].Sinks; got != 0 {
			t.Errorf("%d sinks, want none: it is disabled", got)
		}
		if s := h.shop(t); s.Skipped != 1 || s.Queued != 1 || len(r.got()) != 1 {
			t.Errorf("got %+v after %d requests", s, len(r.got()))
		}
		r.answers(nil)
		if err := h.Subscriptions().Resume(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what it kept arrives", func() bool { return h.shop(t).Sent == 1 })
	})
}

func TestAReceiverIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			pushing(t, nil, func(t *testing.T, h *house) {
				r := newReceiver(t, func(n int, w http.ResponseWriter) {
					if n == 1 {
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(code)
					}
				})
				h.subscribe(t, r) // tries again after 50 ms, of itself
				publish(t, h, order("acme", "a", 1))
				first, second := r.await(t, 1), r.await(t, 2)
				if waited := second.at.Sub(first.at); waited < time.Second || second.id != first.id {
					t.Errorf("%s came again as %s after %s, want a second at least", first.id, second.id, waited)
				}
			})
		})
	}
}

func TestASubscriptionThatDoesNothingButFailIsDisabled(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		r := newReceiver(t, status(http.StatusBadGateway))
		h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.DisableAfter = 300 * time.Millisecond })
		h.queue(t, "house", ":millrace:subscription\\.disabled$")
		publish(t, h, order("acme", "a", 1))
		leaseAll(t, h, "house", 1)
		got := r.got()
		if s := h.shop(t); s.State != millrace.StateDisabled || s.Queued != 1 || len(got) < 2 {
			t.Errorf("got %+v after %d requests", s, len(got))
		}
		if span := got[len(got)-1].at.Sub(got[0].at); span < 200*time.Millisecond {
			t.Errorf("it was disabled after %s", span)
		}
	})
}

func TestABatchWhoseAttemptsAreSpentIsKeptAndCanBeSentAgain(t *testing.T) {
	pushing(t, nil, func(t *testing.T, h *house) {
		r := newReceiver(t, status(http.StatusBadRequest))
		h.subscribe(t, r, func(s *millrace.SubscriptionSpec) { s.RetrySchedule = []time.Duration{10 * time.Millisecond} })
		publish(t, h, order("acme", "a", 1))
		eventually(t, "it is dead", func() bool { return h.shop(t).Dead == 1 })
		batch := h.batches(t, millrace.BatchDead)[0]
		if batch.Attempts != 2 || batch.Error != "status 400" || len(r.got()) != 2 {
			t.Errorf("got %+v after %d requests", batch, len(r.got()))
		}
		full, err := h.Subscriptions().GetBatch(t.Context(), "shop", batch.ID)
		if err != nil || len(full.Events) != 1 || full.Events[0].ID != "acme-a-1" {
			t.Errorf("got %+v, %v", full, err)
		}
		r.answers(nil)
		if n, err := h.Subscriptions().RetryDead(t.Context(), "shop"); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		eventually(t, "it is sent", func() bool { s := h.shop(t); return s.Sent == 1 && s.Dead+s.Queued == 0 })
		if got := r.got(); got[2].id != got[0].id || got[2].body != got[0].body {
			t.Errorf("got %+v after %+v", got[2], got[0])
		}
	})
}
