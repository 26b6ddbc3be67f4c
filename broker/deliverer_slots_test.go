package broker

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

func TestNoSubscriptionMayHaveMoreThanHalfTheSlotsOfANode(t *testing.T) {
	for lanes := 1; lanes <= millrace.MaxLanes; lanes *= 2 {
		for concurrency := 1; concurrency <= millrace.MaxConcurrency; concurrency++ {
			n := perLane(concurrency, lanes)
			if n < 1 || n > concurrency || n*lanes > deliverSlots/2 {
				t.Errorf("%d in each of %d lanes for a concurrency of %d", n, lanes, concurrency)
			}
		}
	}
}

func TestAReceiverThatNeverAnswersLeavesSlotsToOthers(t *testing.T) {
	for _, c := range []struct{ lanes, concurrency int }{{1, millrace.MaxConcurrency}, {16, 8}, {16, millrace.MaxConcurrency}} {
		t.Run(fmt.Sprintf("%d lanes, concurrency %d", c.lanes, c.concurrency), func(t *testing.T) {
			b, s := startPushing(t, enginetest.NewModel(c.lanes, time.Now))
			slow, quick := newReceiver(t), newReceiver(t)
			hold := make(chan struct{})
			slow.answers(func(int, http.ResponseWriter) { <-hold })
			t.Cleanup(func() { close(hold) })
			subscribe(t, s, slow, func(spec *millrace.SubscriptionSpec) {
				spec.MaxEvents, spec.Concurrency, spec.RequestTimeout = 1, c.concurrency, millrace.MaxRequestTimeout
			})
			publishSpread(t, b, "orders", 400) // as many batches: more than there are slots
			eventually(t, "the slow one has all it may have", func() bool { return len(slow.got()) == 64 })
			spec := millrace.DefaultSubscriptionSpec(quick.URL)
			spec.Topics, spec.Timeout = []string{"pages"}, 20*time.Millisecond
			if _, _, err := s.Put(t.Context(), "quick", spec); err != nil {
				t.Fatal(err)
			}
			publishSpread(t, b, "pages", 100)
			eventually(t, "the quick one has all", func() bool { return len(quick.ids()) == 100 })
			if n := len(slow.got()); n != 64 {
				t.Errorf("%d requests to the slow one, want 64", n)
			}
		})
	}
}

// publishSpread publishes events that lie in all lanes.
func publishSpread(t *testing.T, b *Broker, topic string, n int) {
	t.Helper()
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{ID: fmt.Sprint(topic, i), Topic: topic, Type: "created", Key: fmt.Sprint("k", i)}
	}
	if _, err := b.Publish(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}
