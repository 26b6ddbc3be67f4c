package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine"
)

func newCheck(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify the invariants of a store that no server uses",
		Long: "Open a store and verify everything that must hold in it: every counter against what\n" +
			"it counts, every message against the queues that hold it. It reads the whole store.\n" +
			"Stop the servers first. Exits with 1 if something does not hold.",
		Example:     "  millrace check --store embedded:./millrace-data",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{ownCheck: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.config.check("check"); err != nil {
				return &usageError{err}
			}
			return checkStore(cmd, r)
		},
	}
	settingFlags(cmd.Flags(), "check")
	return cmd
}

func checkStore(cmd *cobra.Command, r *remote) (err error) {
	store := r.config.text("store")
	switch {
	case store == "memory:":
		return usagef("a store in memory ends with its server: there is nothing to check")
	case strings.HasPrefix(store, "redis"):
		fmt.Fprintln(cmd.ErrOrStderr(), "millrace: warning: no server may use this store meanwhile: what changes under the check looks broken")
	}
	e, err := engine.Open(cmd.Context(), store, millrace.EngineOptions{
		Namespace: r.config.text("namespace"), Existing: true, Logger: slog.New(slog.DiscardHandler),
	})
	if errors.Is(err, millrace.ErrStoreInUse) {
		return hint(err, "A server seems to run on it. Stop that first, or look at it with `millrace doctor --server URL`.")
	}
	if millrace.CodeOf(err) == millrace.CodeNotFound {
		return hint(err, "Name the store with --store, and with --namespace if it has one.")
	}
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	checked := e.Check(cmd.Context())
	if known := (*millrace.Error)(nil); errors.As(checked, &known) {
		return fmt.Errorf("check the store: %w", checked)
	}
	return printViolations(cmd.OutOrStdout(), r.json, e.Identity(), violations(checked))
}

// violations are the parts of a joined error, each on its own.
func violations(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, part := range joined.Unwrap() {
			all = append(all, violations(part)...)
		}
		return all
	}
	return []string{err.Error()}
}

func printViolations(w io.Writer, asJSON bool, id millrace.Identity, list []string) error {
	if asJSON {
		text, err := json.Marshal(map[string]any{"ok": len(list) == 0, "violations": append([]string{}, list...)})
		if err != nil {
			return fmt.Errorf("print the violations: %w", err)
		}
		if err := printJSON(w, text); err != nil {
			return err
		}
	} else {
		for _, v := range list {
			fmt.Fprintln(w, v)
		}
	}
	if len(list) > 0 {
		return hint(fmt.Errorf("%d invariants do not hold in this store", len(list)), "Keep a copy of the store as it is, and report it with this list.")
	}
	if !asJSON {
		fmt.Fprintf(w, "everything holds (%s, format %d, lanes %d)\n", id.Engine, id.Format, id.Lanes)
	}
	return nil
}
