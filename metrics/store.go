package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// Store is what the store's numbers are read from: a broker.
type Store interface {
	Observe(ctx context.Context) (broker.Observation, error)
}

const (
	freshFor    = time.Second     // within which a reading is not made again
	readTimeout = 5 * time.Second // of one reading; less than Prometheus waits by default
)

// store reads the store's numbers for whoever asks. Those who ask at the same
// time share one reading, and so do those who ask soon after.
type store struct {
	source Store
	log    *slog.Logger
	forget func(sink)

	messages, oldest, operations, events, disabled, dropped, bytes *prometheus.Desc

	reading singleflight.Group

	mu         sync.Mutex
	last       *holding // nil if the last reading failed
	lastAt     time.Time
	dropCounts map[sink]dropCount
	absent     map[sink]bool // those with numbers of this node; true: the last reading did not find it
}

// sink is a queue or a subscription.
type sink struct {
	kind millrace.Kind
	name string
}

// holding is what the store held when it was read. It never changes.
type holding struct {
	bytes  int64
	queues []queueHolding
	subs   []subscriptionHolding
}

type subscriptionHolding struct {
	broker.ObservedSubscription
	dropped int64 // never goes back
}

type queueHolding struct {
	broker.ObservedQueue
	dropped int64          // never goes back
	ended   millrace.Tally // neither does it
}

// dropCount is what a sink's counters have shown.
type dropCount struct {
	uid   string
	base  int64 // of earlier ones of that name
	shown int64 // of this one

	endedBase, ended millrace.Tally // likewise, of operations
}

func newStore(log *slog.Logger, forget func(sink)) *store {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_"+name, help+ofStore, labels, nil)
	}
	return &store{
		log: log, forget: forget, dropCounts: map[sink]dropCount{}, absent: map[sink]bool{},
		messages:   desc("queue_messages", "Messages that a queue holds, by state: ready, leased, delayed or dead.", "queue", "state"),
		oldest:     desc("queue_oldest_seconds", "Age of a queue's oldest unsettled message, from the start of the minute it was recorded in; 0 if there is none.", "queue"),
		operations: desc("operations_total", "Operations of a tracked queue that ended, by status: SUCCESS, ERROR or CANCELLED.", "queue", "status"),
		events:     desc("subscription_events", "Events that a subscription holds, by state: queued or dead.", "subscription", "state"),
		disabled:   desc("subscription_disabled", "1 for a subscription that was disabled because its receiver does nothing but fail, or is gone; else 0.", "subscription"),
		dropped:    desc("events_dropped_total", "Events that left a queue unsettled or a subscription unsent: by its limit, a removal, or the end of what was dead.", "kind", "name", "why"),
		bytes:      desc("store_bytes", "Size of the store, on disk or in memory."),
	}
}

// saw notes that a sink has numbers of this node.
func (s *store) saw(of sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.absent[of]; !known {
		s.absent[of] = false
	}
}

// Describe tells which numbers there are.
func (s *store) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.messages, s.oldest, s.operations, s.events, s.disabled, s.dropped, s.bytes} {
		to <- d
	}
}

// Collect tells the numbers, if the store can be read.
func (s *store) Collect(to chan<- prometheus.Metric) {
	h := s.read()
	if h == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(s.bytes, float64(h.bytes))
	now := time.Now()
	for _, q := range h.queues {
		gauge(s.messages, float64(q.Ready), q.Name, "ready")
		gauge(s.messages, float64(q.Leased), q.Name, "leased")
		gauge(s.messages, float64(q.Delayed), q.Name, "delayed")
		gauge(s.messages, float64(q.Dead), q.Name, "dead")
		gauge(s.oldest, q.age(now).Seconds(), q.Name)
		to <- prometheus.MustNewConstMetric(s.dropped, prometheus.CounterValue, float64(q.dropped), string(millrace.KindQueue), q.Name, "removed")
		s.tellOperations(to, &q)
	}
	for _, sub := range h.subs {
		gauge(s.events, float64(sub.Queued), sub.Name, "queued")
		gauge(s.events, float64(sub.Dead), sub.Name, "dead")
		disabled := 0.0
		if sub.Disabled {
			disabled = 1
		}
		gauge(s.disabled, disabled, sub.Name)
		to <- prometheus.MustNewConstMetric(s.dropped, prometheus.CounterValue, float64(sub.dropped), string(millrace.KindSubscription), sub.Name, "removed")
	}
}

