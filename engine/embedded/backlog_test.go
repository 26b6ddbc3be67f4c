package embedded_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// backlog is a store that was opened with a queue in which many wait.
type backlog struct {
	*embedded.Engine
	ordered bool
	from    int
	token   uint64
}

// backlogTenants and backlogKeys are how many tenants, or keys of one, a backlog has.
const backlogTenants, backlogKeys = 100, 1000

func newBacklog(t testing.TB, waiting int, ordered bool) *backlog {
	t.Helper()
	dir := t.TempDir()
	b := &backlog{Engine: openAt(t, dir), ordered: ordered}
	defineAs(t, b.Engine, millrace.QueueSettings{UID: benchQueue, Version: 1, Ordered: ordered})
	for b.from < waiting {
		b.publish(t, 1000)
	}
	closed(t, b.Engine)
	b.Engine = openAt(t, dir) // no body is in memory
	t.Cleanup(func() { closed(t, b.Engine) })
	return b
}

func (b *backlog) publish(t testing.TB, n int) {
	t.Helper()
	c := benchCommit(n, b.from, backlogTenants)
	if b.ordered {
		for i := range c.Events {
			c.Events[i].Tenant = "tenant"
			c.Events[i].Key = fmt.Sprint("key-", (b.from+i)%backlogKeys)
		}
	}
	b.from += n
	if _, err := b.Publish(context.Background(), 0, c); err != nil {
		t.Fatal(err)
	}
}

// turn leases and acks a hundred.
func (b *backlog) turn(t testing.TB) {
	t.Helper()
	b.token++
	if got := leaseAndAck(t, b.Engine, b.token, 100); got != 100 {
		t.Fatalf("leased %d, want 100", got)
	}
}

// The bound is loose: the processor's time has the engine's background work in it.
func TestALeaseCostsTheSameHoweverManyWait(t *testing.T) {
	const turns, times = 25, 3
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("Ordered=%t", ordered), func(t *testing.T) {
			few, many := newBacklog(t, 10_000, ordered), newBacklog(t, 100_000, ordered)
			best := map[*backlog]time.Duration{few: time.Hour, many: time.Hour}
			for range 4 {
				for _, b := range []*backlog{few, many} {
					before := cpuTime(t)
					for range turns {
						b.turn(t)
					}
					best[b] = min(best[b], cpuTime(t)-before)
				}
			}
			t.Logf("%v for %d messages of 10,000, %v of 100,000", best[few], turns*100, best[many])
			if best[many] > times*best[few] {
				t.Errorf("leasing takes %v with 100,000 waiting and %v with 10,000", best[many], best[few])
			}
		})
	}
}

// cpuTime is how long this process has computed.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
