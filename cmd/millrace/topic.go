package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/client"
)

func newTopic(r *remote) *cobra.Command {
	cmd := &cobra.Command{Use: "topic", Short: "See topics, and whose they are"}
	cmd.AddCommand(newTopicList(r), newTopicShow(r), newTopicGive(r), newTopicForget(r))
	return cmd
}

func newTopicList(r *remote) *cobra.Command {
	page := millrace.Page{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the topics that events were published to",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			topics, next, err := c.Topics().List(cmd.Context(), page)
			if err != nil {
				return err
			}
			return r.print(cmd, api.AppendTopics(nil, topics, place(next)), more(topicRows(topics...), next))
		},
	}
	pageFlags(cmd, &page)
	return cmd
}

func newTopicShow(r *remote) *cobra.Command {
	return r.onTopic("show TOPIC", "Show a topic", func(cmd *cobra.Command, c *client.Client, name string) (millrace.Topic, error) {
		return c.Topics().Get(cmd.Context(), name)
	})
}

func newTopicGive(r *remote) *cobra.Command {
	var publisher string
	cmd := r.onTopic("give TOPIC --publisher NAME", "Hand a topic to a publisher, or with an empty name to nobody",
		func(cmd *cobra.Command, c *client.Client, name string) (millrace.Topic, error) {
			if !cmd.Flags().Changed("publisher") {
				return millrace.Topic{}, usagef("--publisher is required; --publisher '' frees the topic")
			}
			return c.Topics().Put(cmd.Context(), name, publisher)
		})
	cmd.Flags().StringVar(&publisher, "publisher", "", "name of the token that may publish to it (required)")
	return cmd
}

// onTopic is a command that ends with showing one topic.
func (r *remote) onTopic(use, short string, do func(*cobra.Command, *client.Client, string) (millrace.Topic, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: exactArgs("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			t, err := do(cmd, c, args[0])
			if err != nil {
				return topicHint(err)
			}
			return r.print(cmd, api.AppendTopic(nil, &t), topicRows(t))
		},
	}
}

func newTopicForget(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:   "forget TOPIC",
		Short: "Forget a topic's record and whose it is; what queues hold stays",
		Args:  exactArgs("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.open()
			if err != nil {
				return err
			}
			return topicHint(c.Topics().Delete(cmd.Context(), args[0]))
		},
	}
}

func topicHint(err error) error {
	if millrace.CodeOf(err) == millrace.CodeNotFound {
		return hint(err, "No event was published to this topic yet: `millrace topic list` shows the topics.")
	}
	return err
}

func topicRows(topics ...millrace.Topic) [][]string {
	rows := [][]string{{"TOPIC", "PUBLISHER", "EVENTS", "LAST EVENT"}}
	for _, t := range topics {
		publisher := t.Publisher
		if publisher == "" {
			publisher = "-"
		}
		rows = append(rows, []string{t.Name, publisher, count(t.Events), moment(t.LastEventAt)})
	}
	return rows
}
