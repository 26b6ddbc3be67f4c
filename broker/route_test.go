package broker

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func testQueue(t testing.TB, name, match string) *queue {
	t.Helper()
	m, err := millrace.CompileMatch(match)
	if err != nil {
		t.Fatal(err)
	}
	return &queue{name: name, uid: name, match: m}
}

func TestARouteIsTheSameWithAndWithoutTheIndexAndTheCache(t *testing.T) {
	queues := map[string]*queue{}
	for i, match := range []string{":orders:", "^acme:", ":pages:", ".", "^beta:orders:created$", "orders|pages", ":orders:paid"} {
		name := fmt.Sprint(i)
		queues[name] = testQueue(t, name, match)
	}
	r := newRouter(&house{queues: queues})
	for range 2 { // the second time from the cache
		for _, tenant := range []string{"acme", "beta"} {
			for _, topic := range []string{"orders", "pages", "other"} {
				for _, typ := range []string{"created", "paid"} {
					e := millrace.Event{Tenant: tenant, Topic: topic, Type: typ}
					var want []string
					for name, q := range queues {
						if q.match.Matches(e.Address()) {
							want = append(want, name)
						}
					}
					got := slices.Sorted(slices.Values(r.route(addressOf(&e)).queues))
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Errorf("%s: got %v, want %v", e.Address(), got, want)
					}
				}
			}
		}
	}
}

func TestTheRoutersMemoryIsBounded(t *testing.T) {
	r := newRouter(&house{queues: map[string]*queue{"q": testQueue(t, "q", ":orders:")}})
	for i := range 3 * routeCacheSize {
		r.route(addressOf(&millrace.Event{Tenant: fmt.Sprint("t", i), Topic: "orders", Type: "x"}))
	}
	if got := len(r.cache); got > routeCacheSize {
		t.Errorf("got %d addresses, want at most %d", got, routeCacheSize)
	}
}

// thousand is a router of 1,000 queues, whose patterns are made from their numbers.
func thousand(t testing.TB, pattern string) *router {
	t.Helper()
	queues := map[string]*queue{}
	for i := range 1000 {
		name := fmt.Sprint("q", i)
		queues[name] = testQueue(t, name, fmt.Sprintf(pattern, i))
	}
	return newRouter(&house{queues: queues})
}

// cold is the address of the n-th of ever new tenants.
func cold(n int) address {
	return addressOf(&millrace.Event{Tenant: "tenant" + strconv.Itoa(n), Topic: "topic" + strconv.Itoa(n%1000), Type: "created"})
}

