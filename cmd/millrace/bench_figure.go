package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// times are how long calls took.
type times struct {
	mu   sync.Mutex
	list []time.Duration
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, d)
}

// benchFigure is what one phase came to.
type benchFigure struct {
	what               string
	events, calls      int
	took               time.Duration
	p50, p95, p99, max time.Duration
}

func (t *times) figure(what string, events int, took time.Duration) benchFigure {
	f := benchFigure{what: what, events: events, calls: len(t.list), took: took}
	slices.Sort(t.list)
	at := func(percent int) time.Duration {
		if len(t.list) == 0 {
			return 0
		}
		return t.list[(len(t.list)-1)*percent/100]
	}
	f.p50, f.p95, f.p99, f.max = at(50), at(95), at(99), at(100)
	return f
}

func (f *benchFigure) rate() float64 { return float64(f.events) / max(f.took.Seconds(), 1e-6) }

func benchRows(figures []benchFigure) [][]string {
	rows := [][]string{{"WHAT", "EVENTS", "SECONDS", "EVENTS/S", "P50", "P95", "P99", "MAX"}}
	for _, f := range figures {
		rows = append(rows, []string{
			f.what, strconv.Itoa(f.events), fmt.Sprintf("%.2f", f.took.Seconds()), fmt.Sprintf("%.0f", f.rate()),
			millis(f.p50), millis(f.p95), millis(f.p99), millis(f.max),
		})
	}
	return rows
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1000) }

func benchJSON(figures []benchFigure) []byte {
	out := []byte(`{"phases":[`)
	for i, f := range figures {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"what":%q,"events":%d,"calls":%d,"seconds":%.3f,"events_per_second":%.0f,"p50_ms":%.3f,"p95_ms":%.3f,"p99_ms":%.3f,"max_ms":%.3f}`,
			f.what, f.events, f.calls, f.took.Seconds(), f.rate(), f.p50.Seconds()*1000, f.p95.Seconds()*1000, f.p99.Seconds()*1000, f.max.Seconds()*1000)
	}
	return append(out, `]}`...)
}
