package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

const benchQueue = "00000000000000aa"

// benchStore is a store on disk with one queue.
func benchStore(b *testing.B) *embedded.Engine {
	b.Helper()
	e, err := embedded.Open(context.Background(), b.TempDir(), millrace.EngineOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	define(b, e, benchQueue)
	return e
}

func define(t testing.TB, e *embedded.Engine, uids ...string) {
	t.Helper()
	for lane := range e.Identity().Lanes {
		for _, uid := range uids {
			_, err := e.Apply(context.Background(), lane, millrace.Apply{
				Version: 1, Queues: []millrace.QueueSettings{{UID: uid, Version: 1}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// benchCommit is n events of 256 bytes over some tenants.
func benchCommit(n, from, tenants int) millrace.Commit {
	events := make([]millrace.CommitEvent, n)
	queues := []string{benchQueue}
	for i := range events {
		body := make([]byte, 256) // half of it does not compress
		for at := 0; at < 128; at += 8 {
			binary.LittleEndian.PutUint64(body[at:], rand.Uint64())
		}
		tenant := "tenant-" + strconv.Itoa((from+i)%tenants)
		events[i] = millrace.CommitEvent{Tenant: tenant, Topic: "orders", Body: body, Queues: queues}
	}
	return millrace.Commit{Version: 1, Events: events}
}

func benchDigest(i int) millrace.Digest {
	return millrace.DigestOf(&millrace.Event{ID: strconv.Itoa(i)})
}

func BenchmarkPublishOneByOneFrom64(b *testing.B) {
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprintf("ids=%t", ids), func(b *testing.B) {
			e := benchStore(b)
			var n atomic.Int64
			b.SetParallelism(32)
			m := startMeter(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					c := benchCommit(1, int(i), 100)
					if ids {
						c.Events[0].Remembered = true
						c.Events[0].Digest = benchDigest(int(i))
					}
					if _, err := e.Publish(context.Background(), 0, c); err != nil {
						b.Error(err)
						return
					}
				}
			})
			m.report(b, b.N)
		})
	}
}

func BenchmarkPublishInHundreds(b *testing.B) {
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprintf("ids=%t", ids), func(b *testing.B) {
			e := benchStore(b)
			var n atomic.Int64
			b.SetParallelism(4)
			m := startMeter(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					from := n.Add(100)
					c := benchCommit(100, int(from), 100)
					for i := range c.Events {
						if ids {
							c.Events[i].Remembered = true
							c.Events[i].Digest = benchDigest(int(from) + i)
						}
					}
					if _, err := e.Publish(context.Background(), 0, c); err != nil {
						b.Error(err)
						return
					}
				}
			})
			m.report(b, 100*b.N)
		})
	}
}

// BenchmarkLeaseAndAckInHundreds drains a backlog that fits into the cache of
// bodies, 100,000 messages an operation.
func BenchmarkLeaseAndAckInHundreds(b *testing.B) {
	for _, tenants := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			e := benchStore(b)
			var tokens atomic.Uint64
			m := startMeter(b)
			for range b.N {
				b.StopTimer()
				before := cpuTime(b)
				fill(b, e, 100_000, tenants)
				m.before += cpuTime(b) - before
				b.StartTimer()
				drain(b, e, &tokens, 100_000)
			}
			m.report(b, 100_000*b.N)
		})
	}
}

// drain leases and acks n messages, from eight goroutines.
func drain(b *testing.B, e *embedded.Engine, tokens *atomic.Uint64, n int) {
	b.Helper()
	drainFrom(b, e, benchQueue, tokens, n)
}

func drainFrom(b *testing.B, e *embedded.Engine, queue string, tokens *atomic.Uint64, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 800 {
				if got := leaseAndAckFrom(b, e, queue, tokens.Add(1), 100); got != 100 {
					b.Errorf("leased %d", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func fill(b *testing.B, e *embedded.Engine, n, tenants int) {
	b.Helper()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for from := w * 1000; from < n; from += 4000 {
				if _, err := e.Publish(context.Background(), 0, benchCommit(1000, from, tenants)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func leaseAndAck(t testing.TB, e *embedded.Engine, token uint64, n int) int {
	return leaseAndAckFrom(t, e, benchQueue, token, n)
}

func leaseAndAckFrom(t testing.TB, e *embedded.Engine, queue string, token uint64, n int) int {
	var tok millrace.Token
	binary.BigEndian.PutUint64(tok[:], token)
	got, err := e.Lease(context.Background(), 0, millrace.Lease{
		Queue: queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: tok,
	})
	if err != nil {
		t.Error(err)
		return 0
	}
	items := make([]millrace.SettleItem, len(got.Messages))
	for i, m := range got.Messages {
		items[i] = millrace.SettleItem{Name: m.Name, Token: tok}
	}
	done, err := e.Settle(context.Background(), 0, millrace.Settle{Queue: queue, Verb: millrace.Ack, Items: items})
	if err != nil || len(done.Lost) > 0 {
		t.Error(err, len(done.Lost))
		return 0
	}
	return len(items)
}

// meter reports messages a second, and beside it the processor's time for one,
// which says more on a busy machine.
type meter struct{ before time.Duration }

func startMeter(b *testing.B) *meter {
	b.ResetTimer()
	return &meter{before: cpuTime(b)}
}

func (m *meter) report(b *testing.B, n int) {
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(cpuTime(b)-m.before)/float64(n), "cpu-ns/message")
}

func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
