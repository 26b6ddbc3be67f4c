// Package metrics counts what a node does and reads what its store holds, and
// hands both to those who watch: Prometheus, an OpenTelemetry collector, a log.
//
// There are two sorts. A node's numbers count what this process did since it
// started: add them up over the nodes. The store's are the same on every node:
// take any one. The help text of each says which it is.
package metrics

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// Options are the settings of metrics. The zero value is usable.
type Options struct {
	Version string       // of the program, for build_info
	Logger  *slog.Logger // slog.Default() if nil
}

// Metrics is the numbers of one node. It observes a broker and the requests of a
// server, and may be used by many goroutines at once.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	store    *store

	published, duplicate, unrouted prometheus.Counter
	settled                        *prometheus.CounterVec
	requests                       *prometheus.HistogramVec
	deliveries                     *prometheus.CounterVec
	deliverySeconds                prometheus.Histogram
	latency                        *prometheus.HistogramVec
	totals                         struct{ published, leased, settled atomic.Int64 }
}

var _ broker.Observer = (*Metrics)(nil)

const (
	ofNode  = " Of this node since it started: sum over nodes."
	ofStore = " Of the store, the same on every node: do not sum over nodes."
)

// New returns metrics that have counted nothing yet.
func New(o Options) *Metrics {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		log:       o.Logger,
		published: counter("events_published_total", "Events stored, whether a sink wanted them or not."),
		duplicate: counter("events_duplicate_total", "Events that the store had already."),
		unrouted:  counter("events_unrouted_total", "Events stored that no sink wanted."),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_messages_settled_total",
			Help: "Receipts settled, by outcome: acked, retried, buried, dead (a retry when its attempts were spent) or lost." + ofNode,
		}, []string{"queue", "outcome"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "millrace_http_request_seconds",
			Help:    "Time to answer HTTP requests, the wait of a long poll included, by route and status." + ofNode,
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30},
		}, []string{"route", "status"}),
	}
	m.deliveries, m.deliverySeconds, m.latency = deliveryMetrics()
	m.store = newStore(m.log, m.forget)
	m.registry.MustRegister(m.published, m.duplicate, m.unrouted, m.settled, m.requests, m.deliveries, m.deliverySeconds, m.latency, m.store, buildInfo(o.Version),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "millrace_" + name, Help: help + ofNode})
}

func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "millrace_build_info", Help: "1, with the version of the program.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	g.Set(1)
	return g
}

// Watch reads the store's numbers from a broker from now on. Call it once,
// before anything is read.
func (m *Metrics) Watch(s Store) { m.store.source = s }

// Published counts the events of a commit.
func (m *Metrics) Published(stored, unrouted, duplicates int) {
	m.totals.published.Add(int64(stored))
	m.published.Add(float64(stored))
	m.unrouted.Add(float64(unrouted))
	m.duplicate.Add(float64(duplicates))
}

// Leased counts messages given to a consumer.
func (m *Metrics) Leased(_ string, messages int) { m.totals.leased.Add(int64(messages)) }

// Settled counts the receipts of a settlement by what became of them.
func (m *Metrics) Settled(queue string, verb millrace.Verb, r millrace.SettleResult) {
	m.totals.settled.Add(int64(r.Settled))
	m.store.saw(sink{millrace.KindQueue, queue})
	m.outcome(queue, outcomeOf(verb), r.Settled-r.Dead)
	m.outcome(queue, "dead", r.Dead)
	m.outcome(queue, "lost", len(r.Lost))
}

func (m *Metrics) outcome(queue, outcome string, n int) {
	if n > 0 {
		m.settled.WithLabelValues(queue, outcome).Add(float64(n))
	}
}

func outcomeOf(v millrace.Verb) string {
	switch v {
	case millrace.Retry:
		return "retried"
	case millrace.Bury:
		return "buried"
	}
	return "acked"
}

// forget drops the numbers of a sink that is no more.
func (m *Metrics) forget(s sink) {
	if s.kind == millrace.KindSubscription {
		m.deliveries.DeletePartialMatch(prometheus.Labels{"subscription": s.name})
		return
	}
	m.settled.DeletePartialMatch(prometheus.Labels{"queue": s.name})
}

// Request counts a request by its route, which must be one of few, never a path.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Reading is all numbers at one moment.
type Reading struct {
	At       time.Time
	Families []*dto.MetricFamily // as Prometheus has them, by name

	Published, Leased, Settled int64 // by this node, since it started

	Store  bool          // the store could be read; else what follows is not known
	Ready  int64         // messages that wait, in all queues
	Oldest time.Duration // age of the oldest unsettled message of all queues, to the minute
}

// Read reads all numbers now. A store that cannot be read, which is logged, only
// leaves its own out.
func (m *Metrics) Read() Reading {
	r := Reading{
		At:        time.Now(),
		Published: m.totals.published.Load(), Leased: m.totals.leased.Load(), Settled: m.totals.settled.Load(),
	}
	families, err := m.registry.Gather()
	if err != nil { // what was gathered is right all the same
		m.log.Warn("gather metrics", "error", err)
	}
	r.Families = families
	if held := m.store.read(); held != nil {
		r.Store = true
		for _, q := range held.queues {
			r.Ready += q.Ready
			r.Oldest = max(r.Oldest, q.age(r.At))
		}
	}
	return r
}

// Expose writes all numbers as Prometheus reads them, in its text format.
func (m *Metrics) Expose() (contentType string, text []byte, err error) {
	var b bytes.Buffer
	err = Text{To: &b}.Take(context.Background(), m.Read())
	return string(textFormat()), b.Bytes(), err
}
