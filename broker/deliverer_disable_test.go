package broker

import (
	"net/http"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

func stateOf(t *testing.T, s millrace.SubscriptionService) string {
	t.Helper()
	sub, err := s.Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return sub.State
}

func TestWhatOneCallbackAnsweredDoesNotDisableAnother(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	spec := subscribe(t, s, r).Spec
	first := b.registry.now().subs["shop"]
	spec.Callback += "/moved"
	if _, _, err := s.Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	b.deliverer.disable(t.Context(), first, "gone")
	if got := stateOf(t, s); got != millrace.StateActive {
		t.Errorf("it is %s, but its callback was never asked", got)
	}
	second := b.registry.now().subs["shop"]
	if err := s.Delete(t.Context(), "shop", false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	b.deliverer.disable(t.Context(), second, "gone")
	if got := stateOf(t, s); got != millrace.StateActive {
		t.Errorf("it is %s, but it is not the one that was asked", got)
	}
	third := b.registry.now().subs["shop"]
	b.deliverer.disable(t.Context(), third, "gone")
	if got := stateOf(t, s); got != millrace.StateDisabled {
		t.Errorf("it is %s, want disabled", got)
	}
	if err := s.Resume(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	b.deliverer.disable(t.Context(), third, "gone")
	if got := stateOf(t, s); got != millrace.StateActive {
		t.Errorf("it is %s by what was answered before it was resumed", got)
	}
}

// longAgo is a lane's clock by which everything happened two hours ago.
func longAgo() time.Time { return time.Now().Add(-2 * time.Hour) }

func TestASubscriptionThatIsResumedHasItsWholeTimeAgain(t *testing.T) {
	b, s := startPushing(t, enginetest.NewModel(1, longAgo))
	r := newReceiver(t)
	r.answers(func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) })
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) {
		spec.DisableAfter = time.Hour
		spec.RetrySchedule = make([]time.Duration, millrace.MaxScheduleLen) // again at once, and not soon dead
	})
	publishOrders(t, b, 1)
	eventually(t, "it is disabled", func() bool { return stateOf(t, s) == millrace.StateDisabled })
	if err := s.Resume(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	before := len(r.got())
	eventually(t, "it fails some more", func() bool { return len(r.got()) >= before+3 })
	if got := stateOf(t, s); got == millrace.StateDisabled {
		t.Error("it is disabled again by failures from before")
	}
}
