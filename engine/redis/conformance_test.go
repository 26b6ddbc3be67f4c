package redis_test

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
	"go.uber.org/goleak"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneRedisWithOneLaneKeepsTheContract(t *testing.T) {
	s := redistest.Single(t)
	conform(t, s.URL(), 1, s)
}

func TestOneRedisWithFourLanesKeepsTheContract(t *testing.T) {
	s := redistest.Single(t)
	conform(t, s.URL(), 4, s)
}

func TestAClusterWithEightLanesKeepsTheContract(t *testing.T) {
	c := redistest.Cluster(t, 3)
	conform(t, c.URL(), 8, c.Servers...)
}

// conform runs the suite on servers that are emptied after each test.
func conform(t *testing.T, url string, lanes int, servers ...*redistest.Server) {
	var places atomic.Int64
	enginetest.Run(t, enginetest.Config{
		Lanes: lanes,
		New: func(t testing.TB) enginetest.Place {
			namespace := "place-" + strconv.FormatInt(places.Add(1), 10)
			t.Cleanup(func() {
				for _, s := range servers {
					s.Do("FLUSHALL", "ASYNC")
				}
			})
			return func(o millrace.EngineOptions) (millrace.Engine, error) {
				if o.Namespace == "" {
					o.Namespace = namespace
				}
				o.Logger = quiet
				return redis.Open(t.Context(), url, o)
			}
		},
	})
}
