package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newOperationWatch(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Watch an operation until it has finished",
		Long: "Watch an operation until it has finished: one line at each change, on a terminal a bar\n" +
			"of its progress. A connection that breaks is begun again. It fails if the operation\ndoes not end in SUCCESS.",
		Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.watchOperation(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
}

// watchOperation shows an operation until it has finished, or ctx ends. A watch that could not begin is a failure; one
// that broke begins again, with the operation as it is then.
func (r *remote) watchOperation(ctx context.Context, w io.Writer, id string) error {
	c, err := r.open()
	if err != nil {
		return err
	}
	defer c.Close()
	v := &operationView{w: w, json: r.json, terminal: isTerminal(w)}
	for wait := tailFirstWait; ctx.Err() == nil; wait = min(2*wait, tailLongestWait) {
		items, err := c.Operations().Watch(ctx, id)
		if err == nil {
			wait = tailFirstWait
			err = v.follow(items)
		}
		if err == nil || !v.begun || !mayPass(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// operationView is where a watched operation is shown.
type operationView struct {
	w              io.Writer
	json, terminal bool
	begun          bool // something was shown
}

// follow shows each change and returns why it ended: nil if the operation succeeded, or the caller wants no more.
func (v *operationView) follow(items iter.Seq2[millrace.TrackedOperation, error]) error {
	for o, err := range items {
		if err != nil {
			return err
		}
		v.begun = true
		if _, err := io.WriteString(v.w, v.line(&o)); err != nil {
			return errors.Join(errors.New("print an operation"), err)
		}
		if o.Status.Finished() && o.Status != millrace.OperationSuccess {
			return fmt.Errorf("the operation has ended in %s", o.Status)
		}
	}
	return nil
}

// line is an operation on one line; on a terminal it takes the place of the one before.
func (v *operationView) line(o *millrace.TrackedOperation) string {
	switch {
	case v.json:
		return string(oneLine(api.AppendOperation(nil, o))) + "\n"
	case !v.terminal:
		return strings.Join([]string{time.Now().Format("15:04:05.000"), statusOf(o), progressOf(o), dash(o.Error)}, "  ") + "\n"
	}
	line := "\r\x1b[K" + progressBar(o) + " " + statusOf(o)
	if o.Progress != nil && o.Progress.Note != "" {
		line += " " + shown(o.Progress.Note)
	}
	if o.Error != "" {
		line += " " + shown(o.Error)
	}
	if o.Status.Finished() {
		line += "\n"
	}
	return line
}

// progressBar draws how far an operation has come.
func progressBar(o *millrace.TrackedOperation) string {
	const width = 30
	percent := 0
	if o.Progress != nil {
		percent = o.Progress.Percent
	}
	if o.Status == millrace.OperationSuccess {
		percent = 100
	}
	full := width * percent / 100
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("=", full), strings.Repeat(" ", width-full), percent)
}
