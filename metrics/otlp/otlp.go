// Package otlp hands readings of metrics to an OpenTelemetry collector over
// HTTP, under the names that Prometheus sees.
package otlp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/millrace-dev/millrace/metrics"
)

// Sink pushes readings to a collector.
type Sink struct {
	exporter *otlpmetrichttp.Exporter
	resource *resource.Resource
	start    time.Time
}

var _ metrics.Sink = (*Sink)(nil)

// New returns a sink for the collector at a base URL such as
// http://127.0.0.1:4318, to which /v1/metrics is added; if it is empty, for the
// one that the variables OTEL_EXPORTER_OTLP_… name. It does not connect.
func New(ctx context.Context, endpoint string, r *resource.Resource) (*Sink, error) {
	var options []otlpmetrichttp.Option
	if endpoint != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/metrics"))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of metrics: %w", err)
	}
	return &Sink{exporter: exporter, resource: r, start: time.Now()}, nil
}

// Take pushes a reading; it tries again for as long as ctx lasts.
func (s *Sink) Take(ctx context.Context, r metrics.Reading) error {
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "github.com/millrace-dev/millrace"}}
	for _, f := range r.Families {
		scope.Metrics = append(scope.Metrics, metricdata.Metrics{
			Name: f.GetName(), Description: f.GetHelp(), Unit: unitOf(f.GetName()), Data: dataOf(f, s.start, r.At),
		})
	}
	err := s.exporter.Export(ctx, &metricdata.ResourceMetrics{Resource: s.resource, ScopeMetrics: []metricdata.ScopeMetrics{scope}})
	if err != nil {
		return fmt.Errorf("push metrics: %w", err)
	}
	return nil
}

// Close lets go of the exporter.
func (s *Sink) Close(ctx context.Context) error { return s.exporter.Shutdown(ctx) }

// unitOf is the unit that a name ends in.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	}
	return "1"
}
