package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestTheAttemptsOfEveryEventOfALargeBatchAreFound(t *testing.T) {
	b, s := startPushing(t, model())
	r := newReceiver(t)
	subscribe(t, s, r, func(spec *millrace.SubscriptionSpec) {
		spec.MaxEvents, spec.Timeout = millrace.MaxBatchEvents, time.Hour
	})
	publishSpread(t, b, "orders", millrace.MaxBatchEvents)
	eventually(t, "it is sent", func() bool {
		sub, err := s.Get(t.Context(), "shop")
		return err == nil && sub.Sent == millrace.MaxBatchEvents
	})
	for _, n := range []int{0, 19, 20, 500, millrace.MaxBatchEvents - 1} {
		attempts, err := s.Attempts(t.Context(), "shop", "", fmt.Sprint("orders", n))
		if err != nil || len(attempts) != 1 || attempts[0].Count != millrace.MaxBatchEvents {
			t.Errorf("event %d: %+v, %v", n, attempts, err)
		}
	}
	if attempts, err := s.Attempts(t.Context(), "shop", "", "another"); err != nil || len(attempts) != 0 {
		t.Errorf("of an event that was never sent: %+v, %v", attempts, err)
	}
}
