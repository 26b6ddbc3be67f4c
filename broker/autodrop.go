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
	dropForget  = 5 * time.Minute  // after the last drop, what the size has not shown it will not show
)

// autodrop makes room in a store that nears its bound: the oldest batches of all
// subscriptions go, except those that are being sent, lane by lane in turns. What it
// drops is counted by the engine and logged here. Without a bound it drops nothing. Of
// several nodes one does it, the owner of the first lane.
type autodrop struct {
	engine    millrace.Engine
	lanes     int
	maxBytes  int64 // 0: the engine's own bound, if it has one
	high, low int64 // percent
	log       *slog.Logger
	name      func(uid string) string // of a subscription
	held      func(context.Context) (int64, error)
	acts      func() bool // whether it is for this node to drop

	size    int64     // when it was last looked at
	unseen  int64     // about how many bytes were dropped that the size has not shown yet
	dropped time.Time // when something was last dropped
	after   int64     // the size then
	least   int64     // the size when room was last given back
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
	a.acts = func() bool { return b.reaper.owns(0) }
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
		if _, err := a.step(ctx, time.Now()); err != nil && ctx.Err() == nil {
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
// A size may lag behind what is removed. An engine that can give room back does so before anything
// is dropped and after each round. Of another, what was dropped and
// cannot be seen yet is taken off the excess; otherwise each look would drop the
// same share again. A size that follows at once needs no such patience: rounds go on while it falls.
func (a *autodrop) step(ctx context.Context, now time.Time) (dropped int64, err error) {
	bound, err := a.bound(ctx)
	if err != nil || bound == 0 || !a.acts() {
		return 0, err
	}
	if err := a.measure(ctx, now, bound); err != nil || !a.isHigh(bound) {
		return 0, err
	}
	for low := a.low * bound / 100; a.size-a.unseen > low; {
		n, err := a.round(ctx, low, now)
		dropped += n
		if err != nil || n == 0 {
			return dropped, err
		}
	}
	return dropped, nil
}

func (a *autodrop) isHigh(bound int64) bool { return 100*a.size > a.high*bound }

// measure reads the store's size. One that is too large is read again when what nothing needs is
// given back; but not before it has grown since, for that is work.
func (a *autodrop) measure(ctx context.Context, now time.Time, bound int64) error {
	if err := a.look(ctx, now); err != nil || !a.isHigh(bound) || a.size <= a.least+bound/100 {
		return err
	}
	return a.reclaim(ctx, now)
}

// reclaim gives room back, if the engine has to be asked, and reads the size.
func (a *autodrop) reclaim(ctx context.Context, now time.Time) error {
	e, ok := a.engine.(millrace.Reclaimer)
	if !ok {
		return a.look(ctx, now)
	}
	if err := e.Reclaim(ctx); err != nil {
		return err
	}
	err := a.look(ctx, now)
	a.least = a.size
	return err
}

// look reads the store's size. As far as it has fallen it shows what was dropped. What it has
// not shown for long it will not show, unless it stands still: that would drop everything in the end.
func (a *autodrop) look(ctx context.Context, now time.Time) error {
	size, err := a.engine.Bytes(ctx)
	if err != nil {
		return err
	}
	a.unseen = max(0, a.unseen-max(0, a.size-size))
	if a.size = size; size != a.after && now.Sub(a.dropped) >= dropForget {
		a.unseen = 0
	}
	return nil
}

// round drops the share of the events that is too much, looks what came of it, and returns how many went.
func (a *autodrop) round(ctx context.Context, low int64, now time.Time) (int64, error) {
	held, err := a.held(ctx)
	if err != nil {
		return 0, err
	}
	before := a.size
	n, err := a.drop(ctx, max(1, int64(float64(held)*float64(before-a.unseen-low)/float64(before))))
	if n == 0 {
		return 0, err
	}
	bytes := int64(float64(before) * float64(n) / float64(max(n, held)))
	a.unseen, a.dropped, a.after = a.unseen+bytes, now, before
	if err != nil {
		return n, err
	}
	err = a.reclaim(ctx, now)
	a.after = a.size
	if fell := before - a.size; fell > 0 && fell >= bytes/4 {
		a.unseen = 0 // the size follows at once; what it has not shown was a wrong guess
	}
	return n, err
}

// drop drops so many events, by turns over the lanes, or all there are, and returns how many went.
func (a *autodrop) drop(ctx context.Context, goal int64) (dropped int64, err error) {
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
