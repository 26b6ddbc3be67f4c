package embedded_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func openedFS(t *testing.T, fs vfs.FS, o millrace.EngineOptions) *embedded.Engine {
	t.Helper()
	o.Logger = quiet()
	e, err := embedded.OpenFS(context.Background(), fs, "store", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestADeadLetterThatCannotBeReadStopsTheEngineAndNotTheStep(t *testing.T) {
	e := openedFS(t, vfs.NewMem(), millrace.EngineOptions{})
	now := time.UnixMilli(1_800_000_000_000)
	ctx := context.Background()
	settings := millrace.QueueSettings{UID: benchQueue, Version: 1, DeadRetention: time.Second}
	if _, err := e.Apply(ctx, 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{settings}}); err != nil {
		t.Fatal(err)
	}
	c := benchCommit(1, 0, 1)
	c.Now = now
	if _, err := e.Publish(ctx, 0, c); err != nil {
		t.Fatal(err)
	}
	leased, err := e.Lease(ctx, 0, millrace.Lease{Now: now, Queue: benchQueue, Max: 1, MaxBytes: 1 << 20, For: time.Minute})
	if err != nil || len(leased.Messages) != 1 {
		t.Fatal(leased, err)
	}
	item := millrace.SettleItem{Name: leased.Messages[0].Name}
	if _, err := e.Settle(ctx, 0, millrace.Settle{Now: now, Queue: benchQueue, Verb: millrace.Bury, Items: []millrace.SettleItem{item}}); err != nil {
		t.Fatal(err)
	}
	e.LoseDeadLetters()
	done := make(chan error, 1)
	go func() {
		_, err := e.Step(ctx, 0, now.Add(time.Minute), 10)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the step says nothing of what it could not read")
		}
	case <-time.After(time.Minute):
		t.Fatal("the step does not end")
	}
	stopped(t, e)
}

func TestADiskThatFailsWhileTheStoreClosesDoesNotHoldItUp(t *testing.T) {
	e, on := failing(t, func(op errorfs.Op) bool {
		return strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
	})
	if _, err := e.Publish(context.Background(), 0, benchCommit(10, 0, 1)); err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	done := make(chan error, 1)
	go func() { done <- e.Close() }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("close says nothing of what could not be written")
		}
	case <-time.After(time.Minute):
		t.Fatal("close does not end")
	}
}

func TestASeqThatWasAnsweredIsNotGivenAgainAfterAPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	e := openedFS(t, fs, millrace.EngineOptions{})
	c := benchCommit(1000, 0, 1) // more than the clock's own numbers of one millisecond
	c.Now = time.UnixMilli(1_800_000_000_000)
	for i := range c.Events {
		c.Events[i].Queues = nil // nothing but the seq is to be kept of it
	}
	before := benchCommitNowhere() // which makes the lane write what it writes at the first event
	before.Now = c.Now
	if _, err := e.Publish(context.Background(), 0, before); err != nil {
		t.Fatal(err)
	}
	first, err := e.Publish(context.Background(), 0, c)
	if err != nil {
		t.Fatal(err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	closed(t, e)
	e = openedFS(t, crashed, millrace.EngineOptions{})
	defer closed(t, e)
	c.Events = c.Events[:1]
	again, err := e.Publish(context.Background(), 0, c)
	if err != nil {
		t.Fatal(err)
	}
	if last := first.Stamps[len(first.Stamps)-1].Seq; again.Stamps[0].Seq <= last {
		t.Errorf("seq %d was given after %d", again.Stamps[0].Seq, last)
	}
}

func TestAnIDThatIsForgottenInTheSameCommitCountsForTheLimit(t *testing.T) {
	e := openedFS(t, vfs.NewMem(), millrace.EngineOptions{DedupeWindow: time.Second})
	defer closed(t, e)
	settings := millrace.QueueSettings{UID: benchQueue, Version: 1, MaxLength: 1}
	if _, err := e.Apply(context.Background(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{settings}}); err != nil {
		t.Fatal(err)
	}
	begin := time.UnixMilli(1_800_000_000_000)
	publish := func(after time.Duration, queues ...string) error {
		c := benchCommit(1, 0, 1)
		c.Now = begin.Add(after)
		c.Events[0].Digest, c.Events[0].Remembered, c.Events[0].Queues = benchDigest(len(queues)), true, queues
		_, err := e.Publish(context.Background(), 0, c)
		return err
	}
	if err := publish(0, benchQueue); err != nil {
		t.Fatal(err)
	}
	if err := publish(time.Second); err != nil { // begins the second generation of ids
		t.Fatal(err)
	}
	if err := publish(2*time.Second, benchQueue); millrace.CodeOf(err) != millrace.CodeFull {
		t.Errorf("got %v, want full: the id is not remembered any more and the tenant has one waiting", err)
	}
}

// impatient is a context that ends when it has been asked so often whether it has.
type impatient struct {
	context.Context
	left int
}

func (c *impatient) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestASweepThatIsCutShortLeavesNothingBehind(t *testing.T) {
	for patience := range 12 {
		e := openedFS(t, vfs.NewMem(), millrace.EngineOptions{})
		define(t, e, benchQueue)
		if _, err := e.Publish(context.Background(), 0, benchCommit(100, 0, 3)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Apply(context.Background(), 0, millrace.Apply{Version: 9, Removed: []string{benchQueue}}); err != nil {
			t.Fatal(err)
		}
		_, _ = e.Sweep(&impatient{context.Background(), patience}, 0, 10)
		for {
			n, err := e.Sweep(context.Background(), 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			if n < 10 {
				break
			}
		}
		for kind, n := range e.RecordsOfSinks() {
			t.Errorf("patience %d: %d records of kind %s are left", patience, n, kind)
		}
		if err := e.Check(context.Background()); err != nil {
			t.Errorf("patience %d: %v", patience, err)
		}
		closed(t, e)
	}
}
