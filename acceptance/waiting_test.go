package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

const (
	waitingLeases = 5000
	waitingQueues = 50

	mostThreads     = 64
	mostWaitBytes   = 100 << 20
	mostConnections = 8
	mostIdleRate    = 2.0 // Redis commands a second
	mostWakeTime    = 50 * time.Millisecond
)

func TestFiveThousandWaitingLeasesCostLittleAndOnePublishWakesOne(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { manyWait(t, "embedded:"+t.TempDir(), nil) })
	t.Run("redis", func(t *testing.T) {
		s := redistest.Single(t)
		manyWait(t, s.URL(), s)
	})
}

// manyWait lets many leases wait and looks at what they cost; server is nil on
// the embedded engine.
func manyWait(t *testing.T, store string, server *redistest.Server) {
	h := &house{store: store, options: broker.Options{Logger: slog.New(slog.DiscardHandler), Engine: millrace.EngineOptions{Reserve: -1}}}
	b := h.broker(t)
	h.Backbone = b
	for i := range waitingQueues {
		h.queue(t, fmt.Sprint("q", i), fmt.Sprintf(":topic%d:", i))
	}
	before := memory()
	crowd := gather(t, b)
	t.Logf("memory: %d MiB, threads: %d", (memory()-before)>>20, threads(t))
	if grown := memory() - before; grown > mostWaitBytes {
		t.Errorf("%d waiting leases cost %d MiB, want at most %d", waitingLeases, grown>>20, mostWaitBytes>>20)
	}
	if n := threads(t); n > mostThreads {
		t.Errorf("got %d threads, want at most %d", n, mostThreads)
	}
	if server != nil {
		checkServer(t, server)
	}
	crowd.checkWaking(t, b)
}

// memory is what the program holds in its heap and its stacks.
func memory() int64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func threads(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0 // nothing tells it there
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// crowd is the leases that wait.
type crowd struct {
	answers chan string // the event that a lease was answered with
	failed  atomic.Int64
}

// gather starts the leases, each on one of the queues, and returns when all wait.
func gather(t *testing.T, b *broker.Broker) *crowd {
	t.Helper()
	c := &crowd{answers: make(chan string, waitingLeases)}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	before := runtime.NumGoroutine()
	for i := range waitingLeases {
		wg.Go(func() {
			got, err := b.Queues().Lease(ctx, fmt.Sprint("q", i%waitingQueues), millrace.LeaseOptions{Wait: millrace.MaxWait})
			switch {
			case err != nil && ctx.Err() == nil:
				c.failed.Add(1)
			case len(got) == 1:
				c.answers <- got[0].Event.ID
			}
		})
	}
	for until := time.Now().Add(30 * time.Second); asleep() < waitingLeases; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("of %d leases only %d wait, among %d goroutines", waitingLeases, asleep(), runtime.NumGoroutine()-before)
		}
	}
	return c
}

// asleep is how many goroutines wait in a select of a lease.
func asleep() int {
	buf := make([]byte, 64<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "[select]:\ngithub.com/millrace-dev/millrace/broker.Queues.wait(")
}

// checkServer looks at what the waiting costs the Redis server.
func checkServer(t *testing.T, s *redistest.Server) {
	t.Helper()
	connections := strings.Count(s.Do("CLIENT", "LIST"), "laddr=") - 1 // our own
	if connections < 1 || connections > mostConnections {
		t.Errorf("got %d connections, want at most %d", connections, mostConnections)
	}
	rate := idleRate(s)
	if rate > mostIdleRate && !long() { // every 30 s all is looked at once; not twice in 20 s
		rate = min(rate, idleRate(s))
	}
	if rate > mostIdleRate {
		t.Errorf("got %.1f commands a second while all wait, want at most %.0f", rate, mostIdleRate)
	}
	t.Logf("connections: %d, commands a second: %.2f", connections, rate)
}

// idleRate is how many commands a second the server is sent while nothing
// happens: for ten seconds, in the long form until the slow scan has come around.
func idleRate(s *redistest.Server) float64 {
	span := 10 * time.Second
	if long() {
		span = 31 * time.Second
	}
	before, start := commands(s), time.Now()
	time.Sleep(span) // what is measured is that nothing happens for so long
	return float64(commands(s)-before) / time.Since(start).Seconds()
}

func long() bool { return os.Getenv("MILLRACE_LONG") == "1" }

// commands is how many commands the server was sent, but for our own question.
// It counts those too that scripts call; what a node sends while it is idle is scripts alone.
func commands(s *redistest.Server) (sent int) {
	for line := range strings.SplitSeq(s.Do("INFO", "commandstats"), "\r\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		family, _, _ := strings.Cut(name, "|")
		switch family {
		case "evalsha", "eval", "script", "ping", "hello", "client", "subscribe", "ssubscribe", "wait", "config", "cluster":
			number, _, _ := strings.Cut(rest, ",")
			if n, err := strconv.Atoi(number); ok && err == nil {
				sent += n
			}
		}
	}
	return sent
}

// checkWaking publishes one event at a time: it wakes one lease, soon.
func (c *crowd) checkWaking(t *testing.T, b *broker.Broker) {
	t.Helper()
	best := time.Hour
	for i := range 5 {
		start := time.Now()
		id := fmt.Sprint("wake-", i)
		publish(t, b, millrace.Event{ID: id, Topic: fmt.Sprint("topic", i), Type: "x"})
		select {
		case got := <-c.answers:
			if got != id {
				t.Errorf("got event %s, want %s", got, id)
			}
			best = min(best, time.Since(start))
		case <-time.After(10 * time.Second):
			t.Fatal("nobody was woken")
		}
	}
	if best > mostWakeTime {
		t.Errorf("a publish wakes a lease after %v, want at most %v", best, mostWakeTime)
	}
	t.Logf("a publish wakes a lease after %v", best)
	if n := asleep(); n != waitingLeases-5 || len(c.answers) > 0 || c.failed.Load() > 0 {
		t.Errorf("%d leases wait on, %d were answered too, %d failed; want %d, 0, 0", n, len(c.answers), c.failed.Load(), waitingLeases-5)
	}
}
