package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func newSubscription(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "subscription", Short: "Have events pushed to a URL, and look after it"}
	cmd.AddCommand(
		newSubscriptionCreate(r), newSubscriptionList(r), newSubscriptionShow(r), newSubscriptionDelete(r),
		newSubscriptionPause(r), newSubscriptionResume(r), newSubscriptionTest(r), newSubscriptionRotate(r),
		newSubscriptionBatches(r), newSubscriptionBatch(r), newSubscriptionAttempts(r), newSubscriptionRetry(r), newSubscriptionDrop(r), newSubscriptionInject(r),
	)
	for _, sub := range cmd.Commands() {
		do := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return subscriptionHint(do(cmd, args)) }
	}
	cmd.AddCommand(newSubscriptionListen())
	return cmd
}

// subscriptionHint adds to an error what can be done about it.
func subscriptionHint(err error) error {
	switch millrace.CodeOf(err) {
	case millrace.CodeNotFound:
		return hint(err, "There is no such subscription or batch: `millrace subscription list` shows the subscriptions.")
	case millrace.CodeImmutable:
		return hint(err, "Define a subscription under another name, or remove this one first with `millrace subscription delete`.")
	case millrace.CodePending:
		return hint(err, "It is being sent: try again in a moment.")
	case millrace.CodeInvalid:
		if strings.Contains(err.Error(), "callback") {
			return hint(err, "For a receiver on this machine or network start the server with --allow-callbacks-to, such as 127.0.0.0/8.")
		}
	}
	return err
}

func newSubscriptionCreate(r *remote) *cobra.Command {
	spec := millrace.DefaultSubscriptionSpec("")
	var secret string
	cmd := &cobra.Command{
		Use:     "create NAME --callback URL --topic TOPIC",
		Short:   "Define a subscription, or replace its definition",
		Long:    "Define a subscription, or replace its definition. A secret that is made for a new one is\nprinted this once: the receiver needs it to verify what it gets.",
		Example: "  millrace subscription create shop --callback https://shop.example/hook --topic orders",
		Args:    exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if secret != "" {
				spec.Secrets = []millrace.Secret{{Text: secret}}
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			s, _, err := c.Subscriptions().Put(cmd.Context(), args[0], spec)
			if secret == "" && millrace.CodeOf(err) == millrace.CodeOutcomeUnknown {
				return hint(err, "It may be defined: repeat the command. If no secret is printed then, `millrace subscription rotate "+args[0]+"` makes another.")
			}
			if err != nil {
				return err
			}
			if err := r.print(cmd, api.AppendSubscription(nil, &s), subscriptionRows(s)); err != nil || r.json || s.MadeSecret == "" {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nsecret, shown this once: %s\n", s.MadeSecret)
			return err
		},
	}
	subscriptionFlags(cmd, &spec)
	cmd.Flags().StringVar(&secret, "secret", "", "whsec_… to sign with; made if there is none")
	return cmd
}

// subscriptionFlags are the settings of a subscription.
func subscriptionFlags(cmd *cobra.Command, spec *millrace.SubscriptionSpec) {
	f := cmd.Flags()
	f.StringVar(&spec.Callback, "callback", "", "URL that batches are posted to (required)")
	f.StringSliceVar(&spec.Topics, "topic", nil, "topics it wants; may be repeated")
	f.StringVar(&spec.Match, "match", "", "or a regular expression for TENANT:TOPIC:TYPE")
	durationVar(f, &spec.Timeout, "timeout", "how long a batch collects")
	f.IntVar(&spec.MaxEvents, "max-events", spec.MaxEvents, "most events of a batch")
	f.IntVar(&spec.MaxBytes, "max-bytes", spec.MaxBytes, "most bytes of a batch's events")
	f.StringVar((*string)(&spec.Format), "format", string(spec.Format), "events or cloudevents")
	f.BoolVar(&spec.Ordered, "ordered", false, "one batch at a time, none overtakes; cannot change later")
	f.StringVar(&spec.UUID, "uuid", "", "user name to show the receiver, by Basic auth")
	f.IntVar(&spec.Concurrency, "concurrency", spec.Concurrency, "most batches sent at a time")
	durationVar(f, &spec.RequestTimeout, "request-timeout", "how long the receiver may take")
	f.Var(durations{&spec.RetrySchedule}, "retry-schedule", "the waits after failed attempts, such as 5s,5m,1h; or none")
	durationVar(f, &spec.DeadRetention, "dead-retention", "how long dead batches are kept; 0s for ever")
	durationVar(f, &spec.DisableAfter, "disable-after", "of nothing but failure it is disabled; 0s for never")
}

// durations is a flag of several durations.
type durations struct{ to *[]time.Duration }

func (d durations) String() string {
	if d.to == nil {
		return ""
	}
	texts := make([]string, len(*d.to))
	for i, v := range *d.to {
		texts[i] = api.FormatDuration(v)
	}
	return strings.Join(texts, ",")
}

func (d durations) Type() string { return "durations" }

func (d durations) Set(s string) error {
	list := []time.Duration{}
	if s == "none" {
		*d.to = list
		return nil
	}
	for _, text := range strings.Split(s, ",") {
		v, ok := api.ParseDuration(strings.TrimSpace(text))
		if !ok {
			return errors.New("must be durations such as 5s,5m,1h, or none")
		}
		list = append(list, v)
	}
	*d.to = list
	return nil
}

func subscriptionRows(list ...millrace.Subscription) [][]string {
	rows := [][]string{{"SUBSCRIPTION", "STATE", "WANTS", "CALLBACK", "QUEUED", "SENT", "FAILED", "DEAD", "NEXT ATTEMPT", "REASON"}}
	for _, s := range list {
		wants := s.Spec.Match
		if len(s.Spec.Topics) > 0 {
			wants = strings.Join(s.Spec.Topics, ",")
		}
		rows = append(rows, []string{
			s.Name, s.State, shown(wants), shown(s.Spec.Callback), count(s.Queued), count(s.Sent), count(s.Failed), count(s.Dead), moment(s.NextAttemptAt), dash(s.Reason),
		})
	}
	return rows
}

// dash is a text for a table, or a dash for none.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return shown(s)
}

