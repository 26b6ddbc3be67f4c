package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newSubscriptionBatches(r *remote) *cobra.Command {
	q := millrace.BatchQuery{}
	cmd := &cobra.Command{
		Use:   "batches NAME",
		Short: "List batches, oldest first",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			list, next, err := c.Subscriptions().Batches(cmd.Context(), args[0], q)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendBatches(nil, list, place(next)), more(batchRows(list...), next))
		},
	}
	cmd.Flags().StringVar((*string)(&q.State), "state", "", "only early, ready, pending or dead ones")
	pageFlags(cmd, &q.Page)
	return cmd
}

func batchRows(list ...millrace.SubscriptionBatch) [][]string {
	rows := [][]string{{"BATCH", "STATE", "EVENTS", "BYTES", "ATTEMPTS", "CREATED", "DUE", "ERROR"}}
	for _, b := range list {
		rows = append(rows, []string{
			b.ID, string(b.State), strconv.Itoa(b.Count), strconv.Itoa(b.Bytes), strconv.Itoa(b.Attempts), moment(b.CreatedAt), moment(b.DueAt), dash(b.Error),
		})
	}
	return rows
}

func newSubscriptionBatch(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "batch NAME BATCH",
		Short: "Show a batch with its events",
		Args:  exactArgs("NAME", "BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			b, err := c.Subscriptions().GetBatch(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			rows := [][]string{{"SEQ", "TENANT", "TOPIC", "TYPE", "KEY", "ID", "DATA"}}
			for _, e := range b.Events {
				rows = append(rows, []string{strconv.FormatUint(e.Seq, 10), e.Tenant, e.Topic, e.Type, dash(e.Key), shown(e.ID), preview(e)})
			}
			return r.print(cmd, api.AppendBatch(nil, &b), rows)
		},
	}
}

func newSubscriptionAttempts(r *remote) *cobra.Command {
	var batch, event string
	cmd := &cobra.Command{
		Use:   "attempts NAME",
		Short: "Show the last attempts, newest first",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			list, err := c.Subscriptions().Attempts(cmd.Context(), args[0], batch, event)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendAttempts(nil, list), attemptRows(list...))
		},
	}
	cmd.Flags().StringVar(&batch, "batch", "", "of this batch alone")
	cmd.Flags().StringVar(&event, "event", "", "of batches with this event alone, by its id")
	return cmd
}

func attemptRows(list ...millrace.Attempt) [][]string {
	rows := [][]string{{"AT", "BATCH", "ATTEMPT", "OUTCOME", "STATUS", "TOOK", "EVENTS", "ANSWER"}}
	for _, a := range list {
		outcome := a.Error
		if a.OK {
			outcome = "sent"
		}
		rows = append(rows, []string{
			moment(a.At), dash(a.Batch), strconv.Itoa(a.Attempt), outcome, strconv.Itoa(a.Status), a.Duration.String(), strconv.Itoa(a.Count), dash(a.Answer),
		})
	}
	return rows
}

func newSubscriptionRetry(r *remote) *cobra.Command {
	var dead bool
	cmd := &cobra.Command{
		Use:     "retry NAME --dead | BATCH...",
		Short:   "Send batches at once, whatever they wait for",
		Example: "  millrace subscription retry shop --dead\n  millrace subscription retry shop 01K0B",
		Args:    atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 1) == dead {
				return usagef("name the batches, as `subscription batches` shows them, or give --dead")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			done, err := retryBatches(cmd, c.Subscriptions(), args[0], args[1:])
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendRetried(nil, done), [][]string{{"RETRIED"}, {strconv.Itoa(done)}})
		},
	}
	cmd.Flags().BoolVar(&dead, "dead", false, "all dead ones; their attempts begin anew")
	return cmd
}

// retryBatches retries the batches that are named, or all dead ones.
func retryBatches(cmd *cobra.Command, s millrace.SubscriptionService, name string, ids []string) (done int, err error) {
	if len(ids) == 0 {
		return s.RetryDead(cmd.Context(), name)
	}
	for _, id := range ids {
		n, err := s.RetryBatch(cmd.Context(), name, id)
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func newSubscriptionDrop(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "drop NAME BATCH...",
		Short: "Remove batches; their events count as dropped",
		Args:  atLeast("NAME", "BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			for _, id := range args[1:] {
				if err := c.Subscriptions().DropBatch(cmd.Context(), args[0], id); err != nil {
					return fmt.Errorf("drop batch %s: %w", shown(id), err)
				}
			}
			return nil
		},
	}
}
