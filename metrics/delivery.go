package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
)

// lastAttempt is the last attempt that has a label of its own; later ones share one.
const lastAttempt = 3

// deliveryMetrics are the numbers of what is sent to subscriptions.
func deliveryMetrics() (deliveries *prometheus.CounterVec, seconds prometheus.Histogram, latency *prometheus.HistogramVec) {
	deliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_deliveries_total",
		Help: "Attempts to send a batch, by outcome: sent, failed, dead (failed when its attempts were spent) or lost (it took too long)." + ofNode,
	}, []string{"subscription", "outcome"})
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "millrace_delivery_seconds",
		Help:    "Time that receivers took to answer a batch, or to fail." + ofNode,
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60},
	})
	latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "millrace_delivery_latency_seconds",
		Help:    "Time from an event's recording until a receiver had it, by the attempt that did it: 1, 2, 3 or more." + ofNode,
		Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 600, 3600, 86400},
	}, []string{"attempt"})
	return deliveries, seconds, latency
}

// Delivered counts an attempt to send a batch.
func (m *Metrics) Delivered(d broker.Delivered) {
	m.store.saw(sink{millrace.KindSubscription, d.Subscription})
	m.deliveries.WithLabelValues(d.Subscription, d.Outcome).Inc()
	m.deliverySeconds.Observe(d.Took.Seconds())
	attempt := "more"
	if d.Attempt <= lastAttempt {
		attempt = strconv.Itoa(d.Attempt)
	}
	for _, age := range d.Ages {
		m.latency.WithLabelValues(attempt).Observe(age.Seconds())
	}
}
