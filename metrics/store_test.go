package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/metrics"
)

// scripted is a store that answers what it is told to.
type scripted struct {
	asked  atomic.Int64
	wait   chan struct{} // if not nil, answers wait for it
	answer broker.Observation
	err    error
}

func (s *scripted) Observe(context.Context) (broker.Observation, error) {
	s.asked.Add(1)
	if s.wait != nil {
		<-s.wait
	}
	return s.answer, s.err
}

// holds is a store with one queue that has dropped so many.
func holds(uid string, dropped int64) broker.Observation {
	return broker.Observation{Queues: []broker.ObservedQueue{{
		Name: "emails", UID: uid, QueueStats: millrace.QueueStats{QueueCounts: millrace.QueueCounts{Ready: 7}, Dropped: dropped},
	}}}
}

func expose(t *testing.T, m *metrics.Metrics) scraped {
	t.Helper()
	_, text, err := m.Expose()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func TestThoseWhoScrapeAtOnceShareOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{Logger: quiet()})
		s := &scripted{wait: make(chan struct{}), answer: holds("a", 0)}
		m.Watch(s)
		var scrapes sync.WaitGroup
		for range 10 {
			scrapes.Go(func() { expose(t, m).want(7, "queue_messages", "queue", "emails", "state", "ready") })
		}
		synctest.Wait() // all are waiting for the store
		close(s.wait)
		scrapes.Wait()
		expose(t, m)
		time.Sleep(999 * time.Millisecond)
		expose(t, m)
		if n := s.asked.Load(); n != 1 {
			t.Errorf("the store was read %d times", n)
		}
		time.Sleep(time.Millisecond)
		expose(t, m)
		if n := s.asked.Load(); n != 2 {
			t.Errorf("after a second the store was read %d times", n)
		}
	})
}

func TestACounterNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{Logger: quiet()})
		s := &scripted{}
		m.Watch(s)
		for _, step := range []struct {
			why  string
			o    broker.Observation
			want float64
		}{
			{"the first", holds("a", 5), 5},
			{"more", holds("a", 8), 8},
			{"the store lost its tail", holds("a", 6), 8},
			{"more than ever", holds("a", 9), 9},
			{"defined anew", holds("b", 0), 9},
			{"the new one drops", holds("b", 2), 11},
		} {
			s.answer = step.o
			time.Sleep(time.Second)
			if got, _ := expose(t, m).find("events_dropped_total", "kind", "queue", "name", "emails", "why", "removed"); got != step.want {
				t.Errorf("%s: got %v, want %v", step.why, got, step.want)
			}
		}
	})
}

func TestAQueueThatAReadingIsTooOldForKeepsItsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{Logger: quiet()})
		s := &scripted{}
		m.Watch(s)
		m.Settled("emails", millrace.Ack, millrace.SettleResult{Settled: 3})
		expose(t, m) // the store has not heard of the queue
		s.answer = holds("a", 0)
		time.Sleep(time.Second)
		expose(t, m).want(3, "messages_settled_total", "queue", "emails", "outcome", "acked")
		s.answer = broker.Observation{}
		for range 3 {
			time.Sleep(time.Second)
			expose(t, m)
		}
		expose(t, m).wantNone("messages_settled_total", "queue", "emails", "outcome", "acked")
	})
}

func TestAStoreThatCannotBeReadLeavesOnlyItsOwnNumbersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines log
		m := metrics.New(metrics.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		s := &scripted{err: errors.New("no store")}
		m.Watch(s)
		m.Published(3, 1, 2)
		for range 2 {
			got := expose(t, m)
			got.want(3, "events_published_total")
			got.wantNone("store_bytes")
		}
		if n := strings.Count(lines.String(), "no store"); n != 1 || s.asked.Load() != 1 {
			t.Errorf("read %d times, logged %d times: %s", s.asked.Load(), n, &lines)
		}
		s.err = nil
		time.Sleep(time.Second)
		expose(t, m).want(0, "store_bytes")
	})
}
