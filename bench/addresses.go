package main

import (
	"context"
	"runtime"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// addresses publishes to a million different addresses, with 1,000 queues
// defined: each is new to the router. What one costs above a hot address is the
// cost of a cold one.
type addresses struct{ site }

const (
	manyAddresses = 1_000_000
	fewAddresses  = 300_000 // of the quick form
	coldGoal      = 10      // µs
	heapGoal      = 10      // MiB: a million addresses, if remembered, would be ten times that
)

func (a addresses) run(ctx context.Context, quick bool) ([]finding, error) {
	n := sized(quick, fewAddresses, manyAddresses)
	p, grown, err := a.among(ctx, n, 0)
	if err != nil {
		return nil, err
	}
	const what = "cold address above a hot one, 1,000 queues"
	found := []finding{
		p.extra(what+" that name their topic", byCPU, coldGoal),
		atMost("heap grown by "+count(float64(n))+" addresses", "MiB", grown, heapGoal),
	}
	if p, _, err = a.among(ctx, n/5, manySinks/10); err != nil {
		return nil, err
	}
	return append(found, p.extra(what+" of which 100 name none", byCPU, coldGoal)), nil
}

// among measures n addresses beside queues of which some name no topic, and
// says how many MiB the heap has grown.
func (a addresses) among(ctx context.Context, n, nameless int) (p pairs, grown float64, err error) {
	m, err := a.open(ctx)
	if err != nil {
		return p, 0, err
	}
	defer m.close()
	if err := m.defineSinks(ctx, manySinks, nameless); err != nil {
		return p, 0, err
	}
	if err := calmDown(ctx); err != nil {
		return p, 0, err
	}
	next := 0
	cold, hot := m.addressed(func() int { next += publishEach; return next }), m.addressed(func() int { return 0 })
	before, err := a.warm(ctx, cold, hot)
	if err != nil {
		return p, 0, err
	}
	p, err = interleave(ctx, n/publishEach/2, cold, hot)
	return p, heapMiB() - before, err
}

// warm fills every cache once and returns the heap then.
func (a addresses) warm(ctx context.Context, cold, hot side) (float64, error) {
	_, err := interleave(ctx, 0, cold, hot)
	return heapMiB(), err
}

// addressed publishes chunks to addresses that are numbered from first on, or,
// if first is 0, to one.
func (m *mill) addressed(first func() int) side {
	return side{
		chunk: func(ctx context.Context) (int, error) {
			from := first()
			return publishEach, m.publishMany(ctx, publishEach, hundred, func(i int) millrace.Event {
				no := from
				if from > 0 {
					no += i
				}
				return millrace.Event{Topic: "orders", Type: "order-" + strconv.Itoa(no), Data: payload()}
			})
		},
		after: m.purge,
	}
}

// extra is what ours costs above the base.
func (p pairs) extra(what string, measure func(cost) float64, goal float64) finding {
	var above []float64
	for i := range p.ours {
		above = append(above, measure(p.ours[i])-measure(p.base[i]))
	}
	f := atMost(what, "µs", median(above), goal)
	f.Ratio = p.compare(what, measure).Ratio
	return f
}

// heapMiB is what is reachable now.
func heapMiB() float64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools held goes in the second
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc) / (1 << 20)
}