// tellOperations tells what became of the operations of a tracked queue.
func (s *store) tellOperations(to chan<- prometheus.Metric, q *queueHolding) {
	if !q.Tracked {
		return
	}
	for status, n := range map[millrace.OperationStatus]int64{
		millrace.OperationSuccess: q.ended.Success, millrace.OperationError: q.ended.Error, millrace.OperationCancelled: q.ended.Cancelled,
	} {
		to <- prometheus.MustNewConstMetric(s.operations, prometheus.CounterValue, float64(n), q.Name, string(status))
	}
}

// age is how old the oldest message is.
func (q *queueHolding) age(now time.Time) time.Duration {
	if q.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(q.Oldest))
}

// read is what the store holds, as of a moment ago, or nil if that is not known.
func (s *store) read() *holding {
	if s.source == nil {
		return nil
	}
	s.mu.Lock()
	h, at := s.last, s.lastAt
	s.mu.Unlock()
	if time.Since(at) < freshFor {
		return h
	}
	shared, _, _ := s.reading.Do("", func() (any, error) { return s.readNow(), nil })
	return shared.(*holding)
}

func (s *store) readNow() *holding {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	o, err := s.source.Observe(ctx)
	if err != nil {
		if millrace.CodeOf(err) != millrace.CodeDraining {
			s.log.Warn("read the store's metrics", "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.lastAt = nil, time.Now()
		return nil
	}
	h, gone := s.take(o)
	for _, of := range gone {
		s.forget(of)
	}
	return h
}

// take makes an observation the last one, and returns the sinks that are gone.
func (s *store) take(o broker.Observation) (*holding, []sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &holding{bytes: o.Bytes}
	counts := make(map[sink]dropCount, len(o.Queues)+len(o.Subscriptions))
	count := func(of sink, uid string, dropped int64, ended millrace.Tally) (int64, millrace.Tally) {
		c := s.dropCounts[of].then(uid, dropped, ended)
		counts[of] = c
		return c.base + c.shown, c.endedBase.Plus(c.ended)
	}
	for _, q := range o.Queues {
		dropped, ended := count(sink{millrace.KindQueue, q.Name}, q.UID, q.Dropped, q.Operations)
		h.queues = append(h.queues, queueHolding{ObservedQueue: q, dropped: dropped, ended: ended})
	}
	for _, sub := range o.Subscriptions {
		dropped, _ := count(sink{millrace.KindSubscription, sub.Name}, sub.UID, sub.Dropped, millrace.Tally{})
		h.subs = append(h.subs, subscriptionHolding{ObservedSubscription: sub, dropped: dropped})
	}
	s.dropCounts, s.last, s.lastAt = counts, h, time.Now()
	return h, s.gone(counts)
}

// then is the count after another look. A store that lost its last changes may
// tell less than before, and a sink that was deleted and defined again begins
// anew: the counter does neither.
func (c dropCount) then(uid string, dropped int64, ended millrace.Tally) dropCount {
	if c.uid != uid {
		return dropCount{uid: uid, base: c.base + c.shown, shown: dropped, endedBase: c.endedBase.Plus(c.ended), ended: ended}
	}
	c.shown = max(c.shown, dropped)
	c.ended = millrace.Tally{Success: max(c.ended.Success, ended.Success), Error: max(c.ended.Error, ended.Error), Cancelled: max(c.ended.Cancelled, ended.Cancelled)}
	return c
}

// gone returns the sinks with numbers that two readings in a row have not found, and
// forgets them: one reading may be older than the sink. The lock is held.
func (s *store) gone(found map[sink]dropCount) (names []sink) {
	for name, missing := range s.absent {
		_, here := found[name]
		switch {
		case here:
			s.absent[name] = false
		case missing:
			delete(s.absent, name)
			names = append(names, name)
		default:
			s.absent[name] = true
		}
	}
	return names
}
