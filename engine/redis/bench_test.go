package redis_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

const benchQueue = "00000000000000aa"
const keyedQueue = "00000000000000bc"

var benchBody = make([]byte, 256)

// BenchmarkRawRedis is what the same server does without us: pipelined SETs of
// the same size. All other rates are to be read beside it.
func BenchmarkRawRedis(b *testing.B) {
	s := redistest.Single(b)
	for b.Loop() {
		out, err := exec.Command("redis-benchmark", "-p", strconv.Itoa(s.Port()), "-t", "set", "-d", "256", "-n", "400000", "-P", "64", "-r", "1000000", "-q").Output()
		if err != nil {
			b.Fatal(err)
		}
		line := string(out[strings.LastIndex(strings.TrimSpace(string(out)), "\r")+1:])
		var rate float64
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "SET: %f", &rate); err != nil {
			b.Fatalf("read %q: %v", line, err)
		}
		b.ReportMetric(rate, "msg/s")
	}
}

func BenchmarkPublishOneByOneFrom64(b *testing.B) {
	e, s := benchEngine(b)
	rated(b, s, 1, func(n int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					publish(b, e, int(i), 1, 1000)
				}
			})
		}
		wg.Wait()
	})
}

func BenchmarkPublishInHundreds(b *testing.B) {
	for _, tenants := range []int{1, 1000, 100000} {
		b.Run(strconv.Itoa(tenants)+"tenants", func(b *testing.B) {
			e, s := benchEngine(b)
			rated(b, s, 100, func(n int) { inFours(n, func(i int) { publish(b, e, 100*i, 100, tenants) }) })
		})
	}
}

func BenchmarkLeaseAndAckInHundreds(b *testing.B) {
	for _, tenants := range []int{1, 1000, 100000} {
		b.Run(strconv.Itoa(tenants)+"tenants", func(b *testing.B) {
			e, s := benchEngine(b)
			inFours(max(b.N, tenants/100), func(i int) { publish(b, e, 100*i, 100, tenants) })
			rated(b, s, 100, func(n int) { inFours(n, func(int) { leaseAndAck(b, e, 100) }) })
		})
	}
}

// Of 10,000 keys each, in a queue that keeps their order and in one that does not.
func BenchmarkLeaseAndAckOfKeys(b *testing.B) {
	for name, settings := range map[string]millrace.QueueSettings{"ordered": {Ordered: true}, "unordered": {}, "limited": {TenantLimit: 10_000}} {
		b.Run(name, func(b *testing.B) {
			e, s := benchEngine(b)
			settings.UID, settings.Version = keyedQueue, 1
			if _, err := e.Apply(b.Context(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{settings}}); err != nil {
				b.Fatal(err)
			}
			inFours(max(b.N, 100), func(i int) { publishTo(b, e, keyedQueue, 100*i, 100, 1, 10_000) })
			rated(b, s, 100, func(n int) { inFours(n, func(int) { leaseAndAckOf(b, e, keyedQueue, 100) }) })
		})
	}
}

// cpu is the time in seconds that a server has computed.
func cpu(s *redistest.Server) float64 {
	user, _ := strconv.ParseFloat(s.Info("used_cpu_user"), 64)
	sys, _ := strconv.ParseFloat(s.Info("used_cpu_sys"), 64)
	return user + sys
}

// rated times f and reports messages a second, and what each cost the server.
func rated(b *testing.B, s *redistest.Server, each int, f func(n int)) {
	b.Helper()
	before := cpu(s)
	b.ResetTimer()
	start := time.Now()
	f(b.N)
	b.ReportMetric(float64(b.N*each)/time.Since(start).Seconds(), "msg/s")
	b.ReportMetric(1e6*(cpu(s)-before)/float64(b.N*each), "redis-µs/msg")
}

// inFours calls f n times from four goroutines.
func inFours(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

func benchEngine(b *testing.B) (*redis.Engine, *redistest.Server) {
	b.Helper()
	s := redistest.Single(b)
	e, err := redis.Open(b.Context(), s.URL(), millrace.EngineOptions{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	if _, err := e.Apply(b.Context(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{{UID: benchQueue, Version: 1}}}); err != nil {
		b.Fatal(err)
	}
	return e, s
}

func publish(b *testing.B, e *redis.Engine, from, count, tenants int) {
	publishTo(b, e, benchQueue, from, count, tenants, 0)
}

func publishTo(b *testing.B, e *redis.Engine, queue string, from, count, tenants, keys int) {
	events := make([]millrace.CommitEvent, count)
	for i := range events {
		events[i] = millrace.CommitEvent{
			Tenant: "tenant-" + strconv.Itoa((from+i)%tenants), Topic: "orders", Body: benchBody, Queues: []string{queue},
		}
		if keys > 0 {
			events[i].Key = "key-" + strconv.Itoa((from+i)%keys)
		}
	}
	if _, err := e.Publish(context.Background(), 0, millrace.Commit{Version: 1, Events: events}); err != nil {
		b.Error(err)
	}
}

func leaseAndAck(b *testing.B, e *redis.Engine, count int) { leaseAndAckOf(b, e, benchQueue, count) }

func leaseAndAckOf(b *testing.B, e *redis.Engine, queue string, count int) {
	l := millrace.Lease{Queue: queue, Max: count, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute}
	_, _ = rand.Read(l.Token[:])
	got, err := e.Lease(context.Background(), 0, l)
	if err != nil || len(got.Messages) != count {
		b.Errorf("leased %d: %v", len(got.Messages), err)
		return
	}
	s := millrace.Settle{Queue: queue, Verb: millrace.Ack}
	for _, m := range got.Messages {
		s.Items = append(s.Items, millrace.SettleItem{Name: m.Name, Token: l.Token})
	}
	if done, err := e.Settle(context.Background(), 0, s); err != nil || len(done.Lost) > 0 {
		b.Errorf("lost %d: %v", len(done.Lost), err)
	}
}
