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
	IDs    string  `json:"ids"` // of what it compares, as -only takes them
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
	Machine  machine   `json:"machine"`
	Rounds   int       `json:"rounds"` // beside the peers
	Figures  []figure  `json:"figures"`
	Verdicts []verdict `json:"verdicts"`
	Idle     string    `json:"idle_commands,omitempty"`
	Findings []finding `json:"promises"`
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

// quantile is the value below which a part of the values lies.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
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
	v := verdict{IDs: c.ours + "," + c.theirs, What: c.what, Ours: our.Median, Theirs: their.Median}
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
		IDs: idleID, What: "redis: commands per second of an idle node / asynq's", Ours: i.Ours, Theirs: i.Theirs,
		Ratio: i.Ours / i.Theirs, Goal: fmt.Sprintf("≤ %d/s", idleGoal), Met: &met,
	})
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// tables are what a run found, each with its head; empty ones are left out.
func (r *report) tables() [][][]string {
	var all [][][]string
	for _, t := range [][][]string{r.promised(), r.compared(), r.measured()} {
		if len(t) > 1 {
			all = append(all, t)
		}
	}
	return all
}

func (r *report) measured() [][]string {
	rows := [][]string{{"who", "what", "per second", "range", "CPU µs each", "Redis µs each", "-only"}}
	for _, f := range r.Figures {
		redis := ""
		if f.Redis > 0 {
			redis = fmt.Sprintf("%.1f", f.Redis)
		}
		rows = append(rows, []string{f.Who, f.What, count(f.Median), count(f.Least) + "–" + count(f.Most), fmt.Sprintf("%.1f", f.Self), redis, f.ID})
	}
	return rows
}

func (r *report) compared() [][]string {
	rows := [][]string{{"comparison", "ours", "theirs", "ratio", "by CPU", "goal", "met", "-only"}}
	for _, v := range r.Verdicts {
		rows = append(rows, []string{v.What, count(v.Ours), count(v.Theirs), times(v.Ratio), times(v.ByCPU), v.Goal, metText(v.Met), v.IDs})
	}
	return rows
}

func (r *report) promised() [][]string {
	rows := [][]string{{"promise", "value", "against", "ratio", "goal", "met", "-only"}}
	for _, f := range r.Findings {
		against := ""
		if f.Against > 0 {
			against = amount(f.Against, f.Unit)
		}
		rows = append(rows, []string{f.What, amount(f.Value, f.Unit), against, times(f.Ratio), f.Goal, metText(f.Met), f.ID})
	}
	return rows
}

// amount writes a figure with its unit.
func amount(v float64, unit string) string {
	digits := 1
	if unit == "" || v >= 1000 {
		digits = 0
	} else if v < 10 {
		digits = 2
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, unit))
}

func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", ratio)
}

func metText(met *bool) string {
	switch {
	case met == nil:
		return ""
	case *met:
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

// notes are the lines below the tables.
func (r *report) notes() []string {
	var lines []string
	if r.Rounds > 0 {
		lines = append(lines, fmt.Sprintf("Beside the peers: medians of %d rounds.", r.Rounds))
	}
	if len(r.Findings) > 0 {
		lines = append(lines, "Promises: medians of the sides, and the median of the rounds' ratios.")
	}
	if r.Idle != "" {
		lines = append(lines, "Commands of the idle node: "+r.Idle+".")
	}
	return append(lines, r.Machine.lines()...)
}

func (r *report) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, table := range r.tables() {
		for _, row := range table {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, strings.Join(r.notes(), "\n"))
	return t.Flush()
}

func (r *report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, table := range r.tables() {
		for i, row := range table {
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
			if i == 0 {
				b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(strings.Join(r.notes(), "\n") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}
