package redis

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace"
)

// Topics returns the topics that a lane has seen.
func (e *Engine) Topics(ctx context.Context, lane int) ([]millrace.TopicStats, error) {
	reply, err := e.runLane(ctx, &e.scripts.topicList, lane, timeless)
	if err != nil {
		return nil, err
	}
	topics := make([]millrace.TopicStats, 0, len(reply)/2)
	for ; len(reply) >= 2; reply = reply[2:] {
		var count, last int64
		if _, err := fmt.Sscanf(textOf(reply[1]), "%d %d", &count, &last); err != nil {
			return nil, millrace.Wrap(millrace.CodeInternal, err, "the store holds a topic that cannot be read")
		}
		topics = append(topics, millrace.TopicStats{Name: textOf(reply[0]), Events: count, LastEventAt: moment(last)})
	}
	return topics, nil
}

// ForgetTopic drops a lane's record of a topic.
func (e *Engine) ForgetTopic(ctx context.Context, lane int, topic string) error {
	_, err := e.runLane(ctx, &e.scripts.topicForget, lane, timeless, topic)
	return err
}
