package redis

import (
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestTheBoundOfAStoreIsTheServersMaxmemory(t *testing.T) {
	s := redistest.Single(t)
	e, err := Open(t.Context(), s.URL(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for setting, want := range map[string]int64{"0": 0, "64mb": 64 << 20} {
		s.Do("CONFIG", "SET", "maxmemory", setting)
		if got, err := e.Bound(t.Context()); got != want || err != nil {
			t.Errorf("maxmemory %s: got %d, %v", setting, got, err)
		}
	}
}
