package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/api"
)

func newExport(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Short:   "Print all definitions as one document, for apply",
		Long:    "Print all definitions as one document, in YAML, or in JSON with --json. Applied to\nthe same store it changes nothing; applied to an empty one it makes the same house.",
		Example: "  millrace export > house.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			defer c.Close()
			doc, err := c.Definitions(cmd.Context())
			if err != nil {
				return err
			}
			content := api.AppendDocument(nil, &doc)
			if r.json {
				return printJSON(cmd.OutOrStdout(), content)
			}
			if content, err = toYAML(content); err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
}
