package broker

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

func TestADeliveryThatOutlastsTheDrainIsCutOffAndHasFailed(t *testing.T) {
	e := model()
	b, err := New(t.Context(), e, Options{Logger: slog.New(slog.DiscardHandler), AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	r, hold := newReceiver(t), make(chan struct{})
	defer close(hold)
	r.answers(func(int, http.ResponseWriter) { <-hold })
	subscribe(t, b.Subscriptions(), r, func(spec *millrace.SubscriptionSpec) { spec.RequestTimeout = 20 * time.Second })
	publishOrders(t, b, 1)
	eventually(t, "it is being sent", func() bool { return len(r.got()) == 1 })
	uid := b.registry.now().subs["shop"].uid
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closing took %s", took)
	}
	e.Reopen()
	if s, err := e.SubscriptionStats(t.Context(), 0, uid); err != nil || s.Failed != 1 || s.Queued != 1 || s.Pending != 0 {
		t.Errorf("got %+v, %v: it is to be tried again", s, err)
	}
}

func TestARequestEndsWhileItsBatchIsStillPendingWhateverItsSubscriptionAllows(t *testing.T) {
	b, s := startPushing(t, model())
	r, hold := newReceiver(t), make(chan struct{})
	t.Cleanup(func() { close(hold) })
	r.answers(func(int, http.ResponseWriter) { <-hold })
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) { spec.RequestTimeout = 10 * time.Second })
	batch := &parcel{TakenBatch: &millrace.TakenBatch{Name: 1, Attempt: 1, Format: string(millrace.FormatEvents)}, within: 50 * time.Millisecond}
	outcome, attempt := b.deliverer.post(t.Context(), b.registry.now().subs["shop"], batch)
	if outcome.Failure != webhook.FailedTimeout || attempt.Duration > 5*time.Second {
		t.Errorf("got %+v after %s", outcome, attempt.Duration)
	}
}
