package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

const (
	stormPlain   = "00000000000000c1"
	stormOrdered = "00000000000000c2"
	stormSub     = "00000000000000c3"
	stormSubLine = "00000000000000c4"
)

// storm does everything that queues and subscriptions can, from many goroutines at once.
type storm struct {
	testing.TB
	*embedded.Engine
	tokens atomic.Uint64
}

func TestAPowerLossInAStormLeavesEveryIndexAsTheDiskHasIt(t *testing.T) {
	t.Parallel() // with what waits for the disk
	for seed := range 6 {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) { stormAndCrash(t, uint64(seed)) })
	}
}

func stormAndCrash(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	fs := vfs.NewCrashableMem()
	e, err := embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &storm{TB: t, Engine: e}
	s.define()
	crashed := rage(fs, seed, int64(400+random.IntN(1200)), random, s.one)
	if err := e.Check(context.Background()); err != nil {
		t.Errorf("check after the storm: %v", err)
	}
	closed(t, e)
	after, err := embedded.OpenFS(context.Background(), crashed, "store", millrace.EngineOptions{})
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer closed(t, after)
	if err := after.Check(context.Background()); err != nil {
		t.Errorf("check after the crash: %v", err)
	}
	s.Engine = after
	s.empty()
}

func (s *storm) define() {
	for _, q := range []millrace.QueueSettings{
		{UID: stormPlain, Version: 1, MaxAttempts: 3, TenantLimit: 20, MaxLength: 300, DropOldest: true, DeadRetention: 50 * time.Millisecond},
		{UID: stormOrdered, Version: 2, MaxAttempts: 2, Ordered: true, DeadRetention: time.Hour},
	} {
		defineAs(s, s.Engine, q)
	}
	for uid, ordered := range map[string]bool{stormSub: false, stormSubLine: true} {
		s.change(uid, func(set *millrace.SubscriptionSettings) { set.Ordered = ordered })
	}
	s.KeepMembers(20) // so that most are read back from the disk
}

// change gives a subscription its settings, some of them changed.
func (s *storm) change(uid string, edit func(*millrace.SubscriptionSettings)) {
	settings := millrace.SubscriptionSettings{
		UID: uid, Version: 2, Timeout: 3 * time.Millisecond, MaxEvents: 8, MaxBytes: 1 << 20, Concurrency: 3, Format: "events",
		Schedule: []time.Duration{2 * time.Millisecond, 5 * time.Millisecond}, Retention: 50 * time.Millisecond,
	}
	edit(&settings)
	if _, err := s.Apply(context.Background(), 0, millrace.Apply{Version: 2, Subscriptions: []millrace.SubscriptionSettings{settings}}); err != nil {
		s.Error(err)
	}
}

// rage has six workers do one thing after the other until so many were done, copies the file system as a power
// loss would leave it, and stops.
func rage(fs *vfs.MemFS, seed uint64, calls int64, random *rand.Rand, one func(*rand.Rand)) *vfs.MemFS {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var done atomic.Int64
	reached := make(chan struct{})
	for worker := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)+10))
			for ctx.Err() == nil {
				one(r)
				if done.Add(1) == calls {
					close(reached)
				}
			}
		})
	}
	<-reached
	crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
	cancel()
	wg.Wait()
	return crashed
}

// one does one thing at random.
func (s *storm) one(r *rand.Rand) {
	ctx, queue := context.Background(), stormPlain
	if r.IntN(2) == 0 {
		queue = stormOrdered
	}
	tenant := fmt.Sprint("t", r.IntN(4))
	var err error
	switch r.IntN(20) {
	case 0, 1, 2:
		_, err = s.Publish(ctx, 0, s.commit(r))
	case 3, 4, 5:
		s.leaseAndSettle(r, queue)
	case 6:
		s.step(ctx)
	case 7:
		_, _, err = s.Redrive(ctx, 0, millrace.DeadOf{Queue: queue, All: true, Max: 1 + r.IntN(20)})
	case 8:
		_, _, err = s.DropDead(ctx, 0, millrace.DeadOf{Queue: queue, All: true, Tenant: tenant, Max: 3})
	case 9:
		_, _, err = s.Purge(ctx, 0, millrace.Purge{Queue: queue, Tenant: tenant, Max: 1 + r.IntN(40)})
	case 10:
		err = s.SetTenant(ctx, 0, queue, tenant, &millrace.TenantSettings{Weight: r.IntN(4), Limit: r.IntN(10) - 1})
	case 11:
		_, err = s.Release(ctx, 0, millrace.Release{Queue: queue, Consumer: tenant, Max: 10})
	case 12:
		_ = s.CancelHeld(ctx, 0, tenant, fmt.Sprint(r.IntN(20)))
	case 13:
		err = s.Inject(ctx, 0, millrace.Inject{Queue: queue, Events: []millrace.InjectEvent{
			{Tenant: tenant, Key: fmt.Sprint(r.IntN(5)), Seq: r.Uint64N(1000) + 1, RecordedAt: time.Now(), Body: []byte("injected")},
		}})
	default:
		err = s.oneOfSubs(r)
	}
	if err != nil {
		s.Error(err)
	}
}

