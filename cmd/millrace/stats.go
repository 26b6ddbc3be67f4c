package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/api"
)

func newStats(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Show what the store holds and how durable it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			s, err := c.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if r.json {
				return printJSON(cmd.OutOrStdout(), api.AppendStats(nil, &s))
			}
			return table(cmd.OutOrStdout(), [][]string{
				{"engine", s.Engine}, {"durability", string(s.Durability)}, {"lanes", strconv.Itoa(s.Lanes)},
				{"namespace", s.Namespace}, {"bytes", count(s.Bytes)},
				{"published", count(s.Published)}, {"duplicates", count(s.Duplicates)}, {"refused", count(s.Refused)},
				{"unrouted", count(s.Unrouted)}, {"dropped", count(s.Dropped)}, {"held", count(s.Held)},
				{"ready", count(s.Queues.Ready)}, {"leased", count(s.Queues.Leased)},
				{"delayed", count(s.Queues.Delayed)}, {"dead", count(s.Queues.Dead)},
			})
		},
	}
}
