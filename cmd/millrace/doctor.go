package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/engine"
)

func newDoctor(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at a store and this machine, and say what to do",
		Long: "Look at everything that an operator should know, of the store that --store names,\n" +
			"or of the one behind a running server with --server. An embedded store is opened as a\n" +
			"server would open it; none is created. Exits with 1 if something has failed.",
		Example:     "  millrace doctor --store redis://127.0.0.1:6379\n  millrace doctor --server http://127.0.0.1:7070 --json",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{ownCheck: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{remote: r, config: r.config}
			if err := d.config.check("doctor"); err != nil {
				return &usageError{err}
			}
			if err := d.examine(cmd.Context()); err != nil {
				return err
			}
			return d.report(cmd.OutOrStdout())
		},
	}
	settingFlags(cmd.Flags(), "doctor")
	return cmd
}

// doctor gathers findings.
type doctor struct {
	remote *remote
	config *config
	found  []millrace.Finding
}

func (d *doctor) add(name string, grade millrace.Grade, detail, next string) {
	d.found = append(d.found, millrace.Finding{Name: name, Grade: grade, Detail: detail, Next: next})
}

// examine looks at the server or at the store, whichever is named.
func (d *doctor) examine(ctx context.Context) error {
	named := func(setting string) bool { return d.config.values[setting].from != "default" }
	onLine := func(setting string) bool { return d.config.values[setting].from == "--"+setting }
	switch {
	case onLine("server") && onLine("store"):
		return usagef("--server asks a running server and --store opens a store: give one of them")
	case onLine("server") || (named("server") && !named("store")):
		return d.askServer(ctx)
	}
	if d.config.text("store") == "memory:" {
		return usagef("a store in memory lives in its server: ask that with --server")
	}
	d.openStore(ctx)
	d.examineMachine()
	return nil
}

// askServer lets a running server look at its own store.
func (d *doctor) askServer(ctx context.Context) error {
	c, err := d.remote.open()
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := c.Diagnose(ctx)
	switch millrace.CodeOf(err) {
	case "":
		d.add("server", millrace.GradeOK, d.config.text("server")+" answers"+kindOfStore(ctx, c)+"; what follows is what it says of it", "")
		d.found = append(d.found, found...)
	case millrace.CodeUnauthenticated, millrace.CodeForbidden:
		return err // what to do about it is told with every such error
	default:
		d.add("server", millrace.GradeFail, d.config.text("server")+" does not answer: "+err.Error(), "start it with `millrace serve`, or name another with --server")
	}
	return nil
}

// kindOfStore is what the store of a server is, if it says so.
func kindOfStore(ctx context.Context, c *client.Client) string {
	s, err := c.Stats(ctx)
	if err != nil {
		return ", its store does not"
	}
	return fmt.Sprintf(" (%s, format %d, lanes %d, durability %s)", s.Engine, s.Format, s.Lanes, s.Durability)
}

// openStore looks at a store that no server holds.
func (d *doctor) openStore(ctx context.Context) {
	c := d.config
	found, err := engine.Diagnose(ctx, c.text("store"), millrace.EngineOptions{
		Namespace: c.text("namespace"), WaitReplicas: c.number("wait-replicas"), Logger: slog.New(slog.DiscardHandler),
	})
	d.found = append(d.found, found...)
	switch {
	case err == nil:
	case errors.Is(err, millrace.ErrStoreInUse):
		d.askHolder(ctx)
	case millrace.CodeOf(err) == millrace.CodeMismatch:
		d.add("store", millrace.GradeFail, err.Error(), "give the settings that it was created with, or another --store")
	case millrace.CodeOf(err) == millrace.CodeNotReplicated:
		d.add("store", millrace.GradeFail, err.Error(), "bring the replicas back, or lower --wait-replicas")
	default:
		d.add("store", millrace.GradeFail, "cannot be opened: "+err.Error(), "see that it is there and may be reached and read from here")
	}
}

// askHolder asks the server that seems to hold the store.
func (d *doctor) askHolder(ctx context.Context) {
	next := "if a server runs on it, ask that one: `millrace doctor --server URL`"
	c, err := d.remote.open()
	if err != nil {
		d.add("store", millrace.GradeWarn, "another process holds it", next)
		return
	}
	defer c.Close()
	found, err := c.Diagnose(ctx)
	if err != nil {
		d.add("store", millrace.GradeWarn, "another process holds it, and "+d.config.text("server")+" does not tell of it", next)
		return
	}
	d.add("holder", millrace.GradeOK, "another process holds the store; what follows is what "+d.config.text("server")+" says", "")
	d.found = append(d.found, found...)
}

// leastFiles is how many files a server should be able to open: 512 of the
// store, and a connection for each caller.
const leastFiles = 4096

// examineMachine looks at what the machine and the settings allow.
func (d *doctor) examineMachine() {
	if n, known := openFilesLimit(); known && n < leastFiles {
		d.add("files", millrace.GradeWarn, fmt.Sprintf("a process may open %d files", n), fmt.Sprintf("raise it to at least %d, with ulimit -n or LimitNOFILE", leastFiles))
	} else if known {
		d.add("files", millrace.GradeOK, fmt.Sprintf("a process may open %d files", n), "")
	}
	listen := d.config.text("listen")
	switch {
	case d.config.text("root-token") != "":
		d.add("token", millrace.GradeOK, "a root token is set", "")
	case loopback(listen):
		d.add("token", millrace.GradeOK, "none is set, and "+listen+" is reached from this machine only", "")
	default:
		d.add("token", millrace.GradeFail, "none is set, and "+listen+" is reached from other machines: `millrace serve` refuses that", "set MILLRACE_ROOT_TOKEN or --root-token-file")
	}
}

// report prints the findings and fails if one of them is a failure.
func (d *doctor) report(w io.Writer) error {
	failed := 0
	for _, f := range d.found {
		if f.Grade == millrace.GradeFail {
			failed++
		}
	}
	if err := d.print(w, failed == 0); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(d.found))
	}
	return nil
}

func (d *doctor) print(w io.Writer, ok bool) error {
	if !d.remote.json {
		return table(w, d.rows())
	}
	type check struct {
		Name   string         `json:"name"`
		Grade  millrace.Grade `json:"grade"`
		Detail string         `json:"detail"`
		Next   string         `json:"next"`
	}
	out := struct {
		OK     bool    `json:"ok"`
		Checks []check `json:"checks"`
	}{OK: ok, Checks: []check{}}
	for _, f := range d.found {
		out.Checks = append(out.Checks, check(f))
	}
	text, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("print the findings: %w", err)
	}
	return printJSON(w, text)
}

// rows are the findings, each with what to do about it below.
func (d *doctor) rows() [][]string {
	var rows [][]string
	for _, f := range d.found {
		rows = append(rows, []string{string(f.Grade), f.Name, f.Detail})
		if f.Next != "" {
			rows = append(rows, []string{"", "", "→ " + f.Next})
		}
	}
	return rows
}
