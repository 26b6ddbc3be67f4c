package httpapi

import (
	"net/http"
	"time"

	"github.com/millrace-dev/millrace"
)

// Metrics is what counts requests and tells the numbers to Prometheus: the
// metrics of package metrics, or a program's own.
type Metrics interface {
	// Request counts an answered request. The route is a method and a pattern of
	// paths, or unknownRoute for all that have none.
	Request(route string, status int, took time.Duration)

	// Expose writes all numbers as Prometheus reads them.
	Expose() (contentType string, text []byte, err error)
}

// unknownRoute is how all requests are counted and logged that no route takes.
const unknownRoute = "unknown"

// metricsRoutes are for those who watch.
func metricsRoutes() []route {
	return []route{
		{method: "GET", path: "/metrics", scope: scopeManage, ofNode: true, noun: "store", does: "Tell the metrics to Prometheus", anyQuery: true, handle: (*server).exposeMetrics},
	}
}

// exposeMetrics tells the metrics to Prometheus.
func (s *server) exposeMetrics(*call) (answer, error) {
	if s.metrics == nil {
		return answer{}, millrace.ErrNotFound
	}
	kind, text, err := s.metrics.Expose()
	return answer{status: http.StatusOK, body: text, kind: kind}, err
}
