package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// since is a flag that is a time, or a duration back from now.
type since struct{ to *time.Time }

func (s since) String() string { return timestamp(s).String() }
func (s since) Type() string   { return "time or duration" }

func (s since) Set(text string) error {
	t, ok := api.ParseSince(text, time.Now())
	if !ok {
		return errors.New("must be a time such as 2026-11-15T01:13:00Z, or a duration back from now such as 1h")
	}
	*s.to = t
	return nil
}

// bucket is a flag that is the length of a bucket.
type bucket struct{ to *millrace.CountBucket }

func (b bucket) String() string {
	if b.to == nil || *b.to == 0 {
		return api.FormatBucket(millrace.Minutes)
	}
	return api.FormatBucket(*b.to)
}

func (b bucket) Type() string { return "bucket" }

func (b bucket) Set(text string) error {
	v, ok := api.ParseBucket(text)
	if !ok {
		return errors.New("must be 1m, 1h or 1d")
	}
	*b.to = v
	return nil
}

func newOperationCounts(r *remote) *cobra.Command {
	var q millrace.OperationCountQuery
	cmd := &cobra.Command{
		Use:   "counts QUEUE",
		Short: "Count what happened to a queue's operations, as a chart",
		Long: "Count what happened to a queue's operations, by minute, hour or day. Each line of the chart is\n" +
			"a bucket in which anything happened: # for successes, ! for errors, - for those that were cancelled.",
		Example: "  millrace operation counts sync --since 1h\n  millrace operation counts sync --since 7d --bucket 1h",
		Args:    exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Queue = args[0]
			c, err := r.open()
			if err != nil {
				return err
			}
			counts, err := c.Operations().Counts(cmd.Context(), q)
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendOperationCounts(nil, &counts))
			}
			return printCounts(cmd.OutOrStdout(), &counts)
		},
	}
	f := cmd.Flags()
	f.Var(since{&q.Since}, "since", "from when on: a time, or a duration back from now; 60 buckets if left out")
	f.Var(timestamp{&q.Until}, "until", "until when; now if left out")
	f.Var(bucket{&q.Bucket}, "bucket", "1m, 1h or 1d")
	return cmd
}

// chartWidth is how long the longest line of a chart is.
const chartWidth = 40

func printCounts(w io.Writer, c *millrace.OperationCounts) error {
	rows := [][]string{{"AT", "SUCCESS", "ERROR", "CANCELLED", "RETRIED", "QUEUED p50/p95/p99 ms", "RUNNING p50/p95/p99 ms", "CHART"}}
	var most int64
	for _, b := range c.Counts {
		most = max(most, b.Success+b.Error+b.Cancelled)
	}
	for _, b := range c.Counts {
		queued, running := spanText(b.Queued), spanText(b.Running)
		if b.Tally == (millrace.Tally{}) && queued == "-" {
			continue
		}
		rows = append(rows, []string{moment(b.At), count(b.Success), count(b.Error), count(b.Cancelled), count(b.Retried), queued, running, chart(b.Tally, most)})
	}
	rows = append(rows, []string{"in all", count(c.Total.Success), count(c.Total.Error), count(c.Total.Cancelled), count(c.Total.Retried), "", "", ""})
	return table(w, rows)
}

func spanText(s millrace.Spans) string {
	if s.Percentile(99) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d/%d", s.Percentile(50), s.Percentile(95), s.Percentile(99))
}

// chart draws a tally; what happened at all has at least one mark.
func chart(t millrace.Tally, most int64) string {
	if most == 0 {
		return ""
	}
	marks := func(n int64, mark string) string {
		return strings.Repeat(mark, int((n*chartWidth+most-1)/most))
	}
	return marks(t.Success, "#") + marks(t.Error, "!") + marks(t.Cancelled, "-")
}