func (s *storm) commit(r *rand.Rand) millrace.Commit {
	c := millrace.Commit{Version: 2}
	for range 1 + r.IntN(30) {
		ev := millrace.CommitEvent{Tenant: fmt.Sprint("t", r.IntN(4)), Topic: "storm", Body: []byte("body"), Queues: []string{stormPlain, stormOrdered}, Batches: []string{stormSub, stormSubLine}}
		if r.IntN(3) > 0 {
			ev.Key = fmt.Sprint(r.IntN(8))
		}
		if r.IntN(10) == 0 {
			ev.ID, ev.Delay, ev.Queues, ev.Batches = fmt.Sprint(r.IntN(20)), time.Duration(r.IntN(50))*time.Millisecond, nil, nil
			ev.Remembered, ev.Digest = true, benchDigest(r.IntN(1000))
		}
		c.Events = append(c.Events, ev)
	}
	return c
}

func (s *storm) leaseAndSettle(r *rand.Rand, queue string) {
	var token millrace.Token
	binary.BigEndian.PutUint64(token[:], s.tokens.Add(1))
	l := millrace.Lease{Queue: queue, Max: 1 + r.IntN(30), For: time.Duration(1+r.IntN(100)) * time.Millisecond, Token: token, Consumer: fmt.Sprint("t", r.IntN(4))}
	if queue == stormPlain && r.IntN(4) == 0 {
		l.For = 0
	}
	got, err := s.Lease(context.Background(), 0, l)
	if err != nil {
		s.Error(err)
		return
	}
	var items []millrace.SettleItem
	for _, m := range got.Messages {
		if r.IntN(4) > 0 {
			items = append(items, millrace.SettleItem{Name: m.Name, Token: token, Delay: time.Duration(r.IntN(3)) * 5 * time.Millisecond})
		}
	}
	verb := []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury}[r.IntN(3)]
	if _, err := s.Settle(context.Background(), 0, millrace.Settle{Queue: queue, Verb: verb, Items: items}); err != nil {
		s.Error(err)
	}
}

// oneOfSubs does one thing to subscriptions.
func (s *storm) oneOfSubs(r *rand.Rand) (err error) {
	ctx, uid := context.Background(), []string{stormSub, stormSubLine}[r.IntN(2)]
	switch r.IntN(12) {
	case 0:
		_, err = s.DropOldest(ctx, 0, 1+r.IntN(5))
	case 1:
		_, _, err = s.RetryBatches(ctx, 0, millrace.BatchesOf{Subscription: uid, Dead: true, Max: 3})
	case 2:
		s.change(uid, func(set *millrace.SubscriptionSettings) {
			set.Paused, set.Disabled, set.MaxEvents = r.IntN(5) == 0, r.IntN(5) == 0, 1+r.IntN(10)
		})
	case 3:
		err = s.Inject(ctx, 0, millrace.Inject{Subscription: uid, Events: []millrace.InjectEvent{{Seq: 5, RecordedAt: time.Now(), Body: []byte("injected")}}})
	case 4:
		_, err = s.AttemptLog(ctx, 0, uid)
	case 5:
		var list []millrace.Batch
		if list, err = s.ListBatches(ctx, 0, millrace.BatchPage{Subscription: uid, Limit: 5}); err == nil && len(list) > 0 {
			_ = s.DropBatch(ctx, 0, uid, list[r.IntN(len(list))].Name) // it may be pending or gone by now
			_, _, _ = s.Batch(ctx, 0, uid, list[0].Name)
		}
	default:
		s.takeAndSettle(r)
	}
	return err
}

func (s *storm) takeAndSettle(r *rand.Rand) {
	var token millrace.Token
	binary.BigEndian.PutUint64(token[:], s.tokens.Add(1))
	got, err := s.Take(context.Background(), 0, millrace.Take{
		Max: 1 + r.IntN(6), MaxBytes: 1 << 20, For: time.Duration(1+r.IntN(100)) * time.Millisecond, Token: token, Node: "n",
	})
	if err != nil {
		s.Error(err)
		return
	}
	var items []millrace.Outcome
	for _, b := range got.Batches {
		if len(b.Events) == 0 {
			s.Errorf("batch %d has no events", b.Name)
		}
		if r.IntN(6) > 0 {
			items = append(items, millrace.Outcome{
				Subscription: b.Subscription, Name: b.Name, Token: token, OK: r.IntN(3) > 0, Error: "refused", Jitter: millrace.NoJitter, Log: []byte("log"),
			})
		}
	}
	if _, err := s.SettleBatches(context.Background(), 0, millrace.Outcomes{Items: items}); err != nil {
		s.Error(err)
	}
}

// step does what is due and publishes the delayed events that come out of it.
func (s *storm) step(ctx context.Context) {
	done, err := s.Step(ctx, 0, time.Time{}, 50)
	if err != nil {
		s.Error(err)
	}
	for _, h := range done.Events {
		c := millrace.Commit{Version: 2, Events: []millrace.CommitEvent{{Tenant: "late", Topic: "storm", Body: h.Body, Queues: []string{stormOrdered}, From: h.Name}}}
		if _, err := s.Publish(ctx, 0, c); err != nil {
			s.Error(err)
		}
	}
}

// empty removes all queues and subscriptions; nothing of them may be left.
func (s *storm) empty() {
	ctx := context.Background()
	if _, err := s.Apply(ctx, 0, millrace.Apply{Version: 3, Removed: []string{stormPlain, stormOrdered, stormSub, stormSubLine}}); err != nil {
		s.Fatal(err)
	}
	for n := 37; n == 37; { // so that it ends within a record of a batch
		var err error
		if n, err = s.Sweep(ctx, 0, 37); err != nil {
			s.Fatal(err)
		}
	}
	if err := s.Check(ctx); err != nil {
		s.Errorf("check after the sweep: %v", err)
	}
	for what, n := range s.RecordsOfSinks() {
		s.Errorf("%d records of kind %s are left of swept sinks", n, what)
	}
}
