package embedded_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/millrace-dev/millrace"
)

// BenchmarkOrderedLeaseAndAck drains 100,000 messages of 10,000 keys, in a
// queue that keeps their order and in one that does not.
func BenchmarkOrderedLeaseAndAck(b *testing.B) {
	for _, ordered := range []bool{false, true} {
		b.Run(fmt.Sprintf("ordered=%t", ordered), func(b *testing.B) {
			e := benchStore(b)
			const queue, keys, n = "00000000000000ab", 10_000, 100_000
			defineAs(b, e, millrace.QueueSettings{UID: queue, Version: 2, Ordered: ordered})
			var tokens atomic.Uint64
			m := startMeter(b)
			for range b.N {
				b.StopTimer()
				before := cpuTime(b)
				for from := 0; from < n; from += 1000 {
					c := keyed(1000, from, keys)
					c.Version = 2
					for i := range c.Events {
						c.Events[i].Body = make([]byte, 256)
						c.Events[i].Queues = []string{queue}
					}
					if _, err := e.Publish(context.Background(), 0, c); err != nil {
						b.Fatal(err)
					}
				}
				m.before += cpuTime(b) - before
				b.StartTimer()
				drainFrom(b, e, queue, &tokens, n)
			}
			m.report(b, n*b.N)
		})
	}
}
