package enginetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// benchKeys is how many keys wait when an ordered queue is measured.
const benchKeys = 10_000

// Bench measures an engine: publishing one by one from 64 goroutines and in
// hundreds, leasing in hundreds with ack, and both at once; with 1, 1,000 and
// 100,000 tenants waiting, and with 10,000 keys in order and not. Every benchmark
// counts messages of 256 bytes. cpu is how long whoever stores them has computed
// so far: on a busy machine it says more than the rate.
func Bench(b *testing.B, c Config, cpu func() time.Duration) {
	run := func(name string, with *bench, measure func(*bench)) {
		b.Run(name, func(b *testing.B) { measure(with.open(b, c, cpu)) })
	}
	for _, ids := range []bool{false, true} {
		run(fmt.Sprintf("PublishOneByOne/ids=%t", ids), &bench{tenants: 1000, ids: ids}, (*bench).publishOneByOne)
		run(fmt.Sprintf("PublishInHundreds/ids=%t", ids), &bench{tenants: 1000, ids: ids}, (*bench).publishInHundreds)
	}
	for _, tenants := range []int{1, 1000, 100_000} {
		run(fmt.Sprintf("LeaseAndAck/tenants=%d", tenants), &bench{tenants: tenants}, (*bench).leaseAndAck)
	}
	for _, queue := range []string{patientQueue, orderedQueue} {
		name := fmt.Sprintf("LeaseAndAckOfKeys/ordered=%t", queue == orderedQueue)
		run(name, &bench{tenants: 1, keys: benchKeys, queue: queue}, (*bench).leaseAndAck)
	}
	for _, tenants := range []int{1, 1000, 100_000} {
		run(fmt.Sprintf("EndToEnd/tenants=%d", tenants), &bench{tenants: tenants}, (*bench).endToEnd)
	}
}

// bench is an engine under measurement.
type bench struct {
	tenants int
	keys    int    // 0: the messages have none
	ids     bool   // the messages have ids of their own, which are remembered
	queue   string // patientQueue if empty

	*testing.B
	engine millrace.Engine
	lanes  int
	cpu    func() time.Duration
	next   atomic.Int64
	tokens atomic.Uint64
}

// open opens an engine to measure it as b says.
func (b *bench) open(t *testing.B, c Config, cpu func() time.Duration) *bench {
	e, err := c.New(t)(millrace.EngineOptions{Lanes: c.Lanes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := Prepare(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	n := &bench{tenants: b.tenants, keys: b.keys, ids: b.ids, queue: b.queue, B: t, engine: e, lanes: c.Lanes, cpu: cpu}
	if n.queue == "" {
		n.queue = patientQueue
	}
	return n
}

// commit publishes the next n events, of as many tenants in turn, to a lane.
func (b *bench) commit(lane, n int) error {
	first := int(b.next.Add(int64(n))) - n
	events := make([]millrace.CommitEvent, n)
	for i := range events {
		events[i] = b.event(first + i)
	}
	_, err := b.engine.Publish(context.Background(), lane, millrace.Commit{Version: loadVersion, Events: events})
	return err
}

// event is the no-th event. Half of its body does not compress.
func (b *bench) event(no int) millrace.CommitEvent {
	body := make([]byte, 256)
	for at := 0; at < 128; at += 8 {
		binary.LittleEndian.PutUint64(body[at:], rand.Uint64())
	}
	e := millrace.CommitEvent{Tenant: fmt.Sprint("tenant-", no%b.tenants), Topic: "orders", Body: body, Queues: []string{b.queue}}
	if b.keys > 0 {
		e.Key = fmt.Sprint("key-", no%b.keys)
	}
	if b.ids {
		e.Remembered, e.Digest = true, millrace.DigestOf(&millrace.Event{ID: fmt.Sprint(no)})
	}
	return e
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

// measured times f and reports messages a second, and the processor's time for one.
func (b *bench) measured(f func()) {
	before, start := b.cpu(), time.Now()
	b.ResetTimer()
	f()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "msgs/s")
	b.ReportMetric(float64((b.cpu()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/msg")
}

func (b *bench) publishOneByOne() {
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.measured(func() {
		b.RunParallel(func(pb *testing.PB) {
			for lane := 0; pb.Next(); lane++ {
				if err := b.commit(lane%b.lanes, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func (b *bench) publishInHundreds() { b.measured(func() { b.fill(b.N) }) }

// take leases and acks up to n messages of a lane and returns how many.
func (b *bench) take(lane, n int) (int, error) {
	h := held{}
	id := b.tokens.Add(1)
	for i := range 8 {
		h.token[i] = byte(id >> (8 * i))
	}
	var err error
	h.Leased, err = b.engine.Lease(context.Background(), lane, millrace.Lease{
		Queue: b.queue, Max: n, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: h.token,
	})
	if err != nil || len(h.Messages) == 0 {
		return 0, err
	}
	s, err := b.engine.Settle(context.Background(), lane, millrace.Settle{Queue: b.queue, Verb: millrace.Ack, Items: h.items()})
	if err == nil && len(s.Lost) > 0 {
		err = fmt.Errorf("ack: lost %d", len(s.Lost))
	}
	return len(h.Messages), err
}

// leaseAndAck drains a backlog in which all tenants and all keys wait.
func (b *bench) leaseAndAck() {
	b.fill(b.N + max(b.tenants, b.keys))
	b.measured(func() { b.drain(nil) })
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
	b.fill(b.tenants)
	b.measured(func() {
		var wg sync.WaitGroup
		wg.Go(func() { b.fill(b.N) })
		b.drain(runtime.Gosched)
		wg.Wait()
	})
}
