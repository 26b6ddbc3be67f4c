package broker

import (
	"net/http"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/webhook"
)

func TestASubscriptionThatFailsInOneLaneAloneIsNotDisabled(t *testing.T) {
	b, s := startPushing(t, enginetest.NewModel(4, time.Now))
	r := newReceiver(t)
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) { spec.DisableAfter = time.Hour })
	failed := &webhook.Outcome{Status: http.StatusBadRequest, Failure: webhook.FailedStatus}
	settled := millrace.SettledBatch{FailingSince: time.Now().Add(-2 * time.Hour)} // in some lane
	state := func() string { return held(t, b).State }

	publishOrders(t, b, 1)
	eventually(t, "another lane sends", func() bool { return held(t, b).Sent == 1 })
	b.deliverer.conclude(t.Context(), b.registry.now().subs["shop"], failed, settled)
	if got := state(); got != millrace.StateActive {
		t.Errorf("it is %s, want active: a batch was taken within the hour", got)
	}

	spec := b.registry.now().subs["shop"].spec
	spec.DisableAfter, spec.Secrets = time.Nanosecond, nil
	if _, _, err := s.Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	b.deliverer.conclude(t.Context(), b.registry.now().subs["shop"], failed, settled)
	if got := state(); got != millrace.StateDisabled {
		t.Errorf("it is %s, want disabled: nothing was taken for as long as it may fail", got)
	}
}
