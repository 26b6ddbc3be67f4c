package redis_test

import (
	"strconv"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func BenchmarkOneRedis(b *testing.B) {
	s := redistest.Single(b)
	n := 0
	enginetest.Bench(b, enginetest.Config{Lanes: 1, New: func(t testing.TB) enginetest.Place {
		n++
		s.Do("FLUSHALL")
		return func(o millrace.EngineOptions) (millrace.Engine, error) {
			o.Namespace, o.Logger = "bench-"+strconv.Itoa(n), quiet
			return redis.Open(t.Context(), s.URL(), o)
		}
	}})
}
