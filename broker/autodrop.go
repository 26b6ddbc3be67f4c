package broker

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	dropEvery   = 10 * time.Second // how often the size of the store is looked at
	dropAtOnce  = 100              // batches of one lane in a row
	defaultHigh = 85               // percent of the bound above which batches go
	defaultLow  = 75               // percent of the bound down to which they go
)

// autodrop makes room in a store that nears its bound: the oldest batches of all
// subscriptions go, except those that are being sent, lane by lane in turns. What it
// drops is counted by the engine and logged here. Without a bound it drops nothing.
type autodrop struct {
	engine    millrace.Engine
	lanes     int
	maxBytes  int64 // 0: the engine's own bound, if it has one
	high, low int64 // percent
	log       *slog.Logger
	name      func(uid string) string // of a subscription
	held      func(context.Context) (int64, error)

	seen  int64 // the size after the last drop; 0 if nothing was dropped since it was below high water
	least int64 // the size when room was last given back
}

func newAutodrop(b *Broker, o Options) *autodrop {
	a := &autodrop{engine: b.engine, lanes: b.identity.Lanes, maxBytes: o.MaxBytes, log: b.log}
	a.high, a.low = int64(cmp.Or(o.HighWater, defaultHigh)), int64(cmp.Or(o.LowWater, defaultLow))
	a.name = func(uid string) string {
		if s := b.registry.now().subOf[uid]; s != nil {
			return s.name
		}
		return uid
	}
	a.held = func(ctx context.Context) (int64, error) {
		c, err := b.countSubscriptions(ctx, b.registry.now())
		return c.Queued + c.Dead, err
	}
	return a
}

// waterFault says what is wrong with the marks, or nil.
func waterFault(o Options) error {
	high, low := cmp.Or(o.HighWater, defaultHigh), cmp.Or(o.LowWater, defaultLow)
	switch {
	case o.MaxBytes < 0:
		return millrace.Errorf(millrace.CodeInvalid, "the most bytes of a store must not be negative")
	case low < 1 || high > 100 || low >= high:
		return millrace.Errorf(millrace.CodeInvalid, "low water must be below high water, both between 1 and 100 percent; got %d and %d", low, high)
	}
	return nil
}

// run looks at the store's size until ctx ends, or not at all if it can have no bound.
func (a *autodrop) run(ctx context.Context) {
	if _, ok := a.engine.(millrace.Bounded); !ok && a.maxBytes == 0 {
		return
	}
	tick := time.NewTicker(dropEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := a.step(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("make room in the store", "error", err)
		}
	}
}

// bound is how many bytes the store may have; 0 if nobody says.
func (a *autodrop) bound(ctx context.Context) (int64, error) {
	if a.maxBytes > 0 {
		return a.maxBytes, nil
	}
	if e, ok := a.engine.(millrace.Bounded); ok {
		return e.Bound(ctx)
	}
	return 0, nil
}

// step makes room if the store is above high water, and returns how many events went.
//
// A size may lag behind what is removed. An engine that can give room back does so before anything is
// dropped and after each round. Of another, one round drops no more than the share that is too
// much, and another follows only when the size has moved since: at once if it fell,
// otherwise at the next look. Whoever waited for a size that stands still would drop everything.
func (a *autodrop) step(ctx context.Context) (dropped int64, err error) {
	bound, err := a.bound(ctx)
	if err != nil || bound == 0 {
		return 0, err
	}
	size, err := a.measure(ctx, bound)
	if err != nil || !a.isHigh(size, bound) {
		a.seen = 0
		return 0, err
	}
	for low := a.low * bound / 100; size > low && size != a.seen; {
		n, err := a.round(ctx, size-low, size)
		dropped += n
		if err != nil || n == 0 {
			return dropped, err
		}
		before := size
		if size, err = a.reclaim(ctx); err != nil {
			return dropped, err
		}
		a.seen = size
		if size < before {
			a.seen = 0 // the size follows: go on
		}
	}
	return dropped, nil
}

func (a *autodrop) isHigh(size, bound int64) bool { return 100*size > a.high*bound }

// measure is the size of the store. One that is too large is measured again when what nothing needs
// is given back; but not before it has grown since, for that is work.
func (a *autodrop) measure(ctx context.Context, bound int64) (int64, error) {
	size, err := a.engine.Bytes(ctx)
	if err != nil || !a.isHigh(size, bound) || size <= a.least+bound/100 {
		return size, err
	}
	return a.reclaim(ctx)
}

// reclaim gives room back, if the engine has to be asked, and measures the store.
func (a *autodrop) reclaim(ctx context.Context) (size int64, err error) {
	e, ok := a.engine.(millrace.Reclaimer)
	if !ok {
		return a.engine.Bytes(ctx)
	}
	if err := e.Reclaim(ctx); err != nil {
		return 0, err
	}
	a.least, err = a.engine.Bytes(ctx)
	return a.least, err
}

// round drops a share of the events that subscriptions hold, by turns over the lanes, until
// it is reached or nothing is left, and returns how many went.
func (a *autodrop) round(ctx context.Context, part, whole int64) (dropped int64, err error) {
	held, err := a.held(ctx)
	if err != nil {
		return 0, err
	}
	goal := max(1, int64(float64(held)*float64(part)/float64(whole)))
	for left := true; left && dropped < goal; {
		left = false
		for lane := 0; lane < a.lanes && dropped < goal; lane++ {
			list, err := a.engine.DropOldest(ctx, lane, a.few(goal-dropped))
			if err != nil {
				return dropped, err
			}
			left = left || len(list) > 0
			dropped += a.tell(lane, list)
		}
	}
	return dropped, nil
}

// few is how many batches go at once when so many events are still to go: a batch has one at least.
func (a *autodrop) few(events int64) int {
	return int(min(dropAtOnce, max(1, events/(8*int64(a.lanes)))))
}

// tell logs what went, and counts the events.
func (a *autodrop) tell(lane int, list []millrace.DroppedBatch) (events int64) {
	for _, d := range list {
		events += int64(d.Count)
		a.log.Warn("a batch was dropped: the store is too full", "subscription", a.name(d.Subscription),
			"batch", millrace.MessageID(d.Name), "events", d.Count, "lane", lane)
	}
	return events
}
