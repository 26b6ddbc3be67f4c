package main

import (
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueue(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "Define queues and take messages from them"}
	cmd.AddCommand(newQueueCreate(r), newQueueList(r), newQueueShow(r), newQueueLease(r), newQueueAck(r))
	return cmd
}

func newQueueCreate(r *remote) *cobra.Command {
	spec := millrace.DefaultQueueSpec("")
	cmd := &cobra.Command{
		Use:     "create NAME --match PATTERN",
		Short:   "Define a queue, or replace its definition",
		Example: "  millrace queue create emails --match ':orders:'",
		Args:    exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	f := cmd.Flags()
	f.StringVar(&spec.Match, "match", "", "regular expression for TENANT:TOPIC:TYPE (required)")
	f.DurationVar(&spec.Lease, "lease", spec.Lease, "how long a lease lasts")
	f.IntVar(&spec.MaxAttempts, "max-attempts", spec.MaxAttempts, "deliveries before a message is dead; 0 for no limit")
	f.DurationVar(&spec.BackoffFirst, "backoff-first", spec.BackoffFirst, "the wait after the first failed attempt")
	f.DurationVar(&spec.BackoffMax, "backoff-max", spec.BackoffMax, "the longest wait")
	return cmd
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
				return printJSON(cmd.OutOrStdout(), api.AppendQueues(nil, queues, next))
			}
			return printQueues(cmd.OutOrStdout(), queues, next)
		},
	}
	cmd.Flags().IntVar(&page.Limit, "limit", 0, "queues of a page; 100 if 0")
	cmd.Flags().StringVar(&page.Cursor, "cursor", "", "where the page begins, as the page before it said")
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

func newQueueLease(r *remote) *cobra.Command {
	o := millrace.LeaseOptions{Max: 1}
	cmd := &cobra.Command{
		Use:   "lease NAME",
		Short: "Take messages, in fair turns over tenants",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			messages, err := c.Queues().Lease(cmd.Context(), args[0], o)
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendMessages(nil, messages))
			}
			return printMessages(cmd.OutOrStdout(), messages)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Max, "max", 1, "messages, at most")
	f.DurationVar(&o.Wait, "wait", 0, "how long to wait for the first")
	f.DurationVar(&o.Lease, "lease", 0, "how long they are leased; the queue's if 0")
	return cmd
}

func newQueueAck(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "ack NAME RECEIPT...",
		Short: "Settle messages as done",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("expected NAME and at least one RECEIPT")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			items := make([]millrace.Settlement, len(args)-1)
			for i, receipt := range args[1:] {
				items[i].Receipt = receipt
			}
			result, err := c.Queues().Ack(cmd.Context(), args[0], items...)
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendSettled(nil, api.Ack, &result))
			}
			return table(cmd.OutOrStdout(), [][]string{{"SETTLED", "LOST"}, {strconv.Itoa(result.Settled), strconv.Itoa(len(result.Lost))}})
		},
	}
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
	if next != "" {
		rows = append(rows, []string{"… more: --cursor " + next})
	}
	return table(w, rows)
}

func printMessages(w io.Writer, messages []millrace.Message) error {
	rows := [][]string{{"RECEIPT", "ATTEMPT", "UNTIL", "TENANT", "TOPIC", "TYPE", "ID", "DATA"}}
	for _, m := range messages {
		e := m.Event
		rows = append(rows, []string{m.Receipt, strconv.Itoa(m.Attempt), m.LeasedUntil.UTC().Format(time.TimeOnly), e.Tenant, e.Topic, e.Type, strconv.Quote(e.ID), preview(e)})
	}
	return table(w, rows)
}

// preview is the beginning of an event's data, safe for a terminal.
func preview(e millrace.Event) string {
	const most = 60
	text := strconv.QuoteToASCII(string(e.Data))
	text = text[1 : len(text)-1]
	if e.IsJSON() {
		text = string(e.Data)
		for _, r := range text {
			if r < 0x20 || r >= 0x7f {
				text = strconv.QuoteToASCII(text)
				break
			}
		}
	}
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
