package metrics_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func event(topic, id string) millrace.Event {
	return millrace.Event{Topic: topic, Type: "x", ID: id, Tenant: "acme"}
}

func TestAScrapeTellsWhatWasDone(t *testing.T) {
	n := startNode(t, "memory:", broker.Options{})
	n.define("emails", ":orders:", func(s *millrace.QueueSpec) { s.MaxAttempts = 1 })
	n.define("audit", ":orders:", func(s *millrace.QueueSpec) {
		s.MaxLength, s.Overflow = 2, millrace.OverflowDropOldest
	})
	n.publish(event("orders", "a"), event("orders", "b"), event("orders", "c"), event("orders", "d"), event("orders", "a"))
	n.publish(event("orders", "a"), event("nobody", "e"))
	delayed := event("orders", "later")
	delayed.Delay = time.Hour
	n.publish(delayed)

	items, q := n.lease("emails", 3), n.broker.Queues()
	settle(t)(q.Ack(t.Context(), "emails", items[0], millrace.Settlement{Receipt: "nonsense"}))
	settle(t)(q.Retry(t.Context(), "emails", items[1])) // its one attempt is spent
	settle(t)(q.Bury(t.Context(), "emails", items[2]))
	settle(t)(q.Ack(t.Context(), "emails", items[2]))
	later := n.lease("audit", 1)[0]
	later.Delay = new(time.Duration)
	*later.Delay = time.Hour
	settle(t)(q.Retry(t.Context(), "audit", later))

	n.until(2, "queue_messages", "queue", "emails", "state", "dead")
	s := n.scrape()
	s.want(5, "events_published_total")
	s.want(2, "events_duplicate_total")
	s.want(1, "events_unrouted_total")
	s.want(2, "events_dropped_total", "kind", "queue", "name", "audit", "why", "removed")
	s.want(0, "events_dropped_total", "kind", "queue", "name", "emails", "why", "removed")
	s.want(1, "queue_messages", "queue", "emails", "state", "ready")
	s.want(0, "queue_messages", "queue", "emails", "state", "leased")
	s.want(1, "queue_messages", "queue", "audit", "state", "ready")
	s.want(1, "queue_messages", "queue", "audit", "state", "delayed")
	s.want(1, "messages_settled_total", "queue", "emails", "outcome", "acked")
	s.want(1, "messages_settled_total", "queue", "emails", "outcome", "dead")
	s.want(1, "messages_settled_total", "queue", "emails", "outcome", "buried")
	s.want(2, "messages_settled_total", "queue", "emails", "outcome", "lost")
	s.want(1, "messages_settled_total", "queue", "audit", "outcome", "retried")
	s.wantNone("messages_settled_total", "queue", "emails", "outcome", "retried")
	s.want(1, "build_info", "version", "1.2.3")
	if age, there := s.find("queue_oldest_seconds", "queue", "emails"); !there || age <= 0 || age > 600 {
		t.Errorf("the oldest message is %v s old (%v)", age, there)
	}
	if size, there := s.find("store_bytes"); !there || size <= 0 {
		t.Errorf("the store has %v bytes (%v)", size, there)
	}
}

