package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newOperation(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "operation", Short: "Enqueue tracked work and see what becomes of it"}
	cmd.AddCommand(
		newOperationStart(r), newOperationShow(r), newOperationList(r), newOperationWatch(r), newOperationCancel(r), newOperationProgress(r), newOperationCounts(r),
	)
	for _, sub := range cmd.Commands() {
		do := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return operationHint(do(cmd, args)) }
	}
	return cmd
}

// operationHint adds to an error what can be done about it.
func operationHint(err error) error {
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound:
		return hint(err, "There is no such operation or queue, or the operation has expired: `millrace operation list --queue QUEUE` shows those that are kept.")
	case millrace.CodeNotTracked:
		return hint(err, "Operations need a queue that was defined with --tracked, which cannot change later: define one under another name.")
	case millrace.CodeFinished:
		return hint(err, "`millrace operation show` says how it ended.")
	case millrace.CodeLost:
		return hint(err, "The lease has ended or is settled. Lease the message again.")
	}
	return err
}

// jsonText is a flag that holds JSON.
type jsonText struct{ to *[]byte }

func (j jsonText) String() string {
	if j.to == nil {
		return ""
	}
	return string(*j.to)
}

func (j jsonText) Type() string { return "JSON" }

func (j jsonText) Set(s string) error {
	text, err := api.DecodeTriggerCall([]byte(s))
	if err != nil {
		return fmt.Errorf("must be JSON, such as '{\"id\":456}'")
	}
	*j.to = text
	return nil
}

func newOperationStart(r *remote) *cobra.Command {
	var o millrace.OperationRequest
	cmd := &cobra.Command{
		Use:     "start QUEUE --type TYPE",
		Short:   "Enqueue one piece of work",
		Example: "  millrace operation start sync --type MANUAL --subject link:456 --payload '{\"link\":{\"id\":456}}' --dedupe-key link:456",
		Args:    exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Queue = args[0]
			c, err := r.open()
			if err != nil {
				return err
			}
			s, err := c.Operations().Start(cmd.Context(), o)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendStarted(nil, &s), [][]string{{"OPERATION", "STATUS", "EXISTING"}, {s.ID, string(s.Status), strconv.FormatBool(s.Existing)}})
		},
	}
	requestFlags(cmd, &o)
	return cmd
}

// requestFlags are what an operation is about, its queue aside.
func requestFlags(cmd *cobra.Command, o *millrace.OperationRequest) {
	f := cmd.Flags()
	f.StringVar(&o.Type, "type", "", "what kind of work it is (required)")
	f.StringVar(&o.Subject, "subject", "", "what it is about; operations are listed by it")
	f.StringVar(&o.Tenant, "tenant", "", "whose it is; default if left out")
	f.Var(jsonText{&o.Payload}, "payload", "what the worker gets")
	f.StringVar(&o.DedupeKey, "dedupe-key", "", "while one with this key is open, it is the answer")
	durationVar(f, &o.Delay, "delay", "before it can run")
}

func newOperationShow(r *remote) *cobra.Command {
	var seen string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an operation, now or when its status is another",
		Example: "  millrace operation show ID --wait 30s --seen QUEUED",
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			var o millrace.TrackedOperation
			if wait > 0 {
				o, err = c.Operations().Await(cmd.Context(), args[0], millrace.OperationStatus(seen), wait)
			} else {
				o, err = c.Operations().Get(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendOperation(nil, &o), operationRows(o))
		},
	}
	durationVar(cmd.Flags(), &wait, "wait", "how long to wait for another status; 60s at most")
	cmd.Flags().StringVar(&seen, "seen", "", "with --wait: the status that you know; the one it has if left out")
	return cmd
}

func operationRows(list ...millrace.TrackedOperation) [][]string {
	rows := [][]string{{"OPERATION", "QUEUE", "TENANT", "TYPE", "SUBJECT", "STATUS", "ATTEMPTS", "PROGRESS", "QUEUED", "STARTED", "FINISHED", "ERROR"}}
	for _, o := range list {
		rows = append(rows, []string{
			o.ID, o.Queue, o.Tenant, o.Type, dash(o.Subject), statusOf(&o), strconv.Itoa(o.Attempts), progressOf(&o), moment(o.QueuedAt), moment(o.StartedAt), moment(o.FinishedAt), dash(o.Error),
		})
	}
	return rows
}

func statusOf(o *millrace.TrackedOperation) string {
	if o.CancelRequested && !o.Status.Finished() {
		return string(o.Status) + " (to be cancelled)"
	}
	return string(o.Status)
}

func progressOf(o *millrace.TrackedOperation) string {
	if o.Progress == nil {
		return "-"
	}
	return strings.TrimSpace(strconv.Itoa(o.Progress.Percent) + "% " + shownNote(o.Progress.Note))
}

func shownNote(note string) string {
	if note == "" {
		return ""
	}
	return shown(note)
}

func newOperationList(r *remote) *cobra.Command {
	var q millrace.OperationQuery
	cmd := &cobra.Command{
		Use:     "list --subject SUBJECT",
		Short:   "List operations of a subject or a queue, newest first",
		Example: "  millrace operation list --subject link:456\n  millrace operation list --queue sync --status ERROR",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Subject == "" && q.Queue == "" {
				return usagef("--subject or --queue is required")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			list, next, err := c.Operations().List(cmd.Context(), q)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendOperations(nil, list, place(next)), more(operationRows(list...), next))
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Subject, "subject", "", "those about it")
	f.StringVar(&q.Queue, "queue", "", "those of this queue")
	f.StringVar((*string)(&q.Status), "status", "", "only those that are QUEUED, RUNNING, SUCCESS, ERROR or CANCELLED")
	f.StringVar(&q.Tenant, "tenant", "", "only those of this tenant")
	pageFlags(cmd, &q.Page)
	return cmd
}

func newOperationCancel(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel an operation, or ask for it if it is running",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			o, err := c.Operations().Cancel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendOperation(nil, &o), operationRows(o))
		},
	}
}

func newOperationProgress(r *remote) *cobra.Command {
	var p millrace.Progress
	cmd := &cobra.Command{
		Use:   "progress ID RECEIPT",
		Short: "Tell how far an operation has come",
		Args:  exactArgs("ID", "RECEIPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			return c.Operations().Report(cmd.Context(), args[0], args[1], p)
		},
	}
	cmd.Flags().IntVar(&p.Percent, "percent", 0, "0 to 100; it never falls within an attempt")
	cmd.Flags().StringVar(&p.Note, "note", "", "what is being done")
	return cmd
}
