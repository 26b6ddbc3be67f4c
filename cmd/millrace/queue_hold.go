package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newQueuePeek(r *remote) *cobra.Command {
	var tenant string
	var limit int
	cmd := &cobra.Command{
		Use:   "peek NAME",
		Short: "Show what waits, in the order of serving",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			messages, err := c.Queues().Peek(cmd.Context(), args[0], tenant, limit)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendStoredMessages(nil, messages, ""), waitingRows(messages))
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "of this tenant alone")
	cmd.Flags().IntVar(&limit, "limit", 0, "messages, at most; 100 if 0")
	return cmd
}

func waitingRows(messages []millrace.StoredMessage) [][]string {
	rows := [][]string{{"MESSAGE", "ATTEMPTS", "TENANT", "TOPIC", "TYPE", "ID", "DATA"}}
	for _, m := range messages {
		e := m.Event
		rows = append(rows, []string{m.ID, strconv.Itoa(m.Attempts), e.Tenant, e.Topic, e.Type, shown(e.ID), preview(e)})
	}
	return rows
}

func newQueueDead(r *remote) *cobra.Command {
	var tenant string
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "dead NAME",
		Short: "List dead letters, oldest first",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			dead, next, err := c.Queues().Dead(cmd.Context(), args[0], tenant, page)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendStoredMessages(nil, dead, place(next)), more(deadRows(dead), next))
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "of this tenant alone")
	pageFlags(cmd, &page)
	return cmd
}

func deadRows(dead []millrace.StoredMessage) [][]string {
	rows := [][]string{{"MESSAGE", "DEAD", "REASON", "ATTEMPTS", "TENANT", "TOPIC", "TYPE", "ID", "ERROR"}}
	for _, m := range dead {
		e := m.Event
		rows = append(rows, []string{m.ID, moment(m.DeadAt), m.Reason, strconv.Itoa(m.Attempts), e.Tenant, e.Topic, e.Type, shown(e.ID), strconv.QuoteToASCII(m.Error)})
	}
	return rows
}

func newQueueRedrive(r *remote) *cobra.Command {
	which := millrace.DeadSelection{}
	cmd := &cobra.Command{
		Use:     "redrive NAME --all | MESSAGE...",
		Short:   "Make dead letters wait again, their attempts from 0",
		Example: "  millrace queue redrive emails --all --tenant acme\n  millrace queue redrive emails 01K0C",
		Args:    atLeast("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := selectDead(&which, args[1:]); err != nil {
				return err
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			done, left, err := allDead(cmd.Context(), args[0], which, c.Queues().Redrive)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendRedriven(nil, done, left), [][]string{{"REDRIVEN", "REMAINING"}, {strconv.Itoa(done), strconv.Itoa(left)}})
		},
	}
	selectionFlags(cmd, &which)
	return cmd
}

func newQueuePurge(r *remote) *cobra.Command {
	var tenant string
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge NAME --yes",
		Short: "Remove what waits or is delayed",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return usagef("this removes messages for good: look with `millrace queue peek %s`, then add --yes", args[0])
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			done, left, err := c.Queues().Purge(cmd.Context(), args[0], tenant)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendPurged(nil, done, left), [][]string{{"PURGED", "REMAINING"}, {strconv.Itoa(done), strconv.Itoa(left)}})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "of this tenant alone")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, for good")
	return cmd
}