// settle fails the test if a settlement failed.
func settle(t *testing.T) func(millrace.SettleResult, error) {
	return func(_ millrace.SettleResult, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheMetricsHaveTheirNamesAndGoodManners(t *testing.T) {
	n, _ := pushing(t)
	n.define("emails", ".")
	n.publish(event("orders", "a"))
	settle(t)(n.broker.Queues().Ack(t.Context(), "emails", n.lease("emails", 1)...))
	n.scrape() // so that there is a request to tell of
	s := n.until(1, "deliveries_total", "subscription", "shop", "outcome", "sent")
	problems, err := promlint.New(strings.NewReader(s.text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		own := strings.HasPrefix(name, "millrace_")
		if own {
			names = append(names, strings.TrimPrefix(name, "millrace_"))
		}
		help := s.families[name].GetHelp()
		ofNode, ofStore := strings.Contains(help, "Of this node"), strings.Contains(help, "Of the store")
		if own && name != "millrace_build_info" && ofNode == ofStore {
			t.Errorf("%s does not say whose number it is: %s", name, help)
		}
	}
	want := []string{
		"build_info", "deliveries_total", "delivery_latency_seconds", "delivery_seconds", "events_dropped_total", "events_duplicate_total", "events_published_total", "events_unrouted_total",
		"http_request_seconds", "messages_settled_total", "queue_messages", "queue_oldest_seconds", "store_bytes", "subscription_disabled", "subscription_events",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		if s.families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestRequestsAreCountedByRouteAndNeverByPath(t *testing.T) {
	n := startNode(t, "memory:", broker.Options{})
	n.define("emails", ".")
	n.ask("GET", "/v1/queues/emails", "")
	n.ask("GET", "/v1/queues/marker-1", "")
	n.ask("GET", "/v1/queues/marker-2?marker=3", "")
	n.ask("POST", "/v1/topics/marker/events", `{"type":"marker"}`)
	n.ask("GET", "/marker/4", "")
	n.ask("PUT", "/v1/marker//../5", "")
	n.ask("MARKER", "/v1/queues", "")
	s := n.scrape()
	s.want(1, "http_request_seconds", "route", "GET /v1/queues/{queue}", "status", "200")
	s.want(1, "http_request_seconds", "route", "GET /v1/queues/{queue}", "status", "404")
	s.want(1, "http_request_seconds", "route", "GET /v1/queues/{queue}", "status", "422")
	s.want(1, "http_request_seconds", "route", "POST /v1/topics/{topic}/events", "status", "200")
	s.want(2, "http_request_seconds", "route", "unknown", "status", "404")
	s.want(1, "http_request_seconds", "route", "unknown", "status", "405")
	if strings.Contains(strings.ToLower(s.text), "marker") {
		t.Error("what a caller sent is in a label")
	}
}

func TestADelayedEventCountsWhenItIsDue(t *testing.T) {
	n := startNode(t, "memory:", broker.Options{})
	n.define("emails", ".")
	e := event("orders", "a")
	e.Delay = 10 * time.Millisecond
	n.publish(e)
	n.lease("emails", 1)
	n.until(1, "events_published_total").want(0, "events_duplicate_total")
}

func TestWhatIsGivenAtMostOnceCountsAsAcked(t *testing.T) {
	n := startNode(t, "memory:", broker.Options{})
	n.define("emails", ".")
	n.publish(event("orders", "a"))
	messages, err := n.broker.Queues().Lease(t.Context(), "emails", millrace.LeaseOptions{AtMostOnce: true})
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	n.scrape().want(1, "messages_settled_total", "queue", "emails", "outcome", "acked")
}

func TestADeletedQueueVanishesFromTheMetrics(t *testing.T) {
	n := startNode(t, "memory:", broker.Options{})
	n.define("emails", ".")
	n.define("stays", ".")
	n.publish(event("orders", "a"))
	for _, queue := range []string{"emails", "stays"} {
		settle(t)(n.broker.Queues().Ack(t.Context(), queue, n.lease(queue, 1)...))
	}
	n.scrape().want(1, "messages_settled_total", "queue", "emails", "outcome", "acked")
	if err := n.broker.Queues().Delete(t.Context(), "emails", false); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for strings.Contains(n.scrape().text, "emails") {
		if time.Now().After(deadline) {
			t.Fatal("the queue is still told of")
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.scrape().want(1, "messages_settled_total", "queue", "stays", "outcome", "acked")
}

func TestNodesOfOneRedisTellTheSameOfTheStoreAndTheirOwnOfThemselves(t *testing.T) {
	url := redistest.Single(t).URL()
	one := startNode(t, url, broker.Options{Engine: millrace.EngineOptions{Lanes: 4}})
	two := startNode(t, url, broker.Options{Engine: millrace.EngineOptions{Lanes: 4}})
	one.define("emails", ".")
	one.publish(event("orders", "a"), event("orders", "b"), event("orders", "c"))
	two.publish(event("orders", "d"), event("orders", "a"))
	settle(t)(two.broker.Queues().Ack(t.Context(), "emails", two.lease("emails", 1)...))
	for _, n := range []*node{one, two} {
		n.until(3, "queue_messages", "queue", "emails", "state", "ready").want(0, "queue_messages", "queue", "emails", "state", "leased")
	}
	s := one.scrape()
	s.want(3, "events_published_total")
	s.want(0, "events_duplicate_total")
	s.wantNone("messages_settled_total", "queue", "emails", "outcome", "acked")
	s = two.scrape()
	s.want(1, "events_published_total")
	s.want(1, "events_duplicate_total")
	s.want(1, "messages_settled_total", "queue", "emails", "outcome", "acked")
}
