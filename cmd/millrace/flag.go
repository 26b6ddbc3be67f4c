package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// duration is a flag in the wire's own syntax, which has days.
type duration struct{ to *time.Duration }

func durationVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(duration{to}, name, usage)
}

func (d duration) String() string {
	if d.to == nil {
		return "0s"
	}
	return api.FormatDuration(*d.to)
}

func (d duration) Type() string { return "duration" }

func (d duration) Set(s string) error {
	v, ok := api.ParseDuration(s)
	if !ok {
		return errors.New("must be a duration such as 1m30s or 7d")
	}
	*d.to = v
	return nil
}

// timestamp is a flag in any form of RFC 3339.
type timestamp struct{ to *time.Time }

func (t timestamp) String() string {
	if t.to == nil || t.to.IsZero() {
		return ""
	}
	return api.FormatTime(*t.to)
}

func (t timestamp) Type() string { return "time" }

func (t timestamp) Set(s string) error {
	v, ok := api.ParseTime(s)
	if !ok {
		return errors.New("must be a time such as 2026-11-15T01:13:00Z")
	}
	*t.to = v
	return nil
}

// pageFlags choose a part of a list.
func pageFlags(cmd *cobra.Command, page *millrace.Page) {
	cmd.Flags().IntVar(&page.Limit, "limit", 0, "rows of a page; 100 if 0")
	cmd.Flags().StringVar(&page.Cursor, "cursor", "", "where the page begins, as the page before it said")
}

// place is what a cursor of the server stands for, to be written again as it came.
func place(next string) string {
	if next == "" {
		return ""
	}
	p, err := api.ParseCursor(next)
	if err != nil {
		return next
	}
	return p
}

// more adds to the rows of a page how the next is shown.
func more(rows [][]string, next string) [][]string {
	if next != "" {
		rows = append(rows, []string{"… more: --cursor " + next})
	}
	return rows
}
