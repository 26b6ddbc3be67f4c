package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newConfig(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show and check the settings", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return usagef("say what to do: print or check") },
	}
	cmd.AddCommand(newConfigPrint(r), newConfigCheck(r))
	return cmd
}

func newConfigPrint(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting, its value and where it comes from",
		Long: "Print every setting as `millrace serve` with the same flags, environment and file\n" +
			"would have it, and where each comes from. Secrets and passwords are not shown.",
		Example:     "  millrace config print --config house.yaml\n  millrace config print --json | jq .store",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{ownCheck: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := newServeSettings(r.config); err != nil {
				return &usageError{err}
			}
			return r.config.print(cmd.OutOrStdout(), r.json)
		},
	}
	settingFlags(cmd.Flags(), "serve")
	return cmd
}

func newConfigCheck(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "check",
		Short:       "Say everything that is wrong with the settings",
		Long:        "Say everything that is wrong with the settings that `millrace serve` would have.\nNothing is opened or started. Exits with 0 if they are good and with 2 if not.",
		Example:     "  millrace config check --config house.yaml",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{ownCheck: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := newServeSettings(r.config); err != nil {
				return &usageError{err}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the settings are good")
			return nil
		},
	}
	settingFlags(cmd.Flags(), "serve")
	return cmd
}

// redacted stands for what is not shown.
const redacted = "[redacted]"

// print shows every setting in the order of the table.
func (c *config) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return c.printJSON(w)
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for i := range c.table {
		s := &c.table[i]
		rows = append(rows, []string{s.name, shown(strings.Join(c.safe(s), ",")), shown(c.values[s.name].from)})
	}
	return table(w, rows)
}

func (c *config) printJSON(w io.Writer) error {
	type entry struct {
		Value any    `json:"value"`
		From  string `json:"from"`
	}
	out := map[string]entry{}
	for i := range c.table {
		s := &c.table[i]
		e := entry{Value: strings.Join(c.safe(s), ","), From: c.values[s.name].from}
		switch s.kind {
		case manyText:
			e.Value = append([]string{}, c.safe(s)...)
		case number:
			e.Value = c.number(s.name)
		case yesNo:
			e.Value = c.yes(s.name)
		}
		out[s.name] = e
	}
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("print the settings: %w", err)
	}
	return printJSON(w, text)
}

// safe is a setting's value without what nobody may see.
func (c *config) safe(s *setting) []string {
	v := c.values[s.name]
	switch {
	case s.secret && v.text() != "":
		return []string{redacted}
	case s.name == "store" || s.name == "server":
		return []string{withoutPassword(v.text())}
	}
	return v.list
}

// withoutPassword is a URL without its password.
func withoutPassword(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	at := strings.LastIndex(rest, "@")
	if !ok || at < 0 {
		return url
	}
	user, _, found := strings.Cut(rest[:at], ":")
	if !found {
		return url
	}
	return scheme + "://" + user + ":" + redacted + rest[at:]
}
