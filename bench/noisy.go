package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-dev/millrace"
)

// noisy measures how long the messages of quiet tenants wait while a noisy one
// has a great backlog. Two hundred consumers take one message at a time and hold
// each for a while, as handlers do that wait for somebody else. Beside the noisy
// tenant they are all busy, and one of them is free every quarter of a
// millisecond, for which a quiet message waits; a limit keeps the noisy tenant to
// half of them.
type noisy struct{ site }

const (
	quietTenants   = 99
	quietEvery     = 250 * time.Millisecond // one event of each quiet tenant
	noisyConsumers = 200
	handling       = 50 * time.Millisecond // on the average
	noisyTenant    = "noisy"
	noisyLimit     = noisyConsumers / 2
	noisyGoal      = 1.5

	// A quiet message that nobody has taken by then counts as one that waited so long.
	grace = 250 * time.Millisecond
)

func (y noisy) run(ctx context.Context, quick bool) ([]finding, error) {
	backlog := sized(quick, 100_000, 1_000_000)
	beside, err := y.with(ctx, backlog)
	if err != nil {
		return nil, err
	}
	defer beside.close()
	alone, err := y.with(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer alone.close()
	if err := calmDown(ctx); err != nil {
		return nil, err
	}
	laps := []lap{{alone, 0}, {beside, noisyLimit}, {beside, 0}}
	waits, err := interleaveLaps(ctx, sized(quick, 5, 11), sized(quick, time.Second, 4*time.Second), laps)
	if err != nil {
		return nil, err
	}
	what := " of publish → lease of 99 quiet tenants, beside one with " + count(float64(backlog)) + " waiting"
	return []finding{
		compareWaits("p99"+what+" / alone", 0.99, waits[2], waits[0]).ratioAtMost(noisyGoal),
		compareWaits("p50"+what+" / alone", 0.5, waits[2], waits[0]),
		compareWaits("p99"+what+" and a limit / alone", 0.99, waits[1], waits[0]).ratioAtMost(noisyGoal),
		compareWaits("p50"+what+" and a limit / alone", 0.5, waits[1], waits[0]),
	}, nil
}

// with opens a store in which the noisy tenant has a backlog.
func (y noisy) with(ctx context.Context, backlog int) (*mill, error) {
	m, err := y.open(ctx)
	if err != nil {
		return nil, err
	}
	err = m.define(ctx, queueName, millrace.DefaultQueueSpec(":orders:"))
	if err == nil {
		err = m.publishMany(ctx, backlog, millrace.MaxEvents, func(int) millrace.Event {
			return millrace.Event{Topic: "orders", Type: "order.placed", Tenant: noisyTenant, Data: payload()}
		})
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// lap is what is watched for a while: a store, and the noisy tenant's limit.
type lap struct {
	*mill
	limit int // 0 for none
}

// interleaveLaps runs each lap once a round, in another order each time, and
// returns the waits of each, round by round.
func interleaveLaps(ctx context.Context, rounds int, each time.Duration, laps []lap) ([][][]float64, error) {
	waits := make([][][]float64, len(laps))
	for round := range rounds {
		for turn := range laps {
			which := (round + turn) % len(laps)
			w, err := laps[which].quietWaits(ctx, each)
			if err != nil {
				return nil, err
			}
			waits[which] = append(waits[which], w)
		}
	}
	return waits, nil
}

// compareWaits makes a finding of one quantile of two laps.
func compareWaits(what string, q float64, ours, base [][]float64) finding {
	var our, its, ratios []float64
	for i := range ours {
		a, b := quantile(ours[i], q), quantile(base[i], q)
		our, its, ratios = append(our, a), append(its, b), append(ratios, a/b)
	}
	return finding{What: what, Unit: "ms", Value: median(our), Against: median(its), Ratio: median(ratios)}
}

// quietWaits lets quiet tenants publish and consumers take for a while, and
// returns how many milliseconds each quiet message waited.
func (l lap) quietWaits(ctx context.Context, length time.Duration) ([]float64, error) {
	if _, err := l.Queues().PutTenant(ctx, queueName, noisyTenant, millrace.TenantSettings{Weight: 1, Limit: l.limit}); err != nil {
		return nil, fmt.Errorf("limit the noisy tenant: %w", err)
	}
	s := &stopwatch{from: time.Now().Add(4 * handling)}
	publishing, stopPublishing := context.WithDeadline(ctx, s.from.Add(length))
	defer stopPublishing()
	consuming, stopConsuming := context.WithDeadline(ctx, s.from.Add(length+grace))
	defer stopConsuming()
	var g errgroup.Group
	for range noisyConsumers {
		g.Go(func() error { return l.consumeSlowly(consuming, s) })
	}
	for i := range quietTenants {
		g.Go(func() error { return l.publishQuietly(publishing, s, "quiet-"+strconv.Itoa(i)) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// What a lease had when it was cut off must not count against the next lap's limit.
	if _, err := l.Queues().Release(ctx, queueName, queueName); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	return s.all()
}

// publishQuietly publishes in intervals until the time is over.
func (m *mill) publishQuietly(over context.Context, s *stopwatch, tenant string) error {
	pause(over, nil, rand.N(quietEvery))
	for over.Err() == nil {
		now := time.Now()
		e := millrace.Event{Topic: "orders", Type: "order.placed", Tenant: tenant}
		e.Data = strconv.AppendInt(nil, now.UnixNano(), 10)
		// It is not cut off by the end: then nobody would know whether to wait for it.
		if _, err := m.Publish(context.WithoutCancel(over), e); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		s.published(now)
		pause(over, nil, quietEvery)
	}
	return nil
}

// consumeSlowly takes one message after the other until the time is over. No
// two handle a message equally long, or they would all be free at once.
func (m *mill) consumeSlowly(over context.Context, s *stopwatch) error {
	pause(over, nil, rand.N(handling))
	for {
		messages, err := m.Queues().Lease(over, queueName, millrace.LeaseOptions{Wait: millrace.MaxWait, Lease: leaseFor, Consumer: queueName})
		if over.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		for i := range messages {
			s.leased(&messages[i].Event)
			pause(over, nil, handling/2+rand.N(handling))
			_, err := m.Queues().Ack(context.WithoutCancel(over), queueName, millrace.Settlement{Receipt: messages[i].Receipt})
			if err != nil {
				return fmt.Errorf("ack: %w", err)
			}
		}
	}
}

// stopwatch gathers how long quiet messages waited.
type stopwatch struct {
	from time.Time // what was published earlier does not count

	mu     sync.Mutex
	events int
	waits  []float64 // milliseconds
}

// published notes a quiet message that has been published.
func (s *stopwatch) published(at time.Time) {
	if at.Before(s.from) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
}

// leased notes a message that was just leased.
func (s *stopwatch) leased(e *millrace.Event) {
	at, err := strconv.ParseInt(string(e.Data), 10, 64)
	if e.Tenant == noisyTenant || err != nil {
		return
	}
	published := time.Unix(0, at)
	wait := time.Since(published)
	if published.Before(s.from) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, float64(wait.Nanoseconds())/1e6)
}

// all returns the waits, also of those that wait still.
func (s *stopwatch) all() ([]float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waits) < s.events {
		s.waits = append(s.waits, float64(grace.Milliseconds()))
	}
	if len(s.waits) < 100 {
		return nil, fmt.Errorf("only %d quiet messages were published: too few for a p99", len(s.waits))
	}
	return s.waits, nil
}
