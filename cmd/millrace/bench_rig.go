package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace"
)

// benchRig is one measurement.
type benchRig struct {
	flags  *benchFlags
	target millrace.Backbone
	name   string // of the queue and the topic
	data   []byte
}

// publish publishes all events and measures the calls.
func (g *benchRig) publish(ctx context.Context) (benchFigure, error) {
	var next atomic.Int64
	calls := &times{}
	began := time.Now()
	err := together(ctx, copies(g.flags.publishers, func(ctx context.Context) error {
		for {
			from := int(next.Add(int64(g.flags.batch))) - g.flags.batch
			if from >= g.flags.events {
				return nil
			}
			events := g.make(from, min(g.flags.batch, g.flags.events-from))
			call := time.Now()
			if _, err := g.target.Publish(ctx, events...); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			calls.add(time.Since(call))
		}
	})...)
	return calls.figure("publish", g.flags.events, time.Since(began)), err
}

func (g *benchRig) make(from, n int) []millrace.Event {
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{
			Topic: g.name, Type: "measured", Tenant: "t" + strconv.Itoa((from+i)%g.flags.tenants), Time: time.Now(), Data: g.data,
		}
	}
	return events
}

// consume leases and acknowledges all events and measures both kinds of calls.
func (g *benchRig) consume(ctx context.Context) (leased, acked benchFigure, err error) {
	leases, acks := &times{}, &times{}
	began := time.Now()
	err = g.drain(ctx, leases, acks, nil)
	took := time.Since(began)
	return leases.figure("lease", g.flags.events, took), acks.figure("ack", g.flags.events, took), err
}

// both publishes and consumes at once and measures the time from publish to lease.
func (g *benchRig) both(ctx context.Context) (benchFigure, error) {
	waits := &times{}
	began := time.Now()
	err := together(ctx,
		func(ctx context.Context) error { _, err := g.publish(ctx); return err },
		func(ctx context.Context) error { return g.drain(ctx, &times{}, &times{}, waits) })
	return waits.figure("publish to lease", g.flags.events, time.Since(began)), err
}

// drain consumes until all events of a phase are acknowledged.
func (g *benchRig) drain(ctx context.Context, leases, acks, waits *times) error {
	var left atomic.Int64
	left.Store(int64(g.flags.events))
	return together(ctx, copies(g.flags.consumers, func(ctx context.Context) error {
		for left.Load() > 0 {
			call := time.Now()
			messages, err := g.target.Queues().Lease(ctx, g.name, millrace.LeaseOptions{Max: 100, Wait: 100 * time.Millisecond})
			if err != nil {
				return fmt.Errorf("lease: %w", err)
			}
			if len(messages) == 0 {
				continue
			}
			now := time.Now()
			leases.add(now.Sub(call))
			done := make([]millrace.Settlement, len(messages))
			for i := range messages {
				done[i].Receipt = messages[i].Receipt
				if waits != nil {
					waits.add(now.Sub(messages[i].Event.Time))
				}
			}
			settled, err := g.target.Queues().Ack(ctx, g.name, done...)
			if err != nil {
				return fmt.Errorf("ack: %w", err)
			}
			acks.add(time.Since(now))
			left.Add(-int64(settled.Settled))
		}
		return nil
	})...)
}

func copies[T any](n int, f T) []T { return slices.Repeat([]T{f}, n) }

// together runs all at once, and ends them when one fails.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
