package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newTrigger(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "trigger", Short: "Make secret URLs that publish an event or begin an operation"}
	cmd.AddCommand(newTriggerCreate(r), newTriggerList(r), newTriggerShow(r), newTriggerRotate(r), newTriggerDelete(r), newTriggerFire(r))
	for _, sub := range cmd.Commands() {
		do := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return triggerHint(do(cmd, args)) }
	}
	return cmd
}

// triggerHint adds to an error what can be done about it.
func triggerHint(err error) error {
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound:
		return hint(err, "There is no such trigger, or it is not enabled: `millrace trigger list` shows the triggers.")
	case millrace.CodeRateLimited:
		return hint(err, "It was called too often: wait a minute, or define it with a larger --per-minute.")
	case millrace.CodeNotTracked:
		return hint(err, "Operations need a queue that was defined with --tracked.")
	}
	return err
}

// triggerFlags is what a trigger is defined by on the command line.
type triggerFlags struct {
	operation millrace.OperationRequest
	topic     string
	key       string
	perMinute int
	disabled  bool
}

// spec is the definition that the flags stand for.
func (f *triggerFlags) spec() (millrace.TriggerSpec, error) {
	spec := millrace.TriggerSpec{PerMinute: f.perMinute, Enabled: !f.disabled}
	o := f.operation
	switch {
	case (o.Queue == "") == (f.topic == ""):
		return spec, usagef("--queue or --topic is required, but not both: a trigger begins an operation or publishes an event")
	case f.topic == "" && f.key != "":
		return spec, usagef("--key is for --topic: an operation has a --subject")
	case f.topic != "" && (o.Subject != "" || o.DedupeKey != ""):
		return spec, usagef("--subject and --dedupe-key are for --queue: an event has a --key")
	case f.topic != "":
		spec.Event = &millrace.TriggerEvent{Topic: f.topic, Type: o.Type, Tenant: o.Tenant, Key: f.key, Data: o.Payload, Delay: o.Delay}
	default:
		spec.Operation = &o
	}
	return spec, nil
}

func newTriggerCreate(r *remote) *cobra.Command {
	f := triggerFlags{perMinute: millrace.DefaultPerMinute}
	cmd := &cobra.Command{
		Use:   "create NAME --queue QUEUE --type TYPE",
		Short: "Define a trigger, or replace its definition",
		Long: "Define a trigger, or replace its definition. The URL of a new one is printed this once: whoever\n" +
			"has it may call it, without a token. With --payload the body of a call becomes its member\n`request`; without it the body is the payload.",
		Example: "  millrace trigger create resync --queue sync --type MANUAL --subject link:456\n  millrace trigger create built --topic builds --type done",
		Args:    exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			t, _, err := c.Triggers().Put(cmd.Context(), args[0], spec)
			if millrace.CodeOf(err) == millrace.CodeOutcomeUnknown {
				return hint(err, "It may be defined: repeat the command. If no URL is printed then, `millrace trigger rotate "+args[0]+"` makes another.")
			}
			if err != nil {
				return err
			}
			return r.printTrigger(cmd, &t)
		},
	}
	requestFlags(cmd, &f.operation)
	cmd.Flags().StringVar(&f.operation.Queue, "queue", "", "tracked queue in which it begins an operation")
	cmd.Flags().StringVar(&f.topic, "topic", "", "or topic to which it publishes an event")
	cmd.Flags().StringVar(&f.key, "key", "", "key of the event")
	cmd.Flags().IntVar(&f.perMinute, "per-minute", f.perMinute, "most calls a minute; 0 for no limit")
	cmd.Flags().BoolVar(&f.disabled, "disabled", false, "its URL is not found until it is defined without this")
	return cmd
}

// printTrigger prints a trigger and, if it was just made, its URL.
func (r *remote) printTrigger(cmd *cobra.Command, t *millrace.Trigger) error {
	if err := r.print(cmd, api.AppendTrigger(nil, t), triggerRows(*t)); err != nil || r.json || t.Secret == "" {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\nURL, shown this once: %s%s\n", strings.TrimSuffix(r.config.text("server"), "/"), api.TriggerPath(t.Secret))
	return err
}

func triggerRows(list ...millrace.Trigger) [][]string {
	rows := [][]string{{"TRIGGER", "ENABLED", "DOES", "TYPE", "PER MINUTE", "FIRED", "LAST"}}
	for _, t := range list {
		does, typ := "-", "-"
		switch {
		case t.Spec.Operation != nil:
			does, typ = "operation in "+t.Spec.Operation.Queue, t.Spec.Operation.Type
		case t.Spec.Event != nil:
			does, typ = "event to "+t.Spec.Event.Topic, t.Spec.Event.Type
		}
		rows = append(rows, []string{t.Name, strconv.FormatBool(t.Spec.Enabled), does, typ, strconv.Itoa(t.Spec.PerMinute), count(t.Fired), moment(t.LastAt)})
	}
	return rows
}

func newTriggerList(r *remote) *cobra.Command {
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List triggers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			list, next, err := c.Triggers().List(cmd.Context(), page)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendTriggers(nil, list, place(next)), more(triggerRows(list...), next))
		},
	}
	pageFlags(cmd, &page)
	return cmd
}

func newTriggerShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a trigger and how often it was called",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			t, err := c.Triggers().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.printTrigger(cmd, &t)
		},
	}
}

func newTriggerRotate(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give it a new URL; the old one is unknown from now on",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			t, err := c.Triggers().Rotate(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.printTrigger(cmd, &t)
		},
	}
}

func newTriggerDelete(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a trigger",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			return c.Triggers().Delete(cmd.Context(), args[0])
		},
	}
}

func newTriggerFire(r *remote) *cobra.Command {
	var request []byte
	cmd := &cobra.Command{
		Use:     "fire URL",
		Short:   "Call a trigger, as whoever has its URL does",
		Example: "  millrace trigger fire http://127.0.0.1:7070/t/SECRET --body '{\"ref\":\"main\"}'",
		Args:    exactArgs("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := secretOf(args[0], r.config.text("server"))
			if err != nil {
				return err
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			result, err := c.Triggers().Fire(cmd.Context(), secret, request)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendTriggerResult(nil, &result), resultRows(&result))
		},
	}
	cmd.Flags().Var(jsonText{&request}, "body", "what it is called with")
	return cmd
}

// secretOf is the secret in a trigger's URL, which may be given without its server, or alone. Another server's is
// refused, not told to this one.
func secretOf(text, server string) (string, error) {
	base, secret, isPath := strings.Cut(text, "/t/")
	if !isPath {
		base, secret = "", text
	}
	switch {
	case secret == "" || strings.Contains(secret, "/"):
		return "", usagef("give the trigger's URL, such as %s/t/SECRET", server)
	case base != "" && base != strings.TrimSuffix(server, "/"):
		return "", usagef("the URL is of %s, and the commands talk to %s: name it with --server", base, server)
	}
	return secret, nil
}

func resultRows(r *millrace.TriggerResult) [][]string {
	switch {
	case r.Operation != nil:
		return [][]string{{"OPERATION", "STATUS", "EXISTING"}, {r.Operation.ID, string(r.Operation.Status), strconv.FormatBool(r.Operation.Existing)}}
	case r.Event != nil:
		return [][]string{{"EVENT", "SINKS"}, {shown(r.Event.ID), strconv.Itoa(r.Event.Sinks)}}
	}
	return nil
}
