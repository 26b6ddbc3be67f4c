package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// idleGoal is the most Redis commands per second that an idle node may send.
const idleGoal = 2

// figure is what one entry came to over all rounds.
type figure struct {
	ID     string  `json:"id"`
	Who    string  `json:"who"`
	What   string  `json:"what"`
	Median float64 `json:"per_second"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Self   float64 `json:"cpu_us"`
	Redis  float64 `json:"redis_cpu_us,omitempty"`
}

// verdict is one row of the comparison.
type verdict struct {
	What   string  `json:"what"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	ByCPU  float64 `json:"ratio_by_cpu,omitempty"` // the same of messages per second of CPU: noise touches it less
	Goal   string  `json:"goal,omitempty"`
	Met    *bool   `json:"met,omitempty"` // none without a goal
}

// report is all that a run found.
type report struct {
	Rounds   int       `json:"rounds"`
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
	Idle     string    `json:"idle_commands,omitempty"`
}

func figureOf(e entry, samples []sample) figure {
	var rate, self, redis []float64
	for _, s := range samples {
		rate, self, redis = append(rate, s.Rate), append(self, s.Self), append(redis, s.Redis)
	}
	return figure{
		ID: e.id, Who: e.who, What: e.what,
		Median: median(rate), Least: slices.Min(rate), Most: slices.Max(rate),
		Self: median(self), Redis: median(redis),
	}
}

// cpu is what a message costs, here and on the Redis server.
func (f figure) cpu() float64 { return f.Self + f.Redis }

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// judge compares those figures that are there.
func (r *report) judge(list []comparison) {
	figures := map[string]figure{}
	for _, f := range r.Figures {
		figures[f.ID] = f
	}
	for _, c := range list {
		our, ok := figures[c.ours]
		their, ok2 := figures[c.theirs]
		if ok && ok2 {
			r.Verdicts = append(r.Verdicts, c.verdict(our, their))
		}
	}
}

func (c comparison) verdict(our, their figure) verdict {
	v := verdict{What: c.what, Ours: our.Median, Theirs: their.Median}
	v.Ratio, v.ByCPU = our.Median/their.Median, their.cpu()/our.cpu()
	if c.cost {
		v.Ratio, v.ByCPU = 1/v.Ratio, 1/v.ByCPU
	}
	if c.goal == 0 {
		return v
	}
	met := v.Ratio >= c.goal
	v.Goal = fmt.Sprintf("≥ %g×", c.goal)
	if c.cost {
		met = v.Ratio <= c.goal
		v.Goal = fmt.Sprintf("≤ %g×", c.goal)
	}
	v.Met = &met
	return v
}

func (r *report) judgeIdle(i idleRates) {
	met := i.Ours <= idleGoal
	r.Idle = i.Commands
	r.Verdicts = append(r.Verdicts, verdict{
		What: "redis: commands per second of an idle node / asynq's", Ours: i.Ours, Theirs: i.Theirs,
		Ratio: i.Ours / i.Theirs, Goal: fmt.Sprintf("≤ %d/s", idleGoal), Met: &met,
	})
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// rows are the two tables, each with its head.
func (r *report) rows() (figures, verdicts [][]string) {
	figures = [][]string{{"who", "what", "per second", "range", "CPU µs each", "Redis µs each"}}
	for _, f := range r.Figures {
		redis := ""
		if f.Redis > 0 {
			redis = fmt.Sprintf("%.1f", f.Redis)
		}
		figures = append(figures, []string{f.Who, f.What, count(f.Median), count(f.Least) + "–" + count(f.Most), fmt.Sprintf("%.1f", f.Self), redis})
	}
	verdicts = [][]string{{"comparison", "ours", "theirs", "ratio", "by CPU", "goal", "met"}}
	for _, v := range r.Verdicts {
		verdicts = append(verdicts, []string{v.What, count(v.Ours), count(v.Theirs), times(v.Ratio), times(v.ByCPU), v.Goal, v.met()})
	}
	return figures, verdicts
}

func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", ratio)
}

func (v verdict) met() string {
	switch {
	case v.Met == nil:
		return ""
	case *v.Met:
		return "yes"
	}
	return "NO"
}

// count writes a number with separators, and small ones with a decimal.
func count(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func (r *report) writeText(w io.Writer) error {
	figures, verdicts := r.rows()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, table := range [][][]string{figures, verdicts} {
		for _, row := range table {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "Medians of %d rounds. Commands of the idle node: %s\n", r.Rounds, r.Idle)
	return t.Flush()
}

func (r *report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	figures, verdicts := r.rows()
	for _, table := range [][][]string{verdicts, figures} {
		for i, row := range table {
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
			if i == 0 {
				b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Medians of %d rounds. Commands of the idle node: %s\n", r.Rounds, r.Idle)
	_, err := io.WriteString(w, b.String())
	return err
}