func TestEverNewAddressesTakeNoMoreMemoryThanTheCache(t *testing.T) {
	const most = 16 << 20
	r := thousand(t, ":topic%d:")
	for n := range routeCacheSize {
		r.route(cold(n))
	}
	before, addresses := heap(), 60_000
	if os.Getenv("MILLRACE_LONG") == "1" {
		addresses = 1_000_000
	}
	for n := range addresses {
		r.route(cold(n))
	}
	if grown := heap() - before; grown > most {
		t.Errorf("the heap grew by %d KiB, want at most %d", grown>>10, most>>10)
	}
	runtime.KeepAlive(r)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAColdAddressIsTestedAgainstThePatternsOfItsTopicAlone(t *testing.T) {
	r := thousand(t, ":topic%d:")
	for n := range 1000 {
		a := cold(n)
		if tested := len(r.any) + len(r.byTopic[a.topic]); tested != 1 {
			t.Fatalf("%s is tested against %d patterns, want 1", a.text, tested)
		}
		if to := r.route(a); len(to.queues) != 1 || to.queues[0] != "q"+strconv.Itoa(n) {
			t.Fatalf("%s goes to %v", a.text, to.queues)
		}
	}
}

func TestAHotAddressCostsNoMoreWithAThousandQueues(t *testing.T) {
	one := newRouter(&house{queues: map[string]*queue{"q": testQueue(t, "q", ":topic7:")}})
	many := thousand(t, ":topic%d:")
	hot := addressOf(&millrace.Event{Tenant: "acme", Topic: "topic7", Type: "created"})
	ratio := math.Inf(1)
	for range 10 { // the least disturbed round counts
		ratio = min(ratio, float64(timed(many, hot))/float64(timed(one, hot)))
	}
	if ratio > 2 {
		t.Errorf("a hot address costs %.1f times as much with 1,000 queues, want about as much", ratio)
	}
}

// timed is how long it takes to route an address many times.
func timed(r *router, a address) time.Duration {
	start := time.Now()
	for range 20_000 {
		r.route(a)
	}
	return time.Since(start)
}

func BenchmarkRouteHot(b *testing.B) {
	r := thousand(b, ":topic%d:")
	e := millrace.Event{Tenant: "acme", Topic: "topic7", Type: "x"}
	for b.Loop() {
		r.route(addressOf(&e))
	}
}

// BenchmarkRouteCold routes addresses that were never seen, by 1,000 patterns:
// with a topic that stands in each as plain text, with one that is found behind
// an operator, and without any.
func BenchmarkRouteCold(b *testing.B) {
	for name, pattern := range map[string]string{
		"literal": ":topic%d:", "anchored": "^.*:topic%d:created$", "grouped": "^(acme|beta):topic%d:", "alternatives": ":(topic%d|other):",
		"anytopic": "^tenant%d:", "anytype": ":created%d$", "class": "[a-z]+:topic%d[a-z]*:c.*d",
	} {
		b.Run(name, func(b *testing.B) {
			r := thousand(b, pattern)
			n := 0
			for b.Loop() {
				r.route(cold(n))
				n++
			}
		})
	}
}

// BenchmarkPublishRouted publishes to one hot address, beside one queue and
// beside 1,000 of other topics: what the routing adds.
func BenchmarkPublishRouted(b *testing.B) {
	for _, queues := range []int{1, 1000} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			e, err := embedded.OpenMemory(b.Context(), millrace.EngineOptions{Lanes: 1})
			if err != nil {
				b.Fatal(err)
			}
			broker, err := New(b.Context(), e, Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = broker.Close(b.Context()) }()
			for i := range queues {
				if _, _, err := broker.Queues().Put(b.Context(), fmt.Sprint("q", i), millrace.DefaultQueueSpec(fmt.Sprintf(":topic%d:", i))); err != nil {
					b.Fatal(err)
				}
			}
			event := millrace.Event{Topic: "topic0", Type: "created", Data: []byte(`{}`)}
			for b.Loop() {
				if _, err := broker.Publish(b.Context(), event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// parking is an engine in whose last lane the subscriptions of some uids are parked.
type parking struct {
	millrace.Engine
	last   int
	parked map[string]bool
}

func (p *parking) SubscriptionStats(ctx context.Context, lane int, uid string) (millrace.SubscriptionStats, error) {
	s, err := p.Engine.SubscriptionStats(ctx, lane, uid)
	s.Parked = lane == p.last && p.parked[uid]
	return s, err
}

func TestARouteShowsTheTrueStateOfSubscriptions(t *testing.T) {
	e := &parking{Engine: openMemory(t, 2), last: 1, parked: map[string]bool{}}
	b := start(t, e)
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics = []string{"orders"}
	for _, name := range []string{"active", "failing", "paused"} {
		if _, _, err := b.Subscriptions().Put(t.Context(), name, spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Subscriptions().Pause(t.Context(), "paused"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"failing", "paused"} {
		e.parked[b.registry.now().subs[name].uid] = true
	}
	route, err := b.Route(t.Context(), "acme", "orders", "created")
	if err != nil || len(route.Sinks) != 3 {
		t.Fatalf("%+v, %v", route, err)
	}
	for _, sink := range route.Sinks {
		if sink.State != sink.Name {
			t.Errorf("%s is shown as %s", sink.Name, sink.State)
		}
	}
}
