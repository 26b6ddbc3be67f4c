package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// cost is what one message took, in microseconds.
type cost struct {
	wall  float64
	self  float64 // CPU of this process
	redis float64 // CPU of the Redis server
}

func byWall(c cost) float64   { return c.wall }
func byCPU(c cost) float64    { return c.self + c.redis }
func byServer(c cost) float64 { return c.redis }

// side is one of the two that are compared.
type side struct {
	redis *redistest.Server                                   // whose CPU counts too; may be nil
	chunk func(ctx context.Context) (messages int, err error) // what is measured
	after func(ctx context.Context) error                     // makes up for the chunk, unmeasured; may be nil
}

// measure does one chunk and makes up for it.
func (s side) measure(ctx context.Context, name string) (c cost, err error) {
	pprof.Do(ctx, pprof.Labels("side", name), func(ctx context.Context) { c, err = s.timed(ctx) })
	if err == nil && s.after != nil {
		err = s.after(ctx)
	}
	return c, errors.Join(err, ctx.Err())
}

// timed does one chunk. The garbage collector runs before it and rests during
// it: its bursts, each as long as a chunk, would fall now on this side and now
// on the other.
func (s side) timed(ctx context.Context) (cost, error) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	w := window{redis: s.redis}
	redis, self, begin := w.redisCPU(), selfCPU(), time.Now()
	n, err := s.chunk(ctx)
	wall := time.Since(begin)
	self, redis = selfCPU()-self, w.redisCPU()-redis
	if err != nil {
		return cost{}, err
	}
	if n == 0 {
		return cost{}, errors.New("a chunk did nothing")
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	return cost{each(wall), each(self), each(redis)}, nil
}

// pairs are the costs of the two sides, round by round.
type pairs struct{ ours, base []cost }

// interleave runs a number of rounds, in each of which ours comes first and last
// and the base twice between. So noise hits both alike, and each follows as often
// upon itself as upon the other, whose work may not have ended when its chunk
// has. A first round warms up and does not count.
func interleave(ctx context.Context, rounds int, ours, base side) (pairs, error) {
	var p pairs
	for round := range rounds + 1 {
		var costs [4]cost
		for i, s := range [4]side{ours, base, base, ours} {
			var err error
			if costs[i], err = s.measure(ctx, [4]string{"ours", "base", "base", "ours"}[i]); err != nil {
				return p, err
			}
		}
		if round > 0 {
			p.ours = append(p.ours, costs[0].mean(costs[3]))
			p.base = append(p.base, costs[1].mean(costs[2]))
		}
	}
	return p, nil
}

// chunksOf is how often each side has its turn in so many rounds, the first
// included.
func chunksOf(rounds int) int { return 2 * (rounds + 1) }

func (c cost) mean(o cost) cost {
	return cost{(c.wall + o.wall) / 2, (c.self + o.self) / 2, (c.redis + o.redis) / 2}
}

// compare makes a finding of one measure of both sides.
func (p pairs) compare(what string, measure func(cost) float64) finding {
	var ours, base, ratios []float64
	for i := range p.ours {
		our, its := measure(p.ours[i]), measure(p.base[i])
		ours, base = append(ours, our), append(base, its)
		if its > 0 {
			ratios = append(ratios, our/its)
		}
	}
	f := finding{What: what, Unit: "µs", Value: median(ours), Against: median(base)}
	if len(ratios) > 0 {
		f.Ratio = median(ratios)
	}
	return f
}

// compareAll judges wall clock and CPU, and the server's CPU where there is one,
// by the same goal.
func (p pairs) compareAll(what string, s site, goal float64) []finding {
	found := []finding{
		p.compare(what+", by wall clock", byWall).ratioAtMost(goal),
		p.compare(what+", by CPU", byCPU).ratioAtMost(goal),
	}
	if s == onRedis {
		found = append(found, p.compare(what+", by the server's CPU", byServer).ratioAtMost(goal))
	}
	return found
}

// calmDown waits until what setting up left behind, such as compactions, uses
// less than a twentieth of a core.
func calmDown(ctx context.Context) error {
	const look, patience = 250 * time.Millisecond, 5 * time.Minute
	runtime.GC()
	for begin := time.Now(); time.Since(begin) < patience; {
		before := selfCPU()
		pause(ctx, nil, look)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if selfCPU()-before < look/20 {
			return nil
		}
	}
	return fmt.Errorf("the process is still busy %v after setting up", patience)
}
