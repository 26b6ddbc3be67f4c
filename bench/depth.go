package main

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// depth measures whether a lease costs more when more is waiting. Each depth
// has a store of its own; what was leased is published again, so that the depth
// stays.
type depth struct{ site }

const (
	shallow      = 10000
	depthChunk   = 2500
	depthTenants = 100
	depthGoal    = 1.2
)

func (d depth) run(ctx context.Context, quick bool) ([]finding, error) {
	deep, words := 10_000_000, "10,000,000"
	if quick || d.site == onRedis {
		deep, words = 1_000_000, "1,000,000"
	}
	ours, closeOurs, err := d.side(ctx, deep)
	if err != nil {
		return nil, err
	}
	defer closeOurs()
	base, closeBase, err := d.side(ctx, shallow)
	if err != nil {
		return nil, err
	}
	defer closeBase()
	if err := calmDown(ctx); err != nil {
		return nil, err
	}
	p, err := interleave(ctx, sized(quick, 16, 50), ours, base)
	if err != nil {
		return nil, err
	}
	return p.compareAll("lease + ack with "+words+" waiting / 10,000", d.site, depthGoal), nil
}

// side opens a store in which so many messages wait, on the average of a chunk.
func (d depth) side(ctx context.Context, waiting int) (s side, stop func(), err error) {
	m, err := d.open(ctx)
	if err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if err = m.define(ctx, queueName, millrace.DefaultQueueSpec(":orders:")); err != nil {
		return s, nil, err
	}
	if err = m.fill(ctx, waiting+depthChunk/2, depthTenants); err != nil {
		return s, nil, err
	}
	return side{
		redis: m.redis,
		chunk: func(ctx context.Context) (int, error) { return depthChunk, m.drain(ctx, queueName, depthChunk) },
		after: func(ctx context.Context) error { return m.fill(ctx, depthChunk, depthTenants) },
	}, m.close, nil
}
