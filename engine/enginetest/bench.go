package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// Bench measures an engine: publishing one by one from 64 goroutines and in
// hundreds, leasing in hundreds with ack, and both at once; with 1, 1,000 and
// 100,000 tenants waiting. Every benchmark counts messages of 256 bytes.
func Bench(b *testing.B, c Config) {
	b.Run("PublishOneByOne", func(b *testing.B) { newBench(b, c, 1000).publishOneByOne() })
	b.Run("PublishInHundreds", func(b *testing.B) { newBench(b, c, 1000).publishInHundreds() })
	for _, tenants := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("LeaseAndAck/tenants=%d", tenants), func(b *testing.B) { newBench(b, c, tenants).leaseAndAck() })
	}
	for _, tenants := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("EndToEnd/tenants=%d", tenants), func(b *testing.B) { newBench(b, c, tenants).endToEnd() })
	}
}

// bench is an engine under measurement.
type bench struct {
	*testing.B
	engine  millrace.Engine
	lanes   int
	tenants []string
	body    []byte
	next    atomic.Int64
	tokens  atomic.Uint64
}

func newBench(b *testing.B, c Config, tenants int) *bench {
	e, err := c.New(b)(millrace.EngineOptions{Lanes: c.Lanes})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	if err := Prepare(context.Background(), e); err != nil {
		b.Fatal(err)
	}
	n := &bench{B: b, engine: e, lanes: c.Lanes, body: make([]byte, 256)}
	for i := range tenants {
		n.tenants = append(n.tenants, fmt.Sprint("tenant-", i))
	}
	return n
}

// commit publishes the next n events, of as many tenants in turn, to a lane.
func (b *bench) commit(lane, n int) error {
	last := b.next.Add(int64(n))
	events := make([]millrace.CommitEvent, n)
	for i := range events {
		tenant := b.tenants[(last-int64(i))%int64(len(b.tenants))]
		events[i] = millrace.CommitEvent{Tenant: tenant, Topic: "orders", Body: b.body, Queues: []string{patientQueue}}
	}
	_, err := b.engine.Publish(context.Background(), lane, millrace.Commit{Version: loadVersion, Events: events})
	return err
}

// fill publishes n messages, spread over the lanes.
func (b *bench) fill(n int) {
	b.spread(n, 8, func(lane, count int) error { return b.commit(lane, count) })
}

// spread does n messages of work in hundreds, from some goroutines, over the lanes.
func (b *bench) spread(n, goroutines int, work func(lane, count int) error) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for lane := g; ; lane++ {
				count := int(min(100, left.Add(-100)+100))
				if count <= 0 {
					return
				}
				if err := work(lane%b.lanes, count); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// rate reports messages a second.
func (b *bench) rate(since time.Time) {
	b.ReportMetric(float64(b.N)/time.Since(since).Seconds(), "msgs/s")
}

func (b *bench) publishOneByOne() {
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	start := time.Now()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for lane := 0; pb.Next(); lane++ {
			if err := b.commit(lane%b.lanes, 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.rate(start)
}

func (b *bench) publishInHundreds() {
	start := time.Now()
	b.ResetTimer()
	b.fill(b.N)
	b.rate(start)
}

// take leases and acks up to n messages of a lane and returns how many.
func (b *bench) take(lane, n int) (int, error) {
	h := held{}
	id := b.tokens.Add(1)
	for i := range 8 {
		h.token[i] = byte(id >> (8 * i))
	}
	var err error
	h.Leased, err = b.engine.Lease(context.Background(), lane, millrace.Lease{
		Queue: patientQueue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: h.token,
	})
	if err != nil || len(h.Messages) == 0 {
		return 0, err
	}
	s, err := b.engine.Settle(context.Background(), lane, millrace.Settle{Queue: patientQueue, Verb: millrace.Ack, Items: h.items()})
	if err == nil && len(s.Lost) > 0 {
		err = fmt.Errorf("ack: lost %d", len(s.Lost))
	}
	return len(h.Messages), err
}

// leaseAndAck drains a backlog in which all tenants wait.
func (b *bench) leaseAndAck() {
	b.fill(b.N + len(b.tenants))
	start := time.Now()
	b.ResetTimer()
	b.drain(nil)
	b.rate(start)
}

// drain takes b.N messages with 8 consumers, each at home in a lane and helping out in the others.
func (b *bench) drain(idle func()) {
	var taken atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for lane := g; taken.Load() < int64(b.N); lane++ {
				n, err := b.take(lane%b.lanes, 100)
				if err != nil {
					b.Error(err)
					return
				}
				taken.Add(int64(n))
				if n == 0 && idle != nil {
					idle()
				}
			}
		})
	}
	wg.Wait()
}

// endToEnd publishes in hundreds and drains at once, over a backlog in which all tenants wait.
func (b *bench) endToEnd() {
	b.fill(len(b.tenants))
	start := time.Now()
	b.ResetTimer()
	var wg sync.WaitGroup
	wg.Go(func() { b.fill(b.N) })
	b.drain(runtime.Gosched)
	wg.Wait()
	b.rate(start)
}
