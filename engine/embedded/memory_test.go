package embedded_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// life is what a child process reports of one part of a store's life.
type life struct {
	Opened   time.Duration // how long the opening took
	Took     time.Duration
	Messages int64
	PeakRSS  int64 // bytes, as the kernel says
}

// TestEightMillionWaitingEventsFitIntoHalfAGigabyte publishes, restarts and
// drains in processes of their own and asks the kernel for their peak.
func TestEightMillionWaitingEventsFitIntoHalfAGigabyte(t *testing.T) {
	if os.Getenv("MILLRACE_LONG") == "" {
		t.Skip("takes minutes; set MILLRACE_LONG=1")
	}
	const events, tenants = 8_000_000, 1000
	dir := t.TempDir()
	published := child(t, "publish", dir, events, tenants)
	t.Logf("published %d in %v, peak %d MiB", published.Messages, published.Took, published.PeakRSS>>20)
	drained := child(t, "drain", dir, events, tenants)
	t.Logf("opened in %v, drained %d in %v, peak %d MiB", drained.Opened, drained.Messages, drained.Took, drained.PeakRSS>>20)
	if drained.Messages != events {
		t.Errorf("drained %d, want %d", drained.Messages, events)
	}
	if drained.Opened > 5*time.Second {
		t.Errorf("opening took %v, want 5s at most", drained.Opened)
	}
	for _, l := range []life{published, drained} {
		if l.PeakRSS > 512<<20 {
			t.Errorf("peak of %d MiB, want 512 at most", l.PeakRSS>>20)
		}
	}
}

// TestAWaitingEventCostsNoMemory opens a store with a backlog and asks what it
// costs: the index must hold tenants, not messages.
func TestAWaitingEventCostsNoMemory(t *testing.T) {
	const events, tenants = 100_000, 100
	dir := t.TempDir()
	published := child(t, "publish", dir, events, tenants)
	if published.Messages != events {
		t.Fatalf("published %d, want %d", published.Messages, events)
	}
	none := emptyStore(t)
	e, bytes := opened(t, dir)
	perMessage := float64(bytes-none) / events
	if perMessage > 20 {
		t.Errorf("a waiting message costs %.1f bytes of memory, want 20 at most", perMessage)
	}
	s, err := e.Stats(context.Background(), 0, benchQueue)
	if err != nil || s.Ready != events || s.Tenants != tenants {
		t.Errorf("got stats %+v, %v", s, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// opened opens a store, and says how many bytes of memory that takes.
func opened(t testing.TB, dir string) (*embedded.Engine, int64) {
	t.Helper()
	before := heap()
	e := openAt(t, dir)
	for e.Tidying() {
		time.Sleep(10 * time.Millisecond)
	}
	return e, heap() - before
}

// emptyStore is how many bytes of memory a store takes that has nothing, once
// another was open.
func emptyStore(t testing.TB) (bytes int64) {
	t.Helper()
	var e *embedded.Engine
	for range 2 {
		e, bytes = opened(t, t.TempDir())
		closed(t, e)
	}
	return bytes
}

func heap() int64 {
	for range 3 { // what only finalizers and pools let go outlives the first
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// child runs one part of a store's life in a process of its own.
func child(t *testing.T, part, dir string, events, tenants int) life {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildOfTheMemoryTests$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "MILLRACE_CHILD="+strings.Join([]string{part, dir, strconv.Itoa(events), strconv.Itoa(tenants)}, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", part, err, out)
	}
	for line := range strings.Lines(string(out)) {
		var l life
		if json.Unmarshal([]byte(line), &l) == nil {
			return l
		}
	}
	t.Fatalf("%s said nothing: %s", part, out)
	return life{}
}

// TestChildOfTheMemoryTests is the body of the child processes.
func TestChildOfTheMemoryTests(t *testing.T) {
	args := strings.Split(os.Getenv("MILLRACE_CHILD"), "\n")
	if len(args) != 4 {
		t.Skip("only runs as a child of another test")
	}
	events, _ := strconv.Atoi(args[2])
	tenants, _ := strconv.Atoi(args[3])
	begin := time.Now()
	e, err := embedded.Open(context.Background(), args[1], millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := life{Opened: time.Since(begin)}
	begin = time.Now()
	if args[0] == "publish" {
		define(t, e, benchQueue)
		l.Messages = publishAll(t, e, events, tenants)
	} else {
		l.Messages = drainAll(t, e)
	}
	l.Took = time.Since(begin)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	l.PeakRSS = peakRSS(t)
	if err := json.NewEncoder(os.Stdout).Encode(l); err != nil {
		t.Fatal(err)
	}
}

func publishAll(t *testing.T, e *embedded.Engine, events, tenants int) int64 {
	var wg sync.WaitGroup
	var n atomic.Int64
	for w := range 4 {
		wg.Go(func() {
			for from := w * 1000; from < events; from += 4000 {
				if _, err := e.Publish(context.Background(), 0, benchCommit(1000, from, tenants)); err != nil {
					t.Error(err)
					return
				}
				n.Add(1000)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

func drainAll(t *testing.T, e *embedded.Engine) int64 {
	var wg sync.WaitGroup
	var n atomic.Int64
	var tokens atomic.Uint64
	for range 4 {
		wg.Go(func() {
			for {
				got := leaseAndAck(t, e, tokens.Add(1), 500)
				if got == 0 {
					return
				}
				n.Add(int64(got))
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// peakRSS is the most memory that the process ever had.
func peakRSS(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("the kernel does not say: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}
