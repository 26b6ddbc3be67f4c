package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// BenchmarkTracking compares a tracked queue with one that is not, in turns on one server: publish,
// lease and ack, in hundreds and one by one from 64 goroutines. Each message has 256 bytes, a
// payload of 200 and one of 1,000 subjects. x is how much longer the server computes.
func BenchmarkTracking(b *testing.B) {
	for _, size := range []int{100, 1} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { newTrackingBench(b, size).compare() })
	}
}

const plainQueue, trackedQueue = "00000000000000b0", "00000000000000b1"

type trackingBench struct {
	*testing.B
	server *redistest.Server
	engine millrace.Engine
	size   int
	mu     sync.Mutex
	random *rand.Rand
}

func newTrackingBench(b *testing.B, size int) *trackingBench {
	s := redistest.Single(b)
	e, err := redis.Open(b.Context(), s.URL(), millrace.EngineOptions{Lanes: 1, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	_, err = e.Apply(b.Context(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{
		{UID: plainQueue, Version: 1, MaxAttempts: 3},
		{UID: trackedQueue, Version: 1, MaxAttempts: 3, Tracked: true, Retention: 24 * time.Hour, ErrorRetention: 24 * time.Hour},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return &trackingBench{B: b, server: s, engine: e, size: size, random: rand.New(rand.NewPCG(1, 2))}
}

// compare runs b.N messages through each queue, a few at a time in turns.
func (b *trackingBench) compare() {
	const turn = 1600
	steps := []func(string){b.publish, b.leaseAndAck}
	var spent [2][2]time.Duration
	for done := 0; done < b.N; done += turn {
		for i, queue := range []string{plainQueue, trackedQueue} {
			for j, step := range steps {
				before := cpuOf(b.B, b.server)
				b.spread(turn, func() { step(queue) })
				spent[i][j] += cpuOf(b.B, b.server) - before
			}
		}
	}
	n := float64((b.N + turn - 1) / turn * turn)
	for j, name := range []string{"publish", "lease+ack"} {
		b.ReportMetric(spent[0][j].Seconds()*1e6/n, name+"-µs")
		b.ReportMetric(spent[1][j].Seconds()*1e6/n, name+"-tracked-µs")
		b.ReportMetric(spent[1][j].Seconds()/spent[0][j].Seconds(), name+"-x")
	}
	b.ReportMetric((spent[1][0]+spent[1][1]).Seconds()/(spent[0][0]+spent[0][1]).Seconds(), "x")
}

// spread calls f for n messages, from as many goroutines as make sense.
func (b *trackingBench) spread(n int, f func()) {
	goroutines := 64
	if b.size > 1 {
		goroutines = 4
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range n / goroutines / b.size {
				f()
			}
		})
	}
	wg.Wait()
}

func (b *trackingBench) bytes(n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(b.random.Uint32())
	}
	return data
}

func (b *trackingBench) publish(queue string) {
	c := millrace.Commit{Version: 1}
	for range b.size {
		body := b.bytes(256)
		ev := millrace.CommitEvent{Tenant: fmt.Sprint("tenant-", body[0]), Topic: "orders", Body: body, Queues: []string{queue}}
		if queue == trackedQueue {
			ev.Operations = []millrace.Opening{{
				Queue: queue, Name: "resync", Secret: millrace.OperationSecret(body), Type: "MANUAL",
				Subject: fmt.Sprint("link:", int(body[1])*4+int(body[2])%4), Event: fmt.Sprintf("%x", body[:13]), Payload: body[:200],
			}}
		}
		c.Events = append(c.Events, ev)
	}
	if _, err := b.engine.Publish(context.Background(), 0, c); err != nil {
		b.Error(err)
	}
}

func (b *trackingBench) leaseAndAck(queue string) {
	token := millrace.Token(b.bytes(16))
	got, err := b.engine.Lease(context.Background(), 0, millrace.Lease{Queue: queue, Max: b.size, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: token})
	if err != nil {
		b.Error(err)
		return
	}
	s := millrace.Settle{Queue: queue, Verb: millrace.Ack}
	for _, m := range got.Messages {
		s.Items = append(s.Items, millrace.SettleItem{Name: m.Name, Token: token})
	}
	if settled, err := b.engine.Settle(context.Background(), 0, s); err != nil || len(settled.Lost) > 0 || len(s.Items) != b.size {
		b.Errorf("%d leased, %d lost: %v", len(s.Items), len(settled.Lost), err)
	}
}
