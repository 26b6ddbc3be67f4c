package otlp

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// dataOf is a family as OpenTelemetry has it.
func dataOf(f *dto.MetricFamily, start, at time.Time) metricdata.Aggregation {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		return metricdata.Sum[float64]{
			DataPoints:  points(f, start, at, func(m *dto.Metric) float64 { return m.GetCounter().GetValue() }),
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
		}
	case dto.MetricType_HISTOGRAM:
		return histogramOf(f, start, at)
	case dto.MetricType_SUMMARY:
		return summaryOf(f, start, at)
	case dto.MetricType_GAUGE:
		return metricdata.Gauge[float64]{DataPoints: points(f, start, at, func(m *dto.Metric) float64 { return m.GetGauge().GetValue() })}
	}
	return metricdata.Gauge[float64]{DataPoints: points(f, start, at, func(m *dto.Metric) float64 { return m.GetUntyped().GetValue() })}
}

func points(f *dto.MetricFamily, start, at time.Time, value func(*dto.Metric) float64) []metricdata.DataPoint[float64] {
	out := make([]metricdata.DataPoint[float64], 0, len(f.GetMetric()))
	for _, m := range f.GetMetric() {
		out = append(out, metricdata.DataPoint[float64]{Attributes: labelsOf(m), StartTime: start, Time: at, Value: value(m)})
	}
	return out
}

func labelsOf(m *dto.Metric) attribute.Set {
	labels := make([]attribute.KeyValue, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels = append(labels, attribute.String(l.GetName(), l.GetValue()))
	}
	return attribute.NewSet(labels...)
}

func histogramOf(f *dto.MetricFamily, start, at time.Time) metricdata.Histogram[float64] {
	out := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: labelsOf(m), StartTime: start, Time: at, Count: h.GetSampleCount(), Sum: h.GetSampleSum(),
		}
		below := uint64(0) // Prometheus counts all below a bound, OpenTelemetry those of a bucket
		for _, b := range h.GetBucket() {
			if math.IsInf(b.GetUpperBound(), 1) {
				continue
			}
			p.Bounds = append(p.Bounds, b.GetUpperBound())
			p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
		p.BucketCounts = append(p.BucketCounts, h.GetSampleCount()-below)
		out.DataPoints = append(out.DataPoints, p)
	}
	return out
}

func summaryOf(f *dto.MetricFamily, start, at time.Time) metricdata.Summary {
	out := metricdata.Summary{}
	for _, m := range f.GetMetric() {
		s := m.GetSummary()
		p := metricdata.SummaryDataPoint{
			Attributes: labelsOf(m), StartTime: start, Time: at, Count: s.GetSampleCount(), Sum: s.GetSampleSum(),
		}
		for _, q := range s.GetQuantile() {
			p.QuantileValues = append(p.QuantileValues, metricdata.QuantileValue{Quantile: q.GetQuantile(), Value: q.GetValue()})
		}
		out.DataPoints = append(out.DataPoints, p)
	}
	return out
}
