package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newEvent(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "event", Short: "Look at delayed events and take them back"}
	cmd.AddCommand(newEventShow(r), newEventCancel(r))
	return cmd
}

func newEventShow(r *remote) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an event that is not due yet",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			e, err := c.Held(cmd.Context(), tenant, args[0])
			if err != nil {
				return heldHint(err)
			}
			return r.print(cmd, api.AppendDelayed(nil, &e), [][]string{
				{"ID", "DUE", "TENANT", "TOPIC", "TYPE", "DATA"}, {e.ID, moment(e.DueAt), e.Tenant, e.Topic, e.Type, preview(e.Event)},
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", millrace.DefaultTenant, "whose event it is")
	return cmd
}

func newEventCancel(r *remote) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Take an event back that is not due yet",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			return heldHint(c.CancelHeld(cmd.Context(), tenant, args[0]))
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", millrace.DefaultTenant, "whose event it is")
	return cmd
}

func heldHint(err error) error {
	if millrace.CodeOf(err) == millrace.CodeNotFound {
		return hint(err, "Only an event that still waits can be shown and taken back. Is --tenant right?")
	}
	return err
}

func newRoute(r *remote) *cobra.Command {
	var tenant, topic, typ string
	cmd := &cobra.Command{
		Use:     "route --topic TOPIC --type TYPE",
		Short:   "Show which sinks an event would reach now",
		Example: "  millrace route --tenant acme --topic orders --type created",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if topic == "" || typ == "" {
				return usagef("--topic and --type are required")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			route, err := c.Route(cmd.Context(), tenant, topic, typ)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendRoute(nil, &route), sinkRows(&route))
		},
	}
	f := cmd.Flags()
	f.StringVar(&tenant, "tenant", millrace.DefaultTenant, "whose event it would be")
	f.StringVar(&topic, "topic", "", "its topic (required)")
	f.StringVar(&typ, "type", "", "its type (required)")
	return cmd
}

func sinkRows(route *millrace.Route) [][]string {
	rows := [][]string{{"KIND", "NAME", "MATCH", "STATE"}}
	for _, s := range route.Sinks {
		rows = append(rows, []string{string(s.Kind), s.Name, s.Match, s.State})
	}
	if len(route.Sinks) == 0 {
		rows = append(rows, []string{"nothing takes " + route.Address + ": define a queue that matches it with `millrace queue create`"})
	}
	return rows
}
