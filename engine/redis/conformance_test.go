package redis_test

import (
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The client closes the connections of servers that left a Cluster 5 s later,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		// and sleeps for a second before it asks again who belongs to it.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func TestOneRedisWithOneLaneKeepsTheContract(t *testing.T) {
	s := redistest.Single(t)
	conform(t, s.URL(), enginetest.Config{Lanes: 1, Runs: 12}, s)
}

func TestOneRedisWithFourLanesKeepsTheContract(t *testing.T) {
	s := redistest.Single(t)
	conform(t, s.URL(), enginetest.Config{Lanes: 4, Runs: 8, Tenants: 5_000}, s)
}

func TestAClusterWithEightLanesKeepsTheContract(t *testing.T) {
	c := redistest.Cluster(t, 3)
	conform(t, c.URL(), enginetest.Config{Lanes: 8, Runs: 8, Tenants: 5_000}, c.Servers...)
}

// conform runs the suite on servers that are emptied after each test.
func conform(t *testing.T, url string, c enginetest.Config, servers ...*redistest.Server) {
	var places atomic.Int64
	c.New = func(t testing.TB) enginetest.Place {
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
	}
	enginetest.Run(t, c)
}
