package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/client"
)

// publishFlags are the flags of publish.
type publishFlags struct {
	event      millrace.Event
	data       string
	attributes []string
}

func newPublish(r *remote) *cobra.Command {
	p := &publishFlags{}
	cmd := &cobra.Command{
		Use:     "publish TOPIC --type TYPE",
		Short:   "Publish an event",
		Example: "  millrace publish orders --type created --tenant acme --key order:7 --data '{\"n\":1}'",
		Args:    exactArgs("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.event.Topic = args[0]
			if err := p.complete(cmd.InOrStdin()); err != nil {
				return err
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			results, err := c.Publish(cmd.Context(), p.event)
			if err != nil {
				return err
			}
			return printPublished(cmd, r, c, results)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.event.Type, "type", "", "what happened (required)")
	f.StringVar(&p.event.Tenant, "tenant", "", "whose event it is")
	f.StringVar(&p.event.Key, "key", "", "the object it is about")
	f.StringVar(&p.event.ID, "id", "", "its id; made if empty")
	f.StringVar(&p.event.ContentType, "content-type", "", "of the data; application/json if empty")
	f.StringVar(&p.data, "data", "", "the data itself, @FILE, or - for standard input")
	durationVar(f, &p.event.Delay, "delay", "how long it waits before it is routed")
	f.Var(timestamp{&p.event.DeliverAt}, "deliver-at", "when it is routed, such as 2026-11-15T01:13:00Z")
	f.StringArrayVar(&p.attributes, "attribute", nil, "NAME=VALUE; may be repeated")
	return cmd
}

// complete reads the data and the attributes.
func (p *publishFlags) complete(stdin io.Reader) error {
	if p.event.Type == "" {
		return usagef("--type is required")
	}
	if p.event.Delay != 0 && !p.event.DeliverAt.IsZero() {
		return usagef("--delay and --deliver-at say the same: give one of them")
	}
	var err error
	switch {
	case p.data == "-":
		p.event.Data, err = io.ReadAll(io.LimitReader(stdin, millrace.MaxRequestSize))
	case strings.HasPrefix(p.data, "@"):
		p.event.Data, err = os.ReadFile(p.data[1:])
	default:
		p.event.Data = []byte(p.data)
	}
	if err != nil {
		return fmt.Errorf("read the data: %w", err)
	}
	for _, a := range p.attributes {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return usagef("--attribute must be NAME=VALUE")
		}
		if p.event.Attributes == nil {
			p.event.Attributes = map[string]string{}
		}
		p.event.Attributes[name] = value
	}
	return nil
}

func printPublished(cmd *cobra.Command, r *remote, c *client.Client, results []millrace.Published) error {
	if r.json {
		stats, err := c.Stats(cmd.Context())
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), api.AppendPublished(nil, results, stats.Durability))
	}
	if len(results) == 1 && !results[0].DueAt.IsZero() {
		p := results[0]
		return table(cmd.OutOrStdout(), [][]string{{"ID", "DUE", "DUPLICATE"}, {p.ID, moment(p.DueAt), strconv.FormatBool(p.Duplicate)}})
	}
	rows := [][]string{{"ID", "SEQ", "PREV", "SINKS", "DUPLICATE"}}
	for _, p := range results {
		prev := "-"
		if p.HasKey {
			prev = strconv.FormatUint(p.Prev, 10)
		}
		rows = append(rows, []string{p.ID, strconv.FormatUint(p.Seq, 10), prev, strconv.Itoa(p.Sinks), strconv.FormatBool(p.Duplicate)})
	}
	return table(cmd.OutOrStdout(), rows)
}
