package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// gradesOf is what an engine finds, by name.
func gradesOf(t *testing.T, d millrace.Diagnoser) map[string]millrace.Grade {
	t.Helper()
	found, err := d.Diagnose(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	grades := map[string]millrace.Grade{}
	for _, f := range found {
		grades[f.Name] = f.Grade
		if f.Detail == "" || (f.Next == "") != (f.Grade == millrace.GradeOK) {
			t.Errorf("%+v does not say what is so and what to do", f)
		}
	}
	return grades
}

func TestADiagnosisTellsOfDurabilityDiskAndClock(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		want     millrace.Grade
	}{{0, millrace.GradeOK}, {time.Second, millrace.GradeWarn}} {
		e, err := embedded.Open(t.Context(), t.TempDir(), millrace.EngineOptions{SyncInterval: c.interval})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, e) })
		if got := gradesOf(t, e); got["durability"] != c.want || got["store"] != millrace.GradeOK || got["clock"] != millrace.GradeOK {
			t.Errorf("got %v", got)
		}
		for free, want := range map[uint64]millrace.Grade{499: millrace.GradeFail, 999: millrace.GradeWarn, 1000: millrace.GradeOK} {
			e.SetFreeSpace(500, func() (uint64, error) { return free, nil })
			if got := gradesOf(t, e)["disk"]; got != want {
				t.Errorf("%d free: got %s, want %s", free, got, want)
			}
		}
		e.SetFreeSpace(500, func() (uint64, error) { return 0, errors.New("no such disk") })
		if got := gradesOf(t, e)["disk"]; got != millrace.GradeWarn {
			t.Errorf("free space not known: got %s", got)
		}
	}
}

func TestADiagnosisTellsOfAClockThatWentBack(t *testing.T) {
	e, err := embedded.OpenMemory(t.Context(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	if got := gradesOf(t, e); got["durability"] != millrace.GradeWarn || got["disk"] != "" {
		t.Errorf("in memory: got %v", got)
	}
	for _, now := range []time.Time{time.Now(), time.Now().Add(-time.Hour)} {
		e.SetClock(func() time.Time { return now })
		if _, err := e.Step(t.Context(), 0, time.Time{}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := gradesOf(t, e)["clock"]; got != millrace.GradeWarn {
		t.Errorf("got %s", got)
	}
}

func TestAClosedStoreCannotBeDiagnosed(t *testing.T) {
	e, err := embedded.OpenMemory(t.Context(), millrace.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	if found, err := e.Diagnose(t.Context()); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %v, %v", found, err)
	}
}
