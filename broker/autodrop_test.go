package broker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// laggard is an engine whose size does not follow what is dropped until it is told to.
type laggard struct {
	millrace.Engine
	size int64
}

func (e *laggard) Bytes(context.Context) (int64, error) { return e.size, nil }

// fill starts a broker on an engine, with a subscription that collects n events, one a batch.
func fill(t *testing.T, e millrace.Engine, n int, o Options) *Broker {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	b, err := New(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics, spec.MaxEvents, spec.Timeout = []string{"orders"}, 1, time.Hour
	if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	if err := b.Subscriptions().Pause(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := b.Publish(t.Context(), millrace.Event{ID: fmt.Sprint("e-", i), Topic: "orders", Type: "created", Key: fmt.Sprint("k", i)}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func sizeOf(t *testing.T, e millrace.Engine) int64 {
	t.Helper()
	n, err := e.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func held(t *testing.T, b *Broker) millrace.Subscription {
	t.Helper()
	s, err := b.Subscriptions().Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreAboveHighWaterDropsTheOldestBatchesDownToLowWater(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			e := enginetest.NewModel(lanes, time.Now)
			b := fill(t, e, 200, Options{})
			full := sizeOf(t, e)
			drop := newAutodrop(b, Options{MaxBytes: full * 100 / 90}) // it is at 90 percent
			dropped, err := drop.step(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			bound := drop.maxBytes
			if now := sizeOf(t, e); now > bound*75/100 || now < bound*65/100 {
				t.Errorf("%d bytes of %d are left after a drop of %d, want little less than 75 percent", now, bound, dropped)
			}
			s := held(t, b)
			if dropped == 0 || s.Dropped != dropped || s.Queued != 200-dropped {
				t.Errorf("%d were dropped, and these are counted: %+v", dropped, s)
			}
			if lanes == 1 {
				oldestWent(t, b, dropped)
			}
			if again, err := drop.step(t.Context(), time.Now()); again != 0 || err != nil {
				t.Errorf("%d went below high water, %v", again, err)
			}
		})
	}
}

// oldestWent checks that what is left begins after what was dropped.
func oldestWent(t *testing.T, b *Broker, dropped int64) {
	t.Helper()
	list, _, err := b.Subscriptions().Batches(t.Context(), "shop", millrace.BatchQuery{Page: millrace.Page{Limit: 1}})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	first, err := b.Subscriptions().GetBatch(t.Context(), "shop", list[0].ID)
	if want := fmt.Sprint("e-", dropped); err != nil || first.Events[0].ID != want {
		t.Errorf("the oldest left is %+v, want %s: %v", first.Events, want, err)
	}
}

func TestAutodropEndsWhenNothingIsLeft(t *testing.T) {
	e := enginetest.NewModel(2, time.Now)
	b := fill(t, e, 20, Options{})
	drop := newAutodrop(b, Options{MaxBytes: 1}) // never reached
	if dropped, err := drop.step(t.Context(), time.Now()); dropped != 20 || err != nil {
		t.Errorf("%d went, %v", dropped, err)
	}
	if dropped, err := drop.step(t.Context(), time.Now()); dropped != 0 || err != nil {
		t.Errorf("%d went, %v", dropped, err)
	}
}

// steps looks at a store of a size some times, and returns how many events went in all.
func (e *laggard) steps(t *testing.T, b *Broker, drop *autodrop, now time.Time, sizes ...int64) int64 {
	t.Helper()
	for _, e.size = range sizes {
		if _, err := drop.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	return held(t, b).Dropped
}

func TestAutodropDoesNotDropEverythingForASizeThatLagsBehind(t *testing.T) {
	e := &laggard{Engine: enginetest.NewModel(1, time.Now), size: 1000}
	b := fill(t, e, 100, Options{})
	drop, now := newAutodrop(b, Options{MaxBytes: 1000}), time.Now()
	if n := e.steps(t, b, drop, now, 1000, 1000, 1000); n != 25 {
		t.Errorf("%d of 100 went, want 25: a quarter is too much", n)
	}
	if n := e.steps(t, b, drop, now, 1001, 999, 1002, 1000, 998); n > 26 {
		t.Errorf("%d of 100 went, want 25 still: the size has moved, but not for them", n)
	}
	if n := e.steps(t, b, drop, now, 900, 860, 740); n > 26 {
		t.Errorf("%d of 100 went while the size followed", n)
	}
	if n := e.steps(t, b, drop, now, 1000); n < 40 || n > 46 {
		t.Errorf("%d of 100 went, want a quarter of the rest: so much is new", n)
	}
}

func TestAutodropMakesRoomForWhatComesWhileTheSizeLagsBehind(t *testing.T) {
	e := &laggard{Engine: enginetest.NewModel(1, time.Now), size: 1000}
	b := fill(t, e, 100, Options{})
	drop, now := newAutodrop(b, Options{MaxBytes: 1000}), time.Now()
	if n := e.steps(t, b, drop, now, 1000, 1100); n < 30 || n > 33 {
		t.Errorf("%d of 100 went, want 25 and a share of what is left for the 100 bytes that came", n)
	}
	soon, late := now.Add(dropForget/2), now.Add(2*dropForget)
	before := e.steps(t, b, drop, soon, 1099)
	if n := e.steps(t, b, drop, late, 1101); n <= before+10 || n == 100 {
		t.Errorf("%d of 100 went after %d: what was not seen by then does not count any more", n, before)
	}
}

func TestOnlyOneNodeMakesRoom(t *testing.T) {
	e := enginetest.NewModel(1, time.Now)
	b := fill(t, e, 20, Options{})
	r := newReaper(e, 1, "this", b.log) // one that no beat tells who is there
	drop := newAutodrop(&Broker{engine: e, identity: b.identity, log: b.log, registry: b.registry, reaper: r}, Options{MaxBytes: 1})
	other := "another"
	for owner([]string{"this", other}, 0) != other {
		other += "!"
	}
	r.setMembers([]millrace.Node{{ID: "this", Roles: allRoles()}, {ID: other, Roles: allRoles()}})
	if dropped, err := drop.step(t.Context(), time.Now()); dropped != 0 || err != nil {
		t.Errorf("%d went, %v: it is for the other", dropped, err)
	}
	r.setMembers([]millrace.Node{{ID: "this", Roles: allRoles()}})
	if dropped, err := drop.step(t.Context(), time.Now()); dropped != 20 || err != nil {
		t.Errorf("%d went, %v: the other is gone", dropped, err)
	}
}

// littered is an engine that keeps what nothing needs until it is asked to give it back.
type littered struct {
	millrace.Engine
	litter    int64
	reclaimed int
}

func (e *littered) Bytes(ctx context.Context) (int64, error) {
	n, err := e.Engine.Bytes(ctx)
	return n + e.litter, err
}

func (e *littered) Reclaim(context.Context) error {
	e.litter = 0
	e.reclaimed++
	return nil
}

func TestWhatNothingNeedsIsGivenBackBeforeABatchIsDropped(t *testing.T) {
	e := &littered{Engine: enginetest.NewModel(1, time.Now)}
	b := fill(t, e, 100, Options{})
	drop := newAutodrop(b, Options{MaxBytes: 2 * sizeOf(t, e)})
	e.litter = 10 * drop.maxBytes
	if dropped, err := drop.step(t.Context(), time.Now()); dropped != 0 || err != nil || e.reclaimed != 1 {
		t.Errorf("%d went although half of the room is free, %v; it was given back %d times", dropped, err, e.reclaimed)
	}
}

func TestAStoreThatHoldsTooMuchOfOtherThingsIsNotCompactedAtEveryLook(t *testing.T) {
	e := &littered{Engine: enginetest.NewModel(1, time.Now)}
	b := fill(t, e, 0, Options{})
	drop := newAutodrop(b, Options{MaxBytes: sizeOf(t, e)})
	for range 3 {
		if dropped, err := drop.step(t.Context(), time.Now()); dropped != 0 || err != nil {
			t.Errorf("%d went, %v", dropped, err)
		}
	}
	if e.reclaimed != 1 {
		t.Errorf("room was given back %d times, want once: the store has not grown", e.reclaimed)
	}
	e.litter = drop.maxBytes
	if _, err := drop.step(t.Context(), time.Now()); err != nil || e.reclaimed != 2 {
		t.Errorf("room was given back %d times, want twice: %v", e.reclaimed, err)
	}
}

func TestAStoreWithoutABoundDropsNothing(t *testing.T) {
	b := fill(t, enginetest.NewModel(1, time.Now), 10, Options{})
	if dropped, err := newAutodrop(b, Options{}).step(t.Context(), time.Now()); dropped != 0 || err != nil {
		t.Errorf("%d went, %v", dropped, err)
	}
}

func TestMarksThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []Options{{MaxBytes: -1}, {HighWater: 101}, {HighWater: 50}, {LowWater: 85}, {LowWater: -1}} {
		o.Logger = slog.New(slog.DiscardHandler)
		if _, err := New(t.Context(), enginetest.NewModel(1, time.Now), o); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%d, %d, %d: %v", o.MaxBytes, o.HighWater, o.LowWater, err)
		}
	}
}
