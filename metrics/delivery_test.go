package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// pushing is a node with a subscription to orders whose receiver answers with a status.
func pushing(t *testing.T) (*node, *atomic.Int64) {
	t.Helper()
	status := &atomic.Int64{}
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(receiver.Close)
	n := startNode(t, "memory:", broker.Options{AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	spec := millrace.DefaultSubscriptionSpec(receiver.URL)
	spec.Topics, spec.Timeout, spec.RetrySchedule = []string{"orders"}, 0, []time.Duration{time.Millisecond}
	if _, _, err := n.broker.Subscriptions().Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	return n, status
}

func TestAScrapeTellsWhatWasSent(t *testing.T) {
	n, status := pushing(t)
	n.publish(event("orders", "a"), event("orders", "b"))
	s := n.until(1, "deliveries_total", "subscription", "shop", "outcome", "sent")
	s.want(2, "delivery_latency_seconds", "attempt", "1")
	s.want(1, "delivery_seconds")

	status.Store(http.StatusInternalServerError)
	n.publish(event("orders", "c"))
	s = n.until(1, "deliveries_total", "subscription", "shop", "outcome", "dead")
	s.want(1, "deliveries_total", "subscription", "shop", "outcome", "failed")
	s.want(3, "delivery_seconds")
	n.until(1, "subscription_events", "subscription", "shop", "state", "dead").want(0, "subscription_events", "subscription", "shop", "state", "queued")

	list, _, err := n.broker.Subscriptions().Batches(t.Context(), "shop", millrace.BatchQuery{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := n.broker.Subscriptions().DropBatch(t.Context(), "shop", list[0].ID); err != nil {
		t.Fatal(err)
	}
	n.until(1, "events_dropped_total", "kind", "subscription", "name", "shop", "why", "removed")
}

func TestADeletedSubscriptionVanishesFromTheMetrics(t *testing.T) {
	n, _ := pushing(t)
	n.define("shop", ":orders:") // a queue of the same name stays
	n.publish(event("orders", "a"))
	settle(t)(n.broker.Queues().Ack(t.Context(), "shop", n.lease("shop", 1)...))
	n.until(1, "deliveries_total", "subscription", "shop", "outcome", "sent")
	if err := n.broker.Subscriptions().Delete(t.Context(), "shop", false); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); strings.Contains(n.scrape().text, `subscription="shop"`); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the subscription is still told of")
		}
	}
	n.scrape().want(1, "messages_settled_total", "queue", "shop", "outcome", "acked")
}

func TestLateAttemptsShareALabel(t *testing.T) {
	n, _ := pushing(t)
	for attempt := range 20 {
		n.metrics.Delivered(broker.Delivered{Subscription: "shop", Outcome: broker.DeliverySent, Attempt: attempt + 1, Ages: []time.Duration{time.Second}})
	}
	s := n.scrape()
	s.want(17, "delivery_latency_seconds", "attempt", "more")
	s.want(1, "delivery_latency_seconds", "attempt", "3")
}

func TestAScrapeTellsThatASubscriptionWasDisabled(t *testing.T) {
	n, status := pushing(t)
	n.until(0, "subscription_disabled", "subscription", "shop")
	status.Store(http.StatusGone)
	n.publish(event("orders", "a"))
	n.until(1, "subscription_disabled", "subscription", "shop")
}
