package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// The wait before a watch that broke is begun again doubles from the first to the longest.
const (
	tailFirstWait   = 250 * time.Millisecond
	tailLongestWait = 5 * time.Second
)

func newTail(r *remote) *cobra.Command {
	var f millrace.LiveFilter
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Watch events go by",
		Long: "Watch events go by: one line per event with its time, address, key, id and data.\n\n" +
			"Nothing is stored for a watcher and nothing is shown later: what goes by while the\n" +
			"connection is broken is missed. What was missed is told on standard error. Whoever\n" +
			"needs every event uses a queue. Ctrl-C ends it.",
		Example: "  millrace tail --match ':orders:'\n  millrace tail --tenant acme --key order:7\n  millrace tail --json | jq .data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.tail(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Match, "match", "", "regular expression that the address TENANT:TOPIC:TYPE must match")
	flags.StringVar(&f.Tenant, "tenant", "", "only events of this tenant")
	flags.StringVar(&f.Key, "key", "", "only events of this key")
	return cmd
}

// tail prints events until ctx ends. A watch that could not begin is a failure; one
// that broke begins again.
func (r *remote) tail(ctx context.Context, stdout, stderr io.Writer, f millrace.LiveFilter) error {
	c, err := r.open()
	if err != nil {
		return err
	}
	defer c.Close()
	begun := false
	for wait := tailFirstWait; ctx.Err() == nil; wait = min(2*wait, tailLongestWait) {
		items, err := c.Live(ctx, f)
		if err != nil && ctx.Err() == nil && (!begun || !mayPass(err)) {
			return err
		}
		if err == nil {
			if begun {
				fmt.Fprintln(stderr, "millrace: connected again; what went by meanwhile was missed")
			}
			begun, wait = true, tailFirstWait
			if err = r.printLive(items, stdout, stderr); !mayPass(err) {
				return err
			}
			if ctx.Err() == nil {
				fmt.Fprintln(stderr, "millrace: "+err.Error()+"; trying again")
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// mayPass reports whether a watch that ended so may be begun again.
func mayPass(err error) bool {
	code := millrace.CodeOf(err)
	return code == millrace.CodeUnavailable || code == millrace.CodeDraining
}

// printLive prints what goes by and returns why it ended; nil: the caller wants no more.
func (r *remote) printLive(items iter.Seq2[millrace.LiveItem, error], stdout, stderr io.Writer) error {
	for item, err := range items {
		switch {
		case err != nil:
			return err
		case item.Missed > 0:
			fmt.Fprintf(stderr, "millrace: %d events missed\n", item.Missed)
			continue
		}
		if _, err := fmt.Fprintln(stdout, r.liveLine(&item.Event)); err != nil {
			return errors.Join(errors.New("print an event"), err)
		}
	}
	return nil
}

// liveLine is an event on one line.
func (r *remote) liveLine(e *millrace.Event) string {
	if r.json {
		return string(oneLine(api.AppendEvent(nil, e)))
	}
	key := "-"
	if e.Key != "" {
		key = shown(e.Key)
	}
	return e.RecordedAt.Local().Format("15:04:05.000") + "  " + e.Address() + "  " + key + "  " + shown(e.ID) + "  " + preview(*e)
}

// oneLine takes line breaks out of a JSON document, which has none within its texts.
func oneLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return text
}
