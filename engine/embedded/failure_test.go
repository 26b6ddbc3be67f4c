package embedded_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// failing is a store whose file system can be made to fail.
func failing(t *testing.T, fails func(errorfs.Op) bool) (*embedded.Engine, *atomic.Bool) {
	t.Helper()
	var on atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && fails(op) {
			return errors.New("the disk is broken")
		}
		return nil
	}))
	e, err := embedded.OpenFS(context.Background(), fs, "store", millrace.EngineOptions{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	define(t, e, benchQueue)
	return e, &on
}

func TestAFailedSyncClosesTheEngine(t *testing.T) {
	e, on := failing(t, func(op errorfs.Op) bool {
		return strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
	})
	on.Store(true)
	_, err := e.Publish(context.Background(), 0, benchCommit(1, 0, 1))
	if millrace.CodeOf(err) != millrace.CodeOutcomeUnknown {
		t.Errorf("got %v, want outcome_unknown", err)
	}
	stopped(t, e)
}

func TestABackgroundErrorClosesTheEngine(t *testing.T) {
	e, on := failing(t, func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") })
	on.Store(true)
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if _, err := e.Publish(context.Background(), 0, benchCommit(1000, 0, 1)); err != nil {
			if code := millrace.CodeOf(err); code != millrace.CodeOutcomeUnknown && code != millrace.CodeUnavailable {
				t.Errorf("got %v", err)
			}
			stopped(t, e)
			return
		}
	}
	t.Fatal("the engine goes on though nothing can be flushed")
}

// stopped fails unless the engine refuses everything, and closes it.
func stopped(t *testing.T, e *embedded.Engine) {
	t.Helper()
	if err := e.Ping(context.Background()); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("ping after a failure: %v", err)
	}
	if _, err := e.Publish(context.Background(), 0, benchCommit(1, 0, 1)); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("publish after a failure: %v", err)
	}
	if _, err := e.Stats(context.Background(), 0, benchQueue); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("stats after a failure: %v", err)
	}
	if err := e.Close(); err == nil {
		t.Error("close says nothing of the failure")
	}
}

func TestASecondProcessIsRefusedWithTheDirectorysName(t *testing.T) {
	if dir := os.Getenv("MILLRACE_SECOND"); dir != "" {
		openSecond(t, dir)
		return
	}
	dir := t.TempDir()
	e, err := embedded.Open(context.Background(), dir, millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	openSecond(t, dir) // in this process
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "MILLRACE_SECOND="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in another process: %v\n%s", err, out)
	}
}

func openSecond(t *testing.T, dir string) {
	t.Helper()
	e, err := embedded.Open(context.Background(), dir, millrace.EngineOptions{})
	if err == nil {
		_ = e.Close()
	}
	if millrace.CodeOf(err) != millrace.CodeUnavailable || !errors.Is(err, millrace.ErrStoreInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want unavailable and in use, with the directory's name", err)
	}
}

func TestAFullDiskRefusesPublishAndNothingElse(t *testing.T) {
	e, err := embedded.OpenMemory(context.Background(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	define(t, e, benchQueue)
	var free atomic.Uint64
	free.Store(1000)
	e.SetFreeSpace(500, func() (uint64, error) { return free.Load(), nil })
	if _, err := e.Publish(context.Background(), 0, benchCommit(10, 0, 1)); err != nil {
		t.Fatal(err)
	}
	free.Store(499)
	publishUntil(t, e, millrace.CodeStoreFull)
	if n := leaseAndAck(t, e, 1, 5); n != 5 {
		t.Errorf("settled %d on a full disk, want 5", n)
	}
	if _, err := e.Step(context.Background(), 0, time.Time{}, 10); err != nil {
		t.Errorf("step on a full disk: %v", err)
	}
	free.Store(500)
	publishUntil(t, e, "")
}

// publishUntil publishes until it is answered with a code.
func publishUntil(t *testing.T, e *embedded.Engine, code millrace.Code) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		_, err := e.Publish(context.Background(), 0, benchCommit(1, 0, 1))
		if millrace.CodeOf(err) == code {
			return
		}
	}
	t.Fatalf("publish is never answered with %q", code)
}

func TestACallerWhoGivesUpDoesNotKnowTheOutcome(t *testing.T) {
	block := make(chan struct{})
	e, on := failing(t, func(op errorfs.Op) bool {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			<-block
		}
		return false
	})
	on.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := e.Publish(ctx, 0, benchCommit(1, 0, 1))
	if millrace.CodeOf(err) != millrace.CodeOutcomeUnknown || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish: got %v, want outcome_unknown by the deadline", err)
	}
	read, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	if _, err := e.Stats(read, 0, benchQueue); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("stats that would tell of what is not durable: got %v, want unavailable", err)
	}
	close(block)
	if s, err := e.Stats(context.Background(), 0, benchQueue); err != nil || s.Ready != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
