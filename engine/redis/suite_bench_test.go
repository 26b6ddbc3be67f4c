package redis_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

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
	}}, func() time.Duration { return cpuOf(b, s) })
}

// cpuOf is how long a server has computed.
func cpuOf(b *testing.B, s *redistest.Server) time.Duration {
	var sum time.Duration
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		d, err := time.ParseDuration(s.Info(field) + "s")
		if err != nil {
			b.Fatal(err)
		}
		sum += d
	}
	return sum
}

// BenchmarkRawRedis is what the same server does without us: pipelined SETs of
// the same size. All other rates are to be read beside it.
func BenchmarkRawRedis(b *testing.B) {
	s := redistest.Single(b)
	for b.Loop() {
		out, err := exec.Command("redis-benchmark", "-p", strconv.Itoa(s.Port()), "-t", "set", "-d", "256", "-n", "400000", "-P", "64", "-r", "1000000", "-q").Output()
		if err != nil {
			b.Fatal(err)
		}
		line := string(out[strings.LastIndex(strings.TrimSpace(string(out)), "\r")+1:])
		var rate float64
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "SET: %f", &rate); err != nil {
			b.Fatalf("read %q: %v", line, err)
		}
		b.ReportMetric(rate, "msg/s")
	}
}
