package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/client"
)

// version is the program's; the linker may set another.
var version = "0.1.0-dev"

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // it was tried and failed
	exitUsage   = 2 // the command line or a setting is wrong; nothing was tried
)

// run is the whole program: it executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "millrace: "+explain(err))
	var usage *usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailure
}

// usageError is a fault of the command line or of a setting.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// hintError is an error with what can be done about it.
type hintError struct {
	err  error
	text string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hint adds to an error what can be done about it.
func hint(err error, text string) error { return &hintError{err, text} }

// explain says what went wrong and what to do next.
func explain(err error) string {
	var known *hintError
	if errors.As(err, &known) {
		return err.Error() + "\n" + known.text
	}
	switch millrace.CodeOf(err) {
	case millrace.CodeUnauthenticated:
		return err.Error() + "\nGive the server's token with --token or MILLRACE_TOKEN."
	case millrace.CodeForbidden:
		return err.Error() + "\nUse a token that has this scope, or the root token."
	case millrace.CodeFull:
		return err.Error() + "\n" + roomHint(err)
	case millrace.CodeStoreFull:
		return err.Error() + "\nNothing was stored. Make room where the store is, or settle what waits, and repeat."
	case millrace.CodeUnavailable:
		if strings.Contains(err.Error(), "connection refused") {
			return err.Error() + "\nIs the server running? Start one with `millrace serve`, or name another with --server."
		}
	}
	return err.Error()
}

// roomHint says what can be done about a sink that is full.
func roomHint(err error) string {
	var e *millrace.Error
	if !errors.As(err, &e) || e.Sink == "" {
		return "Nothing was stored. Settle what waits, then repeat."
	}
	return "Nothing was stored: " + e.Sink + " has no room. Settle what waits there (`millrace queue show " + e.Sink + "`), or define it with a larger --max-length or --overflow drop_oldest."
}

// remote is how the commands that talk to a server reach it.
type remote struct {
	json   bool
	config *config // all settings; set before a command runs
}

// ownCheck marks a command that checks the settings itself, with more that it knows.
const ownCheck = "checks-settings"

func newRoot() *cobra.Command {
	r := &remote{}
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "The event backbone for products with many tenants",
		Long:          "Millrace is the event backbone for products with many tenants: publish an event\nonce, and it is in every queue that wants it, where each tenant gets its fair turn.",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return r.configure(cmd)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	settingFlags(root.PersistentFlags(), everyCommand)
	root.AddCommand(
		newServe(r), newPublish(r), newSendMany(r), newEvent(r), newRoute(r), newTail(r), newTopic(r), newQueue(r), newSubscription(r), newOperation(r), newTrigger(r),
		newNodes(r), newStats(r),
		newApply(r), newExport(r), newConfig(r), newDoctor(r), newCheck(r), newBench(r), newDemo(),
	)
	return root
}

// configure reads the settings for a command.
func (r *remote) configure(cmd *cobra.Command) error {
	r.config = loadConfig(cmd.Flags(), os.Environ())
	for _, warning := range r.config.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "millrace: warning: "+warning)
	}
	r.json = r.config.yes("json")
	if _, own := cmd.Annotations[ownCheck]; own {
		return nil
	}
	if err := r.config.check(cmd.Name()); err != nil {
		return &usageError{err}
	}
	return nil
}

// open returns a client of the server.
func (r *remote) open() (*client.Client, error) {
	token, err := r.config.clientToken()
	if err != nil {
		return nil, &usageError{err}
	}
	c, err := client.New(r.config.text("server"), client.Options{Token: token, RetryFor: 2 * time.Second})
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// print prints an answer: as the wire has it, or as a table.
func (r *remote) print(cmd *cobra.Command, wire []byte, rows [][]string) error {
	if r.json {
		return printJSON(cmd.OutOrStdout(), wire)
	}
	return table(cmd.OutOrStdout(), rows)
}

// atLeast is a fault unless there is an argument for every name; the last may be repeated.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("expected %s..., got %d arguments", strings.Join(names, " "), len(args))
		}
		return nil
	}
}

// exactArgs is cobra.ExactArgs with a fault that says what the arguments are.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("expected %s, got %d arguments", strings.Join(names, " "), len(args))
		}
		return nil
	}
}

// printJSON prints a JSON document, indented.
func printJSON(w io.Writer, text []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// table prints rows in columns; the first is the heading.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// moment is a time for people, or a dash.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// shown is a text that somebody gave, safe for a terminal and for a table: as it
// is, or quoted if it holds anything but plain characters.
func shown(s string) string {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}
