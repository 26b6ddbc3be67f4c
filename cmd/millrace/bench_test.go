package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/millracetest"
)

// phases runs bench and returns what it says of each phase.
func phases(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	code, out, errs := command(t, append([]string{"bench", "--json", "--events", "300", "--tenants", "7"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d, %q", code, errs)
	}
	var answer struct {
		Phases []map[string]any `json:"phases"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for _, p := range answer.Phases {
		all[p["what"].(string)] = p
	}
	return all
}

func TestBenchMeasuresAServerAndAStore(t *testing.T) {
	b := millracetest.New(t)
	for name, args := range map[string][]string{
		"server": {"--server", millracetest.Serve(t, b), "--batch", "7"},
		"store":  {"--store", "memory:"},
	} {
		t.Run(name, func(t *testing.T) {
			all := phases(t, args...)
			for _, what := range []string{"publish", "lease", "ack", "publish to lease"} {
				p := all[what]
				if p["events"] != 300.0 || p["calls"].(float64) < 1 || p["events_per_second"].(float64) <= 0 || p["p99_ms"].(float64) < p["p50_ms"].(float64) {
					t.Errorf("%s: %v", what, p)
				}
			}
			if n := all["publish to lease"]["calls"]; n != 300.0 {
				t.Errorf("measured the wait of %v messages, want 300", n)
			}
		})
	}
	if queues, _, err := b.Queues().List(t.Context(), millrace.Page{}); err != nil || len(queues) != 0 {
		t.Errorf("bench left %v, %v", queues, err)
	}
}

func TestBenchRefusesNumbersThatMakeNoSense(t *testing.T) {
	for _, flag := range []string{"--events=0", "--batch=1001", "--tenants=-1", "--size=99999999"} {
		if code, _, errs := command(t, "bench", flag); code != exitUsage || !strings.Contains(errs, "must be 1 to") {
			t.Errorf("%s: exit %d, %q", flag, code, errs)
		}
	}
}
