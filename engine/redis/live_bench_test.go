package redis_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// liveQueue takes the events.
const liveQueue = "00000000000000ab"

// BenchmarkLive is what showing events costs the server, in µs of its processor an
// event of 256 bytes: not at all (off), for any client when nobody listens
// (nobody), to a node that watches (watched). They take turns on one server:
// compare them within one run only. heard is with a client that listens to all, at the end.
func BenchmarkLive(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint(size, "ACall"), func(b *testing.B) { benchLive(b, size) })
	}
}

func benchLive(b *testing.B, size int) {
	s := redistest.Single(b)
	off, on := false, true
	silent, loud, watched := liveEngine(b, s, "silent", &off), liveEngine(b, s, "loud", &on), liveEngine(b, s, "watched", &off)
	stop, err := watched.Live(b.Context(), func(millrace.LiveEvent) {})
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	spent := map[string]float64{}
	const events, last = 2000, 5
	turn := func(name string, e *redis.Engine) {
		before := cpuOf(b, s).Seconds()
		for i := range events / size {
			publishLive(b, e, i*size, size)
		}
		spent[name] += cpuOf(b, s).Seconds() - before
	}
	turns := 0
	for ; b.Loop(); turns++ {
		turn("off", silent)
		turn("nobody", loud)
		turn("watched", watched)
	}
	for name, seconds := range spent {
		b.ReportMetric(1e6*seconds/float64(events*turns), name+"-µs/event")
	}
	listen(b, s.Addr(), pattern("*"))
	for range last {
		turn("heard", loud)
	}
	b.ReportMetric(1e6*spent["heard"]/(events*last), "heard-µs/event")
}

func liveEngine(b *testing.B, s *redistest.Server, namespace string, publish *bool) *redis.Engine {
	b.Helper()
	e, err := redis.Open(b.Context(), s.URL(), millrace.EngineOptions{Namespace: namespace, RedisPublish: publish, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	if _, err := e.Apply(b.Context(), 0, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{{UID: liveQueue, Version: 1}}}); err != nil {
		b.Fatal(err)
	}
	return e
}

// publishLive publishes whole events, each of another tenant.
func publishLive(b *testing.B, e *redis.Engine, from, count int) {
	b.Helper()
	c := millrace.Commit{Version: 1}
	for i := from; i < from+count; i++ {
		ev := millrace.Event{ID: strconv.Itoa(i), Topic: "page", Type: "viewed", Tenant: "tenant-" + strconv.Itoa(i%1000), Data: []byte(strconv.Quote(string(make([]byte, 50))))}
		c.Events = append(c.Events, millrace.CommitEvent{
			Tenant: ev.Tenant, Topic: ev.Topic, Body: millrace.AppendEvent(nil, &ev), Queues: []string{liveQueue},
		})
	}
	if _, err := e.Publish(b.Context(), 0, c); err != nil {
		b.Fatal(err)
	}
}
