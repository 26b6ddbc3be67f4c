package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/client"
)

func newQueueLease(r *remote) *cobra.Command {
	o := millrace.LeaseOptions{Max: 1}
	cmd := &cobra.Command{
		Use:     "lease NAME[=WEIGHT]...",
		Short:   "Take messages, in fair turns over tenants",
		Example: "  millrace queue lease emails --wait 10s\n  millrace queue lease emails=10 sms=1 --consumer w-1",
		Args:    atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.AtMostOnce && o.Lease != 0 {
				return usagef("--at-most-once has no --lease: the messages are gone when they are given")
			}
			weights, err := queueWeights(args)
			if err != nil {
				return err
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			messages, err := leaseFrom(cmd.Context(), c, weights, o)
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
	durationVar(f, &o.Wait, "wait", "how long to wait for the first")
	durationVar(f, &o.Lease, "lease", "how long they are leased; the queue's if 0s")
	f.StringVar(&o.Consumer, "consumer", "", "who takes them, for queue release")
	f.BoolVar(&o.AtMostOnce, "at-most-once", false, "the messages are gone when they are given, and have no receipt")
	return cmd
}

// queueWeights reads NAME or NAME=WEIGHT.
func queueWeights(args []string) (map[string]int, error) {
	weights := make(map[string]int, len(args))
	for _, arg := range args {
		name, text, given := strings.Cut(arg, "=")
		weight := 1
		if given {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > millrace.MaxWeight {
				return nil, usagef("the weight of %s must be 1 to %d", name, millrace.MaxWeight)
			}
			weight = n
		}
		if _, twice := weights[name]; twice {
			return nil, usagef("%s is named twice", name)
		}
		weights[name] = weight
	}
	return weights, nil
}

// leaseFrom leases from one queue or from several.
func leaseFrom(ctx context.Context, c *client.Client, weights map[string]int, o millrace.LeaseOptions) ([]millrace.Message, error) {
	if len(weights) > 1 {
		return c.Queues().LeaseAny(ctx, weights, o)
	}
	for name := range weights {
		return c.Queues().Lease(ctx, name, o)
	}
	return nil, nil
}

func newQueueAck(r *remote) *cobra.Command {
	var output []byte
	cmd := settlement(r, api.Ack, "Settle messages as done", func(ctx context.Context, q millrace.QueueService, name string, receipts []string) (millrace.SettleResult, error) {
		items := settlements(receipts, nil, "")
		for i := range items {
			items[i].Output = output
		}
		return q.Ack(ctx, name, items...)
	})
	cmd.Flags().Var(jsonText{&output}, "output", "what came of it; a tracked queue keeps it with the operation")
	return cmd
}

func newQueueRetry(r *remote) *cobra.Command {
	var delay time.Duration
	var why string
	var cmd *cobra.Command
	cmd = settlement(r, api.Retry, "Settle messages for another attempt", func(ctx context.Context, q millrace.QueueService, name string, receipts []string) (millrace.SettleResult, error) {
		var chosen *time.Duration
		if cmd.Flags().Changed("delay") {
			chosen = &delay
		}
		return q.Retry(ctx, name, settlements(receipts, chosen, why)...)
	})
	durationVar(cmd.Flags(), &delay, "delay", "how long they wait; the queue's backoff if left out")
	cmd.Flags().StringVar(&why, "error", "", "what went wrong")
	return cmd
}

func newQueueBury(r *remote) *cobra.Command {
	var why string
	cmd := settlement(r, api.Bury, "Settle messages for good, as dead letters", func(ctx context.Context, q millrace.QueueService, name string, receipts []string) (millrace.SettleResult, error) {
		return q.Bury(ctx, name, settlements(receipts, nil, why)...)
	})
	cmd.Flags().StringVar(&why, "error", "", "what went wrong")
	return cmd
}

func newQueueExtend(r *remote) *cobra.Command {
	var lease time.Duration
	cmd := settlement(r, api.Extend, "Prolong leases", func(ctx context.Context, q millrace.QueueService, name string, receipts []string) (millrace.SettleResult, error) {
		return q.Extend(ctx, name, lease, receipts...)
	})
	durationVar(cmd.Flags(), &lease, "lease", "how long from now; the queue's if 0s")
	return cmd
}

func settlements(receipts []string, delay *time.Duration, why string) []millrace.Settlement {
	items := make([]millrace.Settlement, len(receipts))
	for i, receipt := range receipts {
		items[i] = millrace.Settlement{Receipt: receipt, Delay: delay, Error: why}
	}
	return items
}

type settler func(ctx context.Context, q millrace.QueueService, name string, receipts []string) (millrace.SettleResult, error)

// settlement is a command that does one thing with receipts.
func settlement(r *remote, verb api.Verb, short string, do settler) *cobra.Command {
	return &cobra.Command{
		Use:   string(verb) + " NAME RECEIPT...",
		Short: short,
		Args:  atLeast("NAME", "RECEIPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			result, err := do(cmd.Context(), c.Queues(), args[0], args[1:])
			if err != nil {
				return err
			}
			if len(result.Lost) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d of the receipts changed nothing: their leases have ended or are settled. Lease the messages again.\n", len(result.Lost))
			}
			if len(result.Cancelled) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d of the operations are to be cancelled: stop their work and bury or retry the messages.\n", len(result.Cancelled))
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendSettled(nil, verb, &result))
			}
			return printSettled(cmd.OutOrStdout(), verb, &result)
		},
	}
}

func printSettled(w io.Writer, verb api.Verb, s *millrace.SettleResult) error {
	rows := [][]string{{"SETTLED", "LOST"}, {strconv.Itoa(s.Settled), strconv.Itoa(len(s.Lost))}}
	switch verb {
	case api.Retry:
		rows[0], rows[1] = append(rows[0], "DEAD"), append(rows[1], strconv.Itoa(s.Dead))
	case api.Extend:
		rows[0], rows[1] = append(rows[0], "UNTIL"), append(rows[1], moment(s.LeasedUntil))
	}
	return table(w, rows)
}

func newQueueRelease(r *remote) *cobra.Command {
	var consumer string
	cmd := &cobra.Command{
		Use:   "release NAME --consumer WHO",
		Short: "Give back at once what a restarted consumer held",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if consumer == "" {
				return usagef("--consumer is required: the name under which the messages were leased")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			n, err := c.Queues().Release(cmd.Context(), args[0], consumer)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendReleased(nil, n), [][]string{{"RELEASED"}, {strconv.Itoa(n)}})
		},
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "who held them (required)")
	return cmd
}

func printMessages(w io.Writer, messages []millrace.Message) error {
	rows := [][]string{{"RECEIPT", "ATTEMPT", "UNTIL", "TENANT", "TOPIC", "TYPE", "ID", "DATA"}}
	for _, m := range messages {
		e := m.Event
		receipt, until := m.Receipt, m.LeasedUntil.UTC().Format(time.TimeOnly)
		if receipt == "" { // given at most once
			receipt, until = "-", "-"
		}
		rows = append(rows, []string{receipt, strconv.Itoa(m.Attempt), until, e.Tenant, e.Topic, e.Type, shown(e.ID), preview(e)})
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
