package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARatioMeetsItsGoalFromBelowAndACostFromAbove(t *testing.T) {
	r := report{Figures: []figure{
		{ID: "ours", Median: 300, Self: 2, Redis: 1},
		{ID: "theirs", Median: 100, Self: 6},
	}}
	r.judge([]comparison{
		{what: "rate", ours: "ours", theirs: "theirs", goal: 3},
		{what: "short rate", ours: "ours", theirs: "theirs", goal: 3.5},
		{what: "cost", ours: "theirs", theirs: "ours", goal: 3, cost: true},
		{what: "high cost", ours: "theirs", theirs: "ours", goal: 2, cost: true},
		{what: "without a goal", ours: "ours", theirs: "theirs"},
		{what: "not measured", ours: "ours", theirs: "nobody", goal: 1},
	})
	want := []string{"yes", "NO", "yes", "NO", ""}
	if len(r.Verdicts) != len(want) {
		t.Fatalf("got %d verdicts, want %d", len(r.Verdicts), len(want))
	}
	for i, v := range r.Verdicts {
		if got := metText(v.Met); got != want[i] {
			t.Errorf("%s: got met %q, want %q", v.What, got, want[i])
		}
		if v.Ratio != 3 || v.ByCPU != 2 {
			t.Errorf("%s: got ratios %g and %g, want 3 and 2", v.What, v.Ratio, v.ByCPU)
		}
	}
}

func TestAQuotaGivesOutExactlyWhatItHas(t *testing.T) {
	q := newQuota(250)
	for i, want := range []int{100, 100, 50, 0, 0} {
		if got := q.take(100); got != want {
			t.Errorf("take %d: got %d, want %d", i, got, want)
		}
	}
}

func TestEveryComparisonNamesWhatIsMeasured(t *testing.T) {
	ids := map[string]bool{}
	for _, e := range plan(options{}, nil, nil) {
		if ids[e.id] {
			t.Errorf("%s is measured twice", e.id)
		}
		ids[e.id] = true
	}
	for _, c := range comparisons() {
		if !ids[c.ours] || !ids[c.theirs] {
			t.Errorf("%s: %s or %s is not measured", c.what, c.ours, c.theirs)
		}
	}
}

func TestNoRoundBeginsThatWouldEndTooLate(t *testing.T) {
	o := options{within: time.Minute, idle: 6 * time.Second}
	for spent, want := range map[time.Duration]bool{20 * time.Second: true, 25 * time.Second: true, 26 * time.Second: false, time.Hour: false} {
		if got := o.timeForAnother(spent, 1); got != want {
			t.Errorf("after %v: got %v, want %v", spent, got, want)
		}
	}
}

func TestAPayloadHas256Bytes(t *testing.T) {
	if got := len(payload()); got != 256 {
		t.Errorf("got %d bytes, want 256", got)
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for v, want := range map[float64]string{1234567: "1,234,567", 999: "999", 1000: "1,000", 1.84: "1.8"} {
		if got := count(v); got != want {
			t.Errorf("count(%g): got %q, want %q", v, got, want)
		}
	}
}

func TestMarkdownHasOneRowForEachVerdict(t *testing.T) {
	r := report{Rounds: 1, Figures: []figure{{ID: "a", Who: "x", What: "y", Median: 1}}, Verdicts: []verdict{{What: "a / b", Ratio: 2}}}
	var b strings.Builder
	if err := r.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(b.String(), "\n| "); got != 5 {
		t.Errorf("got %d rows after the first, want 5:\n%s", got, b.String())
	}
}
