package broker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// node opens a broker with some roles on a store that other nodes share.
func node(t *testing.T, url string, roles ...string) *Broker {
	t.Helper()
	b, err := Open(t.Context(), url, Options{Roles: roles, Engine: millrace.EngineOptions{Lanes: 4}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestWhatOneNodeDeletesAnotherSweeps(t *testing.T) {
	url := redistest.Single(t).URL()
	web, monitor := node(t, url, RoleWeb), node(t, url, RoleMonitor)
	define(t, web, "all", ".")
	publishSpread(t, web, "orders", 40)
	if err := web.Queues().Delete(t.Context(), "all", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all that it held is swept", func() bool {
		s, err := monitor.Stats(t.Context())
		return err == nil && s.Dropped == 40
	})
}

// dying is an engine through which a removal is written but no lane is told of it.
type dying struct {
	millrace.Engine
	died bool
}

func (e *dying) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	if e.died {
		return nil, millrace.Errorf(millrace.CodeUnavailable, "dead")
	}
	return e.Engine.Apply(ctx, lane, a)
}

func TestARemovalThatNoLaneHasHeardOfIsCompletedByAnotherNode(t *testing.T) {
	shared := enginetest.NewModel(2, time.Now)
	e := &dying{Engine: shared}
	b, err := New(t.Context(), e, Options{Roles: []string{RoleWeb}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	define(t, b, "all", ".")
	publishSpread(t, b, "orders", 10)
	e.died = true
	if err := b.Queues().Delete(t.Context(), "all", false); err == nil {
		t.Fatal("it was to fail half-way")
	}
	changes, err := shared.Definitions(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newSweeper(shared, 2, slog.New(slog.DiscardHandler))
	s.removed(millrace.Apply{Version: changes.Version, Removed: []string{changes.Definitions[0].UID}})
	s.sweepAll(t.Context())
	dropped := int64(0)
	for lane := range 2 {
		stats, err := shared.LaneStats(t.Context(), lane)
		if err != nil {
			t.Fatal(err)
		}
		dropped += stats.Dropped
	}
	if dropped != 10 {
		t.Errorf("%d of 10 are swept", dropped)
	}
}

// hasty is an engine whose caller gives up as soon as a removal is written, and whose lanes heed it.
type hasty struct {
	millrace.Engine
	giveUp context.CancelFunc
}

func (e *hasty) Define(ctx context.Context, d millrace.Definition, replaces uint64) (millrace.Definition, error) {
	d, err := e.Engine.Define(ctx, d, replaces)
	if d.Deleted {
		e.giveUp()
	}
	return d, err
}

func (e *hasty) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return e.Engine.Apply(ctx, lane, a)
}

func TestADeletionWhoseCallerGivesUpIsCompleted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := start(t, &hasty{Engine: enginetest.NewModel(4, time.Now), giveUp: cancel})
	define(t, b, "all", ".")
	publishSpread(t, b, "orders", 20)
	if err := b.Queues().Delete(ctx, "all", false); err != nil {
		t.Errorf("it was done, but says %v", err)
	}
	eventually(t, "all that it held is swept", func() bool {
		s, err := b.Stats(t.Context())
		return err == nil && s.Dropped == 20
	})
}

func TestALaneThatStillHasBatchesOfARemovedSubscriptionIsTold(t *testing.T) {
	e := model()
	b, err := New(t.Context(), e, Options{Roles: []string{RoleWeb, RoleDeliver}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics, spec.MaxEvents = []string{"orders"}, 1
	if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	if err := b.Subscriptions().Pause(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	publishOrders(t, b, 1)
	// A node dies between writing the removal and telling the lanes.
	sub := b.registry.now().subs["shop"]
	d, settings := sub.definition, sub.settings(1)
	d.Deleted = true
	if _, err := e.Define(t.Context(), d, sub.definition.Version); err != nil {
		t.Fatal(err)
	}
	eventually(t, "this node has heard", func() bool { return b.registry.now().subs["shop"] == nil })
	settings.Paused = false
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: settings.Version, Subscriptions: []millrace.SubscriptionSettings{settings}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lane knows it no more", func() bool {
		_, err := e.ListBatches(t.Context(), 0, millrace.BatchPage{Subscription: sub.uid, Limit: 10})
		return millrace.CodeOf(err) == millrace.CodeNotFound
	})
}

func TestANodeRemembersAsManyRemovalsAsTheStore(t *testing.T) {
	h := newHouse(0)
	for i := range maxRemoved + 500 {
		d := millrace.Definition{Kind: millrace.KindQueue, Name: "q", UID: fmt.Sprint(i), Deleted: true}
		next, err := h.with(millrace.Changes{Version: uint64(i + 1), Definitions: []millrace.Definition{d}})
		if err != nil {
			t.Fatal(err)
		}
		h = next
	}
	if n := len(h.removed); n != maxRemoved || h.removed[n-1] != fmt.Sprint(maxRemoved+499) {
		t.Errorf("%d are remembered, the last is %s", n, h.removed[n-1])
	}
}
