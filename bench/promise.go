package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// promise is a row that stands by itself: it opens what it needs, measures it
// and says what it found.
type promise struct {
	id   string // what -only takes
	site site
	what string
	run  func(ctx context.Context, quick bool) ([]finding, error)
}

// finding is one figure of a promise.
type finding struct {
	ID      string  `json:"id"` // of its promise
	What    string  `json:"what"`
	Unit    string  `json:"unit"`
	Value   float64 `json:"value"`
	Against float64 `json:"against,omitempty"` // the same of what it is compared with
	Ratio   float64 `json:"ratio,omitempty"`   // the median of the rounds' ratios
	Goal    string  `json:"goal,omitempty"`
	Met     *bool   `json:"met,omitempty"` // none without a goal
}

// site is a kind of place on which a promise opens its stores.
type site string

const (
	embedded site = "embedded"
	onRedis  site = "redis"
)

// promises lists the rows that stand by themselves.
func promises() []promise {
	var list []promise
	for _, s := range []site{embedded, onRedis} {
		add := func(id, what string, run func(context.Context, bool) ([]finding, error)) {
			list = append(list, promise{id + "-" + string(s), s, what, run})
		}
		add("ordered", "leasing from an ordered queue of 10,000 keys, against an unordered one", ordered{s}.run)
		add("depth", "leasing with millions waiting, against 10,000", depth{s}.run)
		add("noisy", "the wait of 99 quiet tenants beside a noisy one, against without it", noisy{s}.run)
		add("sinks", "publishing to a hot address with 1,000 queues, against one", sinks{s}.run)
		add("addresses", "publishing to a million addresses, against one", addresses{s}.run)
		add("waiting", "5,000 leases that wait on 50 queues", waiting{s}.run)
		add("tracked", "publishing, leasing and acking with operations, against without", tracked{s}.run)
		add("operations", "a page of a subject's 100,000 operations, against one of its 10", operations{s}.run)
		add("push", "batches pushed to a receiver that answers at once", push{s}.run)
		add("dead", "how late events reach 100 receivers beside a dead one, against without it", deadReceiver{s}.run)
	}
	return list
}

// open opens a broker on an empty store that nobody else uses.
func (s site) open(ctx context.Context) (*mill, error) {
	if s == embedded {
		return ours{}.openBare(ctx)
	}
	server, stop, err := startRedis()
	if err != nil {
		return nil, err
	}
	m, err := ours{redis: server}.openBare(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	m.stopRedis = stop
	return m, nil
}

// keep measures the promises and returns what they found. One that fails does
// not keep the others from being measured.
func (o options) keep(ctx context.Context, list []promise, progress io.Writer) ([]finding, error) {
	var all []finding
	var failed error
	for _, p := range list {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		settle()
		begin := time.Now()
		found, err := o.profiled(ctx, p)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("measure %s: %w", p.id, err))
			continue
		}
		for i := range found {
			found[i].ID, found[i].What = p.id, string(p.site)+": "+found[i].What
		}
		all = append(all, found...)
		fmt.Fprintf(progress, "%s: %.0f s\n", p.id, time.Since(begin).Seconds())
	}
	return all, failed
}

// profiled measures one promise and profiles it, if that is wanted.
func (o options) profiled(ctx context.Context, p promise) ([]finding, error) {
	if o.profile == "" {
		return p.run(ctx, o.quick)
	}
	w := window{profile: filepath.Join(o.profile, p.id)}
	stop, err := w.startProfile()
	if err != nil {
		return nil, err
	}
	found, err := p.run(ctx, o.quick)
	return found, errors.Join(err, stop())
}

// atMost is a figure that must not exceed a goal.
func atMost(what, unit string, value, goal float64) finding {
	met := value <= goal
	return finding{What: what, Unit: unit, Value: value, Goal: strings.TrimSpace(fmt.Sprintf("≤ %g %s", goal, unit)), Met: &met}
}

// ratioAtMost judges a finding by its ratio. One without a ratio is not met.
func (f finding) ratioAtMost(goal float64) finding {
	met := f.Ratio > 0 && f.Ratio <= goal
	f.Goal, f.Met = fmt.Sprintf("≤ %g×", goal), &met
	return f
}

// sized chooses between the two sizes of a row.
func sized[T any](quick bool, small, full T) T {
	if quick {
		return small
	}
	return full
}
