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
// has a great backlog. A hundred consumers take one message at a time and hold
// each for a while, as handlers do that wait for somebody else: so they are all
// busy beside the noisy tenant, and one of them is free every half millisecond.
type noisy struct{ site }

const (
	quietTenants   = 99
	quietEvery     = 250 * time.Millisecond // one event of each quiet tenant
	noisyConsumers = 100
	handling       = 50 * time.Millisecond // on the average
	noisyTenant    = "noisy"
	noisyGoal      = 1.5
)

func (y noisy) run(ctx context.Context, quick bool) ([]finding, error) {
	backlog := sized(quick, 100_000, 1_000_000)
	with, err := y.with(ctx, backlog)
	if err != nil {
		return nil, err
	}
	defer with.close()
	without, err := y.with(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer without.close()
	if err := calmDown(ctx); err != nil {
		return nil, err
	}
	waits, err := y.interleave(ctx, sized(quick, 3, 9), sized(quick, 2*time.Second, 4*time.Second), with, without)
	if err != nil {
		return nil, err
	}
	beside := " of publish → lease of 99 quiet tenants, beside one with " + count(float64(backlog)) + " waiting / alone"
	return []finding{
		waits.compare("p99"+beside, 0.99).ratioAtMost(noisyGoal),
		waits.compare("p50"+beside, 0.5),
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
		err = m.publishMany(ctx, backlog, func(int) millrace.Event {
			return millrace.Event{Topic: "orders", Type: "order.placed", Tenant: noisyTenant, Data: payload()}
		})
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// waitPairs are the waits of both sides in milliseconds, round by round.
type waitPairs struct{ ours, base [][]float64 }

func (y noisy) interleave(ctx context.Context, rounds int, each time.Duration, ours, base *mill) (waitPairs, error) {
	var p waitPairs
	sides := [2]*mill{ours, base}
	for round := range rounds {
		var waits [2][]float64
		for turn := range 2 {
			which := (round + turn) % 2
			var err error
			if waits[which], err = sides[which].quietWaits(ctx, each); err != nil {
				return p, err
			}
		}
		p.ours, p.base = append(p.ours, waits[0]), append(p.base, waits[1])
	}
	return p, nil
}

// compare makes a finding of one quantile of both sides.
func (p waitPairs) compare(what string, q float64) finding {
	var ours, base, ratios []float64
	for i := range p.ours {
		our, its := quantile(p.ours[i], q), quantile(p.base[i], q)
		ours, base, ratios = append(ours, our), append(base, its), append(ratios, our/its)
	}
	return finding{What: what, Unit: "ms", Value: median(ours), Against: median(base), Ratio: median(ratios)}
}

// stopwatch gathers how long quiet messages waited, once it counts.
type stopwatch struct {
	zero time.Time

	mu    sync.Mutex
	since time.Duration // messages published earlier do not count
	waits []float64     // milliseconds
}

// quietWaits lets quiet tenants publish and consumers take for a while, and
// returns how long each quiet message waited.
func (m *mill) quietWaits(ctx context.Context, length time.Duration) ([]float64, error) {
	s := &stopwatch{zero: time.Now(), since: 4 * handling}
	over, stop := context.WithTimeout(ctx, s.since+length)
	defer stop()
	g, over := errgroup.WithContext(over)
	for range noisyConsumers {
		g.Go(func() error { return m.consumeSlowly(over, s) })
	}
	for i := range quietTenants {
		g.Go(func() error { return m.publishQuietly(over, s, "quiet-"+strconv.Itoa(i)) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(s.waits) < 100 {
		return nil, fmt.Errorf("only %d quiet messages came through in %v", len(s.waits), length)
	}
	return s.waits, nil
}

// publishQuietly publishes in intervals until the time is over.
func (m *mill) publishQuietly(over context.Context, s *stopwatch, tenant string) error {
	pause(over, nil, rand.N(quietEvery))
	for over.Err() == nil {
		e := millrace.Event{Topic: "orders", Type: "order.placed", Tenant: tenant}
		e.Data = strconv.AppendInt(nil, int64(time.Since(s.zero)), 10)
		if _, err := m.Publish(over, e); err != nil && over.Err() == nil {
			return fmt.Errorf("publish: %w", err)
		}
		pause(over, nil, quietEvery)
	}
	return nil
}

// consumeSlowly takes one message after the other until the time is over. No
// two handle a message equally long, or they would all be free at once.
func (m *mill) consumeSlowly(over context.Context, s *stopwatch) error {
	pause(over, nil, rand.N(handling))
	for over.Err() == nil {
		messages, err := m.Queues().Lease(over, queueName, millrace.LeaseOptions{Wait: millrace.MaxWait, Lease: leaseFor})
		if over.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		for i := range messages {
			s.note(&messages[i].Event)
			pause(over, nil, handling/2+rand.N(handling))
			_, err := m.Queues().Ack(over, queueName, millrace.Settlement{Receipt: messages[i].Receipt})
			if err != nil && over.Err() == nil {
				return fmt.Errorf("ack: %w", err)
			}
		}
	}
	return nil
}

// note counts a quiet message that was just leased.
func (s *stopwatch) note(e *millrace.Event) {
	if e.Tenant == noisyTenant {
		return
	}
	now := time.Since(s.zero)
	at, err := strconv.ParseInt(string(e.Data), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if published := time.Duration(at); err == nil && published >= s.since && published <= now {
		s.waits = append(s.waits, float64((now-published).Nanoseconds())/1e6)
	}
}
