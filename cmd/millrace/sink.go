package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/client"
)

// sinks is what is done alike with queues and with subscriptions.
type sinks interface {
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	Inject(ctx context.Context, name string, events ...millrace.Event) (int, error)
}

func queuesOf(c *client.Client) sinks        { return c.Queues() }
func subscriptionsOf(c *client.Client) sinks { return c.Subscriptions() }

func newQueuePause(r *remote) *cobra.Command {
	return action(r, queuesOf, "pause NAME", "Stop the leasing of a queue; events still come in", sinks.Pause)
}

func newQueueResume(r *remote) *cobra.Command {
	return action(r, queuesOf, "resume NAME", "End a pause", sinks.Resume)
}

func newSubscriptionPause(r *remote) *cobra.Command {
	return action(r, subscriptionsOf, "pause NAME", "Stop the sending; events are still collected", sinks.Pause)
}

func newSubscriptionResume(r *remote) *cobra.Command {
	return action(r, subscriptionsOf, "resume NAME", "End a pause or a disabling", sinks.Resume)
}

// action is a command that needs only a sink's name.
func action(r *remote, of func(*client.Client) sinks, use, short string, do func(s sinks, ctx context.Context, name string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			return do(of(c), cmd.Context(), args[0])
		},
	}
}

func newQueueInject(r *remote) *cobra.Command { return inject(r, queuesOf, "queue", "emails") }

func newSubscriptionInject(r *remote) *cobra.Command {
	return inject(r, subscriptionsOf, "subscription", "shop")
}

// inject is the command that puts stored events into one sink.
func inject(r *remote, of func(*client.Client) sinks, kind, example string) *cobra.Command {
	return &cobra.Command{
		Use:   "inject NAME",
		Short: "Put stored events, as JSON from standard input, into this " + kind + " alone",
		Example: "  echo '{\"events\":[{\"id\":\"a-1\",\"topic\":\"orders\",\"type\":\"created\",\"time\":\"2026-11-15T01:13:00Z\",\"seq\":41}]}' | millrace " +
			kind + " inject " + example,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read the events: %w", err)
			}
			events, err := api.DecodeInject(text)
			if err != nil {
				return hint(&usageError{err}, `Give {"events":[…]} with the events as a listing or a batch shows them.`)
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			n, err := of(c).Inject(cmd.Context(), args[0], events...)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendInjected(nil, n), [][]string{{"INJECTED"}, {strconv.Itoa(n)}})
		},
	}
}