func newSubscriptionList(r *remote) *cobra.Command {
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List subscriptions with what they hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			list, next, err := c.Subscriptions().List(cmd.Context(), page)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendSubscriptions(nil, list, place(next)), more(subscriptionRows(list...), next))
		},
	}
	pageFlags(cmd, &page)
	return cmd
}

func newSubscriptionShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a subscription with what it holds",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			s, err := c.Subscriptions().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendSubscription(nil, &s), subscriptionRows(s))
		},
	}
}

func newSubscriptionDelete(r *remote) *cobra.Command {
	var ifEmpty, yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME --yes",
		Short: "Remove a subscription with all it holds",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !ifEmpty && !yes {
				return usagef("this removes the subscription with all its batches: add --yes to do it, or --if-empty to do it only if there are none")
			}
			c, err := r.open()
			if err != nil {
				return err
			}
			return c.Subscriptions().Delete(cmd.Context(), args[0], ifEmpty)
		},
	}
	cmd.Flags().BoolVar(&ifEmpty, "if-empty", false, "only if it holds nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "yes, with all it holds")
	return cmd
}

func newSubscriptionTest(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send a ping now and show what came of it", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			a, err := c.Subscriptions().Test(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendAttempt(nil, &a), attemptRows(a))
		},
	}
}

func newSubscriptionRotate(r *remote) *cobra.Command {
	var secret string
	overlap := 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give it a new secret; the old ones sign on for a while",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			made, until, err := c.Subscriptions().Rotate(cmd.Context(), args[0], secret, overlap)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendRotated(nil, made, until), [][]string{{"SECRET", "OLD ONES UNTIL"}, {made, moment(until)}})
		},
	}
	cmd.Flags().StringVar(&secret, "secret", "", "whsec_… to sign with; made if there is none")
	durationVar(cmd.Flags(), &overlap, "overlap", "how long the old ones sign on")
	return cmd
}
