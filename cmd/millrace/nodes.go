package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/api"
)

func newNodes(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the processes that have joined the store",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			nodes, err := c.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			rows := [][]string{{"NODE", "HOST", "VERSION", "ROLES", "STARTED", "SEEN"}}
			for _, n := range nodes {
				rows = append(rows, []string{n.ID, shown(n.Host), shown(n.Version), strings.Join(n.Roles, ","), moment(n.StartedAt), moment(n.SeenAt)})
			}
			return r.print(cmd, api.AppendNodes(nil, nodes), rows)
		},
	}
}
