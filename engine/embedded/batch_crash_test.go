package embedded_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// path takes a subscription through all that can happen to it, one call a time.
type path struct {
	*embedded.Engine
	now   time.Time
	taken []millrace.TakenBatch
}

func (p *path) take(most int, token millrace.Token) error {
	got, err := p.Take(context.Background(), 0, millrace.Take{Now: p.now, Max: most, MaxBytes: 1 << 20, For: time.Minute, Token: token, Node: "node"})
	if err == nil && len(got.Batches) != most {
		err = errors.New("too few batches were taken")
	}
	p.taken = got.Batches
	return err
}

func (p *path) settle(ok bool, token millrace.Token) error {
	o := millrace.Outcomes{Now: p.now}
	for _, b := range p.taken {
		o.Items = append(o.Items, millrace.Outcome{Subscription: b.Subscription, Name: b.Name, Token: token, OK: ok, Error: "refused", Jitter: millrace.NoJitter})
	}
	_, err := p.SettleBatches(context.Background(), 0, o)
	return err
}

func (p *path) step(in time.Duration, did func(millrace.Stepped) int) error {
	p.now = p.now.Add(in)
	done, err := p.Step(context.Background(), 0, p.now, 1000)
	if err == nil && did != nil && did(done) == 0 {
		err = errors.New("the step has done nothing")
	}
	return err
}

// calls are what happens on the path.
func (p *path) calls(uid string) []func() error {
	ctx, token := context.Background(), millrace.Token{1}
	return []func() error{
		func() error { return p.take(3, token) },
		func() error { return p.settle(false, token) }, // the third failure parks it
		func() error { return p.step(2*time.Second, func(s millrace.Stepped) int { return s.Promoted }) },
		func() error { return p.step(2*time.Second, nil) }, // the park has ended in either step
		func() error { return p.take(1, token) },
		func() error { return p.step(2*time.Minute, func(s millrace.Stepped) int { return s.Scrubbed }) }, // it is dead
		func() error { return p.step(time.Minute, nil) },
		func() error {
			_, _, err := p.RetryBatches(ctx, 0, millrace.BatchesOf{Now: p.now, Subscription: uid, Dead: true, Max: 9})
			return err
		},
		func() error { return p.take(1, token) },
		func() error { return p.settle(true, token) },
		func() error { _, err := p.DropOldest(ctx, 0, 1); return err },
		func() error {
			s := pushSettings(uid, 2)
			s.Version, s.Paused = 2, true
			_, err := p.Apply(ctx, 0, millrace.Apply{Version: 2, Subscriptions: []millrace.SubscriptionSettings{s}})
			return err
		},
		func() error {
			return p.Inject(ctx, 0, millrace.Inject{Now: p.now, Subscription: uid, Events: []millrace.InjectEvent{{Seq: 1, RecordedAt: p.now, Body: []byte("injected")}}})
		},
	}
}

func TestEveryAnswerAboutBatchesOutlivesAPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := openOn(t, fs)
	defer closed(t, e)
	uid := defineSubs(t, e, 1, 2)[0]
	p := &path{Engine: e, now: time.Now()}
	c := pushCommit(12, []string{uid})
	c.Now = p.now
	if _, err := e.Publish(context.Background(), 0, c); err != nil {
		t.Fatal(err)
	}
	for i, call := range p.calls(uid) {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{})
		want, wantStats := shownOf(t, e, uid)
		after := openOn(t, crashed)
		got, gotStats := shownOf(t, after, uid)
		closed(t, after)
		if !reflect.DeepEqual(got, want) || gotStats != wantStats {
			t.Errorf("call %d was answered; then\n%+v\n%+v\nafter a power loss\n%+v\n%+v", i, want, wantStats, got, gotStats)
		}
	}
}

// shownOf is what a store tells of a subscription.
func shownOf(t *testing.T, e *embedded.Engine, uid string) ([]millrace.Batch, millrace.SubscriptionStats) {
	t.Helper()
	list, err := e.ListBatches(context.Background(), 0, millrace.BatchPage{Subscription: uid, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := e.SubscriptionStats(context.Background(), 0, uid)
	if err != nil {
		t.Fatal(err)
	}
	return list, stats
}
