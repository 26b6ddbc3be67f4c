package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// applyFlags are the flags of apply.
type applyFlags struct {
	millrace.ApplyOptions
	file string
}

func newApply(r *remote) *cobra.Command {
	a := &applyFlags{}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make a document's definitions the store's, all or nothing",
		Long: "Make the definitions of a document the store's: queues, weights and limits of tenants,\n" +
			"subscriptions and triggers, whose secrets stay or are made. The document is YAML or JSON, as `millrace export` writes it. Every fault is\n" +
			"found before anything is changed. What it does not name stays, or goes with --prune.",
		Example: "  millrace apply -f house.yaml --dry-run --prune\n  millrace export | millrace apply -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.file == "" {
				return usagef("name the document with -f FILE, or -f - for standard input")
			}
			return a.run(cmd, r)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&a.file, "file", "f", "", "the document; - for standard input (required)")
	f.BoolVar(&a.DryRun, "dry-run", false, "only say what would be done")
	f.BoolVar(&a.Prune, "prune", false, "remove what the document does not name, with all it holds")
	return cmd
}

func (a *applyFlags) run(cmd *cobra.Command, r *remote) error {
	content, name, err := readInput(a.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	doc, src, err := readDocument(name, content)
	if err != nil {
		return &usageError{err}
	}
	if a.Prune && !src.names("queues") {
		return usagef("%s names no queues, so --prune would remove all of them: write `queues: {}` into it if that is meant", name)
	}
	c, err := r.open()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.spare(cmd.Context(), c, src); err != nil {
		return err
	}
	var before map[string]string
	if a.DryRun && a.Prune && !r.json {
		if before, err = held(cmd.Context(), c); err != nil {
			return err
		}
	}
	applied, err := c.Apply(cmd.Context(), doc, a.ApplyOptions)
	if err != nil {
		return applyError(src, err)
	}
	if r.json {
		return printJSON(cmd.OutOrStdout(), api.AppendApplied(nil, &applied))
	}
	a.print(cmd.OutOrStdout(), &applied, before)
	return nil
}

// spare refuses to prune subscriptions and triggers by a document that does not speak of them: it may be
// older than they are, and what is secret of them cannot be brought back.
func (a *applyFlags) spare(ctx context.Context, c millrace.Backbone, src *source) error {
	if !a.Prune {
		return nil
	}
	one := millrace.Page{Limit: 1}
	if !src.names("subscriptions") {
		list, _, err := c.Subscriptions().List(ctx, one)
		if err != nil || len(list) > 0 {
			return spared(src, "subscriptions", err)
		}
	}
	if !src.names("triggers") {
		list, _, err := c.Triggers().List(ctx, one)
		if err != nil || len(list) > 0 {
			return spared(src, "triggers", err)
		}
	}
	return nil
}

func spared(src *source, kind string, err error) error {
	if err != nil {
		return err
	}
	return usagef("%s names no %s, so --prune would remove all of them: write `%s: {}` into it if that is meant", src.name, kind, kind)
}

// readInput reads a file, or standard input, of a size that could be a document.
func readInput(file string, stdin io.Reader) (content []byte, name string, err error) {
	in, name := stdin, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, file, &usageError{err}
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	}
	content, err = io.ReadAll(io.LimitReader(in, millrace.MaxRequestSize+1))
	if err != nil {
		return nil, name, fmt.Errorf("read %s: %w", name, err)
	}
	return content, name, nil
}

// applyError says where in the file the server's faults are.
func applyError(src *source, err error) error {
	switch millrace.CodeOf(err) {
	case millrace.CodeInvalid:
		return &usageError{src.explain(err)}
	case millrace.CodeImmutable:
		return hint(err, "Nothing is changed. Define it under another name, or remove it first with `millrace queue delete` or `millrace subscription delete`.")
	}
	return err
}

// held says what each queue and subscription holds, for those who are about to remove some.
func held(ctx context.Context, b millrace.Backbone) (map[string]string, error) {
	out := map[string]string{}
	for page := (millrace.Page{Limit: millrace.MaxPage}); ; {
		list, next, err := b.Subscriptions().List(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if n := s.Queued + s.Dead; n > 0 {
				out["subscription/"+s.Name] = fmt.Sprintf(" (with %d events)", n)
			}
		}
		if page.Cursor = next; next == "" {
			break
		}
	}
	for page := (millrace.Page{Limit: millrace.MaxPage}); ; {
		list, next, err := b.Queues().List(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, q := range list {
			if n := q.Ready + q.Leased + q.Delayed + q.Dead; n > 0 {
				out["queue/"+q.Name] = fmt.Sprintf(" (with %d messages)", n)
			}
		}
		if page.Cursor = next; next == "" {
			return out, nil
		}
	}
}

// print shows what was done, or would be, as a difference.
func (a *applyFlags) print(w io.Writer, applied *millrace.Applied, before map[string]string) {
	lines := func(sign string, names []string) {
		for _, name := range names {
			fmt.Fprintln(w, sign+" "+name+before[name])
		}
	}
	lines("+", applied.Created)
	lines("~", applied.Changed)
	lines("-", applied.Deleted)
	if applied.Same > 0 {
		fmt.Fprintf(w, "= %d the same\n", applied.Same)
	}
	done := []string{}
	for _, c := range []struct {
		n    int
		what string
	}{{len(applied.Created), "created"}, {len(applied.Changed), "changed"}, {len(applied.Deleted), "deleted"}} {
		if c.n > 0 {
			done = append(done, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	switch {
	case len(done) == 0:
		fmt.Fprintln(w, "nothing to do")
	case a.DryRun:
		fmt.Fprintln(w, "would be: "+strings.Join(done, ", ")+"; nothing is changed yet")
	default:
		fmt.Fprintln(w, strings.Join(done, ", "))
	}
}
