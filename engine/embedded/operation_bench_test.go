package embedded_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	benchTracked   = "00000000000000aa"
	benchUntracked = "00000000000000bb"
)

// BenchmarkTracking publishes, leases and acks messages of 256 bytes, in a queue that is tracked and in one
// that is not, in turns within one run, and reports by how much more the tracked one computes.
func BenchmarkTracking(b *testing.B) {
	for _, subject := range []bool{false, true} {
		b.Run(fmt.Sprintf("InHundreds/subject=%t", subject), func(b *testing.B) { benchTracking(b, 8, 100, subject) })
		b.Run(fmt.Sprintf("OneByOne/subject=%t", subject), func(b *testing.B) { benchTracking(b, 64, 1, subject) })
	}
}

// benchTracking runs rounds of about 20,000 messages, each of one queue then of the other.
func benchTracking(b *testing.B, goroutines, size int, subject bool) {
	e, err := onDisk(b)(millrace.EngineOptions{Lanes: 4})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	for lane := range 4 {
		_, err := e.Apply(context.Background(), lane, millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{
			{UID: benchTracked, Version: 1, Tracked: true, Retention: time.Hour, ErrorRetention: time.Hour}, {UID: benchUntracked, Version: 1},
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	spent := map[string]time.Duration{}
	took := map[string]time.Duration{}
	b.ResetTimer()
	const round = 20_000
	for done := 0; done < b.N; done += round {
		for _, queue := range []string{benchTracked, benchUntracked} {
			cpu, start := cpuTime(b), time.Now()
			trackingRound(b, e, queue, goroutines, size, min(round, b.N), subject)
			spent[queue] += cpuTime(b) - cpu
			took[queue] += time.Since(start)
		}
	}
	b.ReportMetric(float64(spent[benchTracked])/float64(spent[benchUntracked]), "cpu-ratio")
	b.ReportMetric(float64(took[benchTracked])/float64(took[benchUntracked]), "time-ratio")
	b.ReportMetric(float64(spent[benchTracked].Microseconds())/float64(b.N), "cpu-µs/tracked")
}

// trackingRound publishes n messages, a call of so many after the other from some goroutines, each followed by a lease and its acks.
func trackingRound(b *testing.B, e millrace.Engine, queue string, goroutines, size, n int, subject bool) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for left.Add(-int64(size)) >= 0 {
				if err := trackingTrip(e, g%4, queue, size, subject); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func trackingTrip(e millrace.Engine, lane int, queue string, size int, subject bool) error {
	ctx := context.Background()
	events := make([]millrace.CommitEvent, size)
	for i := range events {
		body := make([]byte, 256)
		if _, err := rand.Read(body[:128]); err != nil {
			return err
		}
		events[i] = millrace.CommitEvent{Tenant: "t", Topic: "orders", Body: body, Queues: []string{queue}}
		if queue == benchTracked {
			o := millrace.Opening{Queue: queue, Name: "jobs", Type: "job", Event: "01J0000000000000000000000", Payload: body[64:]}
			copy(o.Secret[:], body)
			if subject {
				o.Subject = fmt.Sprint("subject-", body[0], body[1])
			}
			events[i].Operations = []millrace.Opening{o}
		}
	}
	if _, err := e.Publish(ctx, lane, millrace.Commit{Version: 1, Events: events}); err != nil {
		return err
	}
	var token millrace.Token
	if _, err := rand.Read(token[:]); err != nil {
		return err
	}
	got, err := e.Lease(ctx, lane, millrace.Lease{Queue: queue, Max: size, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: token})
	if err != nil {
		return err
	}
	items := make([]millrace.SettleItem, len(got.Messages))
	for i, m := range got.Messages {
		items[i] = millrace.SettleItem{Name: m.Name, Token: token}
	}
	_, err = e.Settle(ctx, lane, millrace.Settle{Queue: queue, Verb: millrace.Ack, Items: items})
	return err
}
