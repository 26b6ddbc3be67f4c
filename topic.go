package millrace

import (
	"context"
	"time"
)

// TopicStats is what one lane knows of a topic.
type TopicStats struct {
	Name        string
	Events      int64
	LastEventAt time.Time
}

// Topics is the part of an engine that counts events by topic.
type Topics interface {
	// Topics returns the topics that the lane has seen.
	Topics(ctx context.Context, lane int) ([]TopicStats, error)

	// ForgetTopic drops the lane's record of a topic. Sinks are not touched.
	ForgetTopic(ctx context.Context, lane int, topic string) error
}
