package main

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueue(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "Define queues, take messages from them and look after them"}
	cmd.AddCommand(
		newQueueCreate(r), newQueueList(r), newQueueShow(r), newQueueDelete(r),
		newQueueLease(r), newQueueAck(r), newQueueRetry(r), newQueueBury(r), newQueueExtend(r), newQueueRelease(r),
		newQueuePause(r), newQueueResume(r), newQueueInject(r),
		newQueuePeek(r), newQueueDead(r), newQueueRedrive(r), newQueueDropDead(r), newQueuePurge(r),
		newQueueTenants(r), newQueueWeight(r),
	)
	for _, sub := range cmd.Commands() {
		do := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return queueHint(do(cmd, args)) }
	}
	return cmd
}

// queueHint adds to an error what can be done about it.
func queueHint(err error) error {
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound:
		return hint(err, "There is no such queue, tenant or message: `millrace queue list` shows the queues.")
	case millrace.CodeImmutable:
		return hint(err, "Define a queue under another name, or remove this one first with `millrace queue delete`.")
	case millrace.CodeNotEmpty:
		return hint(err, "Look with `millrace queue show`; `millrace queue purge` removes what waits, --yes instead of --if-empty removes all.")
	}
	return err
}

func newQueueCreate(r *remote) *cobra.Command {
	spec := millrace.DefaultQueueSpec("")
	cmd := &cobra.Command{
		Use:     "create NAME --match PATTERN",
		Short:   "Define a queue, or replace its definition",
		Example: "  millrace queue create emails --match ':orders:' --ordered --tenant-limit 10",
		Args:    exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spec.Ordered && !cmd.Flags().Changed("on-exhausted") {
				spec.OnExhausted = millrace.ExhaustedBlock
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			q, _, err := c.Queues().Put(cmd.Context(), args[0], spec)
			if err != nil {
				return err
			}
			return printQueue(cmd.OutOrStdout(), r.json, &q)
		},
	}
	specFlags(cmd, &spec)
	return cmd
}

// specFlags are the settings of a queue.
func specFlags(cmd *cobra.Command, spec *millrace.QueueSpec) {
	f := cmd.Flags()
	f.StringVar(&spec.Match, "match", "", "regular expression for TENANT:TOPIC:TYPE (required)")
	durationVar(f, &spec.Lease, "lease", "how long a lease lasts")
	f.IntVar(&spec.MaxAttempts, "max-attempts", spec.MaxAttempts, "deliveries before a message's attempts are spent; 0 for no limit")
	durationVar(f, &spec.BackoffFirst, "backoff-first", "the wait after the first failed attempt")
	durationVar(f, &spec.BackoffMax, "backoff-max", "the longest wait")
	f.StringVar((*string)(&spec.OnExhausted), "on-exhausted", string(spec.OnExhausted), "what becomes of a message whose attempts are spent: dead or block; block if --ordered")
	f.BoolVar(&spec.Ordered, "ordered", false, "of one key, one message in flight; cannot change later")
	f.BoolVar(&spec.Tracked, "tracked", false, "every message has an operation; cannot change later")
	f.IntVar(&spec.TenantLimit, "tenant-limit", 0, "most messages in flight per tenant; 0 for no limit")
	f.IntVar(&spec.MaxLength, "max-length", 0, "most messages waiting per tenant; 0 for no limit")
	f.StringVar((*string)(&spec.Overflow), "overflow", string(spec.Overflow), "what happens past --max-length: reject or drop_oldest")
	durationVar(f, &spec.DeadRetention, "dead-retention", "how long dead letters are kept; 0s for ever")
	durationVar(f, &spec.Retention, "retention", "how long operations are kept that succeeded or were cancelled; 0s for the longest")
	durationVar(f, &spec.ErrorRetention, "error-retention", "how long operations are kept that failed; 0s for the longest")
	f.StringSliceVar(&spec.Redact, "redact", spec.Redact, "JSON Pointers such as /user/token to what only workers are shown; may be repeated")
}

func newQueueList(r *remote) *cobra.Command {
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List queues with what they hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			queues, next, err := c.Queues().List(cmd.Context(), page)
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendQueues(nil, queues, place(next)))
			}
			return printQueues(cmd.OutOrStdout(), queues, next)
		},
	}
	pageFlags(cmd, &page)
	return cmd
}

func newQueueShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a queue with what it holds",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			q, err := c.Queues().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printQueue(cmd.OutOrStdout(), r.json, &q)
		},
	}
}

func newQueueDelete(r *remote) *cobra.Command {
	var ifEmpty, yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME --yes",
		Short: "Remove a queue with all it holds",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !ifEmpty && !yes {
				return usagef("this removes the queue with all its messages: add --yes to do it, or --if-empty to do it only if there are none")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			return c.Queues().Delete(cmd.Context(), args[0], ifEmpty)
		},
	}
	cmd.Flags().BoolVar(&ifEmpty, "if-empty", false, "only if it holds nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, with all it holds")
	return cmd
}

func printQueue(w io.Writer, asJSON bool, q *millrace.Queue) error {
	if asJSON {
		return printJSON(w, api.AppendQueue(nil, q))
	}
	return printQueues(w, []millrace.Queue{*q}, "")
}

func printQueues(w io.Writer, queues []millrace.Queue, next string) error {
	rows := [][]string{{"QUEUE", "MATCH", "STATE", "READY", "LEASED", "DELAYED", "DEAD", "TENANTS", "OLDEST"}}
	for _, q := range queues {
		rows = append(rows, []string{q.Name, q.Spec.Match, q.State, count(q.Ready), count(q.Leased), count(q.Delayed), count(q.Dead), count(q.Tenants), moment(q.Oldest)})
	}
	return table(w, more(rows, next))
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
