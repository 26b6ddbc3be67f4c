package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/metrics/otlp"
)

// otlpVariable names the collector if no flag does.
const otlpVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

const (
	otlpEvery = 10 * time.Second // between readings pushed to a collector
	otlpClose = 5 * time.Second  // for the last spans to arrive
)

// observeSettings say who watches a node from outside.
type observeSettings struct {
	metricsLog   time.Duration
	otlpEndpoint string
}

// faults is what is wrong with the settings.
func (o *observeSettings) faults() (faults []error) {
	if o.metricsLog != 0 && o.metricsLog < time.Second {
		faults = append(faults, errors.New("--metrics-log must be at least 1s, or 0s for never"))
	}
	if endpoint, from := o.endpoint(); endpoint != "" && !isEndpoint(endpoint) {
		faults = append(faults, fmt.Errorf("%s must be a URL such as http://127.0.0.1:4318, without user and query; a collector's token goes into OTEL_EXPORTER_OTLP_HEADERS", from))
	}
	return faults
}

// endpoint is where the collector is, and where that is said; empty for none.
func (o *observeSettings) endpoint() (endpoint, from string) {
	if o.otlpEndpoint != "" {
		return o.otlpEndpoint, "--otlp-endpoint"
	}
	return os.Getenv(otlpVariable), otlpVariable
}

func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == ""
}

// watch is a node as it is seen from outside. Stop ends all that it started.
type watch struct {
	log        *slog.Logger
	metrics    *metrics.Metrics
	metricsLog time.Duration
	collector  *otlp.Sink               // nil if there is none
	tracer     *sdktrace.TracerProvider // nil if there is none

	pushing sync.WaitGroup
	halt    context.CancelFunc
}

// start makes ready what watches; it does not connect.
func (o *observeSettings) start(ctx context.Context, log *slog.Logger) (*watch, error) {
	w := &watch{log: log, metrics: metrics.New(metrics.Options{Version: version, Logger: log}), metricsLog: o.metricsLog, halt: func() {}}
	if endpoint, _ := o.endpoint(); endpoint == "" {
		return w, nil
	}
	if p := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		log.Warn("the collector is spoken to in http/protobuf, whatever OTEL_EXPORTER_OTLP_PROTOCOL says")
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("push to the collector", "error", err) }))
	r, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "millrace"), attribute.String("service.version", version),
		attribute.String("service.instance.id", ulid.Make().String()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this node to the collector: %w", err)
	}
	if w.collector, err = otlp.New(ctx, o.otlpEndpoint, r); err != nil {
		return nil, err
	}
	if w.tracer, err = newTracer(ctx, o.otlpEndpoint, r); err != nil {
		return nil, errors.Join(err, w.collector.Close(ctx))
	}
	return w, nil
}

// newTracer pushes spans to a collector. Which ones, OTEL_TRACES_SAMPLER says.
func newTracer(ctx context.Context, endpoint string, r *resource.Resource) (*sdktrace.TracerProvider, error) {
	var options []otlptracehttp.Option
	if endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of spans: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(r)), nil
}

// broker adds to a broker's options who watches it.
func (w *watch) broker(o broker.Options) broker.Options {
	o.Observer = w.metrics
	if w.tracer != nil {
		o.TracerProvider = w.tracer
	}
	return o
}

// api adds to a handler's options who watches it.
func (w *watch) api(o httpapi.Options) httpapi.Options {
	o.Metrics = w.metrics
	if w.tracer != nil {
		o.TracerProvider = w.tracer
	}
	return o
}

// run begins to watch a broker and to push what is seen.
func (w *watch) run(b *broker.Broker) {
	w.metrics.Watch(b)
	ctx, halt := context.WithCancel(context.Background())
	w.halt = halt
	if w.metricsLog > 0 {
		line := metrics.NewLog(w.log, w.metrics)
		w.pushing.Go(func() { w.metrics.Push(ctx, w.metricsLog, line) })
	}
	if w.collector != nil {
		w.pushing.Go(func() { w.metrics.Push(ctx, otlpEvery, w.collector) })
	}
}

// stop pushes a last time and waits for it. A collector that is not there is no
// reason to fail.
func (w *watch) stop() {
	w.halt()
	w.pushing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), otlpClose)
	defer cancel()
	var err error
	if w.tracer != nil {
		err = w.tracer.Shutdown(ctx)
	}
	if w.collector != nil {
		err = errors.Join(err, w.collector.Close(ctx))
	}
	if err != nil {
		w.log.Warn("the collector has not got everything", "error", err)
	}
}
