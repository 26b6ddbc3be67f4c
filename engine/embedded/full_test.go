package embedded_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// small mounts a file system of its own in memory; who may not mount skips the test.
func small(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, options)
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	return dir
}

// TestAFullDiskRefusesToPublishAndLosesNothing fills the disk under load and makes room again.
func TestAFullDiskRefusesToPublishAndLosesNothing(t *testing.T) {
	dir := small(t, "size=768m")
	const reserve = 128 << 20
	e := openReserved(t, dir, reserve)
	load := &enginetest.Load{Engine: e, Ledger: enginetest.NewLedger(), Name: "full", Lease: 300 * time.Millisecond}
	ballast := filepath.Join(dir, "ballast")
	h := enginetest.Through(t.Context(), load, func() {
		await(t, load, 0, 100, "publish", "")
		weighDown(t, ballast, func() bool { return room(t, dir) > reserve*3/4 })
		full := load.Ledger.Len() // from here on nothing fits, and what waits is settled all the same
		await(t, load, full, 20, "publish", millrace.CodeStoreFull)
		await(t, load, full, 3, "settle", "")
		if err := os.Remove(ballast); err != nil {
			t.Error(err)
		}
		await(t, load, load.Ledger.Len(), 20, "publish", "")
	})
	if err := enginetest.Audit(t.Context(), e, h); err != nil {
		t.Error(err)
	}
}

// openReserved opens a store that keeps some room free, ready for a load.
func openReserved(t *testing.T, dir string, reserve int64) *embedded.Engine {
	t.Helper()
	e, err := embedded.Open(t.Context(), filepath.Join(dir, "store"), millrace.EngineOptions{Lanes: 1, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := enginetest.Prepare(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// room is how much is free in a directory.
func room(t *testing.T, dir string) uint64 {
	t.Helper()
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		t.Fatal(err)
	}
	return usage.AvailBytes
}

// weighDown writes to a file while there is too much room.
func weighDown(t *testing.T, path string, more func() bool) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 1<<20); more() && err == nil; {
		_, err = f.Write(chunk)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
}

// await waits until the load has met an outcome of an operation so many times since an entry.
func await(t *testing.T, load *enginetest.Load, since, times int, op string, code millrace.Code) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n := 0
		for _, e := range load.Ledger.History()[since:] {
			if e.Op == op && e.Phase != enginetest.Invoked && e.Code == code {
				n++
			}
		}
		if n >= times {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s never ended with code %q", op, code)
			return
		}
	}
}

// TestAPartitionThatFillsUpRefusesToPublishAndRecovers publishes until there is
// no room but the reserve.
func TestAPartitionThatFillsUpRefusesToPublishAndRecovers(t *testing.T) {
	dir := small(t, "size=320m")
	e := openReserved(t, dir, 128<<20)
	stored := enginetest.FillUp(t, e, 100_000)
	if stored < 10 {
		t.Fatalf("only %d events were stored before the disk was full", stored)
	}
	enginetest.Drain(t, e, stored)
	mount(t, dir, "remount,size=512m")
	for deadline := time.Now().Add(20 * time.Second); enginetest.FillUp(t, e, 1) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store does not recover when there is room again")
		}
	}
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func mount(t *testing.T, dir, options string) {
	t.Helper()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput()
	if err != nil {
		t.Skipf("cannot mount a small file system: %s", out)
	}
}
