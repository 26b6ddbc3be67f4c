package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

// push measures subscriptions: batches of 100 events of 256 bytes to a receiver on
// this machine that answers at once.
type push struct{ site }

const (
	pushGoal    = 30000 // events a second
	pushTimeout = 500 * time.Millisecond
	pushMedian  = 550 // ms after publish
	pushWorst   = 750
)

func (p push) run(ctx context.Context, quick bool) (found []finding, err error) {
	rate := 0.0
	for _, subscriptions := range []int{1, 20} {
		rate, err = p.greatest(ctx, subscriptions, sized(quick, 60_000, 300_000))
		if err != nil {
			return nil, err
		}
		what := "events pushed with " + strconv.Itoa(subscriptions) + " subscriptions, from publish to the last answer"
		met := rate >= pushGoal
		found = append(found, finding{What: what, Unit: "/s", Value: rate, Goal: "≥ " + strconv.Itoa(pushGoal), Met: &met})
	}
	middle, worst, err := p.late(ctx, 5, sized(quick, 5*time.Second, 20*time.Second))
	return append(found,
		atMost("publish → received, batches not full, median", "ms", middle, pushMedian),
		atMost("the same, p99", "ms", worst, pushWorst)), err
}

// greatest publishes n deliveries' worth of events as fast as it can and waits for the last.
func (p push) greatest(ctx context.Context, subscriptions, n int) (float64, error) {
	m, r, err := p.pushing(ctx, subscriptions)
	if err != nil {
		return 0, err
	}
	defer m.close()
	defer r.Close()
	begin := time.Now()
	event := func(int) millrace.Event {
		return millrace.Event{Topic: "orders", Type: "order.placed", Time: time.Now(), Data: payload()}
	}
	if err := m.publishMany(ctx, n/subscriptions, hundred, event); err != nil {
		return 0, err
	}
	if err := r.await(ctx, n/subscriptions*subscriptions); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

// late publishes a few events at a time, so that batches wait for their timeout, and
// returns how many ms they took.
func (p push) late(ctx context.Context, each int, lasts time.Duration) (middle, worst float64, err error) {
	m, r, err := p.pushing(ctx, 1)
	if err != nil {
		return 0, 0, err
	}
	defer m.close()
	defer r.Close()
	sent := 0
	tick := time.NewTicker(50 * time.Millisecond) // ten times a timeout
	defer tick.Stop()
	for end := time.Now().Add(lasts); time.Now().Before(end); <-tick.C {
		events := make([]millrace.Event, each)
		for i := range events {
			events[i] = millrace.Event{Topic: "orders", Type: "order.placed", Time: time.Now(), Data: payload()}
		}
		if _, err := m.Publish(ctx, events...); err != nil {
			return 0, 0, err
		}
		sent += each
	}
	if err := r.await(ctx, sent); err != nil {
		return 0, 0, err
	}
	slices.Sort(r.took)
	at := func(percent int) float64 { return float64(r.took[(len(r.took)-1)*percent/100].Milliseconds()) }
	return at(50), at(99), nil
}

// pushing opens a broker with subscriptions that all call one receiver.
func (p push) pushing(ctx context.Context, subscriptions int) (*mill, *sink, error) {
	m, err := p.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	r := newSink()
	for i := range subscriptions {
		spec := millrace.DefaultSubscriptionSpec(r.URL)
		spec.Topics, spec.Timeout = []string{"orders"}, pushTimeout
		if _, _, err := m.Subscriptions().Put(ctx, "s"+strconv.Itoa(i), spec); err != nil {
			m.close()
			r.Close()
			return nil, nil, fmt.Errorf("define a subscription: %w", err)
		}
	}
	return m, r, nil
}

// sink is a receiver that counts events and how late they are.
type sink struct {
	*httptest.Server

	mu   sync.Mutex
	got  int
	took []time.Duration
	more chan struct{}
}

func newSink() *sink {
	s := &sink{more: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	now, n := time.Now(), bytes.Count(body, []byte(`"recorded_at":`))
	w.WriteHeader(http.StatusNoContent)
	var first []struct {
		Time time.Time `json:"time"`
	}
	if n < 90 { // a full batch is not about lateness
		_ = json.Unmarshal(body, &first)
	}
	s.mu.Lock()
	s.got += n
	for _, e := range first {
		s.took = append(s.took, now.Sub(e.Time))
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// await waits until so many events have come.
func (s *sink) await(ctx context.Context, n int) error {
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		s.mu.Lock()
		got := s.got
		s.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-s.more:
		case <-limit.C:
			return fmt.Errorf("only %d of %d events arrived", got, n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
