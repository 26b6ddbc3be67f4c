package httpapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/metrics"
)

// BenchmarkRequest is one publish through the handler, on a store in memory,
// counted by nobody and counted.
func BenchmarkRequest(b *testing.B) {
	for _, counted := range []bool{false, true} {
		name, o := "plain", Options{Logger: quiet()}
		if counted {
			name, o.Metrics = "counted", metrics.New(metrics.Options{Logger: quiet()})
		}
		b.Run(name, func(b *testing.B) {
			node, err := broker.Open(b.Context(), "memory:", broker.Options{Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = node.Close(context.Background()) }()
			h := Handler(node, o)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/v1/topics/orders/events", strings.NewReader(`{"type":"created","data":{"n":1}}`))
				r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1"
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
