package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-dev/millrace"
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

func BenchmarkRouteHot(b *testing.B) {
	queues := map[string]*queue{}
	for i := range 1000 {
		name := fmt.Sprint("q", i)
		queues[name] = testQueue(b, name, fmt.Sprintf(":topic%d:", i))
	}
	r := newRouter(&house{queues: queues})
	e := millrace.Event{Tenant: "acme", Topic: "topic7", Type: "x"}
	for b.Loop() {
		r.route(addressOf(&e))
	}
}
