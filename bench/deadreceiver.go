package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-dev/millrace"
)

// deadReceiver measures how late events reach 100 healthy receivers while one more, which is
// subscribed to everything, is dead: it never answers, or refuses the connection.
// It dies anew in each lap, for a subscription that has backed off costs nothing.
type deadReceiver struct{ site }

const (
	healthyReceivers = 100
	healthyEvery     = 250 * time.Millisecond // one event of each
	healthyTimeout   = 50 * time.Millisecond  // of a batch: a longer one would hide what is measured
	deadGoal         = 1.2
	deadName         = "dead"
)

// Where the dead receiver is.
const (
	nowhere = iota
	neverAnswers
	refuses
)

func (d deadReceiver) run(ctx context.Context, quick bool) ([]finding, error) {
	town, err := d.settle(ctx)
	if err != nil {
		return nil, err
	}
	defer town.close()
	if err := calmDown(ctx); err != nil {
		return nil, err
	}
	var waits [3][][]float64
	for round := range sized(quick, 5, 11) {
		for turn := range waits {
			which := (round + turn) % len(waits)
			w, err := town.lap(ctx, which, sized(quick, 750*time.Millisecond, 4*time.Second))
			if err != nil {
				return nil, err
			}
			waits[which] = append(waits[which], w)
		}
	}
	what := " of publish → received of 100 healthy receivers, beside one that "
	return []finding{
		compareWaits("p99"+what+"never answers / alone", 0.99, waits[neverAnswers], waits[nowhere]).ratioAtMost(deadGoal),
		compareWaits("p50"+what+"never answers / alone", 0.5, waits[neverAnswers], waits[nowhere]),
		compareWaits("p99"+what+"refuses / alone", 0.99, waits[refuses], waits[nowhere]).ratioAtMost(deadGoal),
		compareWaits("p50"+what+"refuses / alone", 0.5, waits[refuses], waits[nowhere]),
	}, nil
}

// town is a broker with its receivers.
type town struct {
	*mill
	sink    *sink              // what the healthy ones got
	healthy []*httptest.Server // each by itself, as receivers are
}

// settle opens a broker with its healthy receivers.
func (d deadReceiver) settle(ctx context.Context) (*town, error) {
	m, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	t := &town{mill: m, sink: newSink()}
	for i := range healthyReceivers {
		server := httptest.NewServer(t.sink)
		t.healthy = append(t.healthy, server)
		if err := t.subscribe(ctx, "healthy-"+strconv.Itoa(i), server.URL, ":"+healthyTopic(i)+":"); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func healthyTopic(i int) string { return "topic-" + strconv.Itoa(i) }

func (t *town) subscribe(ctx context.Context, name, callback, match string) error {
	spec := millrace.DefaultSubscriptionSpec(callback)
	spec.Match, spec.Timeout = match, healthyTimeout
	if _, _, err := t.Subscriptions().Put(ctx, name, spec); err != nil {
		return fmt.Errorf("define subscription %s: %w", name, err)
	}
	return nil
}

func (t *town) close() {
	t.mill.close()
	t.sink.Close()
	for _, s := range t.healthy {
		s.Close()
	}
}

// lap publishes for a while beside a receiver that is dead in one way, and returns how many ms
// the healthy ones waited for each event.
func (t *town) lap(ctx context.Context, way int, length time.Duration) ([]float64, error) {
	stop, err := t.die(ctx, way)
	if err != nil {
		return nil, err
	}
	t.sink.forget()
	sent, err := t.publishFor(ctx, length)
	if err == nil {
		err = t.sink.await(ctx, sent)
	}
	if stopped := stop(); err == nil {
		err = stopped
	}
	var waits []float64
	for _, took := range t.sink.took {
		waits = append(waits, float64(took.Microseconds())/1000)
	}
	return waits, err
}

// die adds the dead receiver; stop removes it with all it holds.
func (t *town) die(ctx context.Context, way int) (stop func() error, err error) {
	if way == nowhere {
		return func() error { return nil }, nil
	}
	hold := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	if way == refuses {
		server.Close()
	}
	if err := t.subscribe(ctx, deadName, server.URL, "."); err != nil {
		close(hold)
		server.Close()
		return nil, err
	}
	return func() error {
		err := t.Subscriptions().Delete(ctx, deadName, false)
		close(hold) // what it has held up must not hold up the next lap
		server.Close()
		return err
	}, nil
}

// publishFor publishes one event to each healthy receiver in intervals, and returns how many.
func (t *town) publishFor(ctx context.Context, length time.Duration) (int, error) {
	const publishers = 10
	times := int(length / healthyEvery)
	var g errgroup.Group
	for p := range publishers {
		g.Go(func() error {
			pace := time.NewTicker(healthyEvery * publishers / healthyReceivers)
			defer pace.Stop()
			for i := range times * healthyReceivers / publishers {
				<-pace.C
				topic := healthyTopic((p + i*publishers) % healthyReceivers)
				e := millrace.Event{Topic: topic, Type: "order.placed", Time: time.Now(), Data: payload()}
				if _, err := t.Publish(ctx, e); err != nil {
					return fmt.Errorf("publish: %w", err)
				}
			}
			return nil
		})
	}
	return times * healthyReceivers, g.Wait()
}

// forget begins to count anew.
func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.took = 0, nil
}
