package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func topicPromises() []promise {
	return []promise{
		{"ALaneCountsTheEventsOfEachTopic", laneCountsTopics},
		{"ADuplicateIsNotCountedForItsTopic", duplicateIsNotCounted},
		{"AnEventThatNobodyWantsIsCountedForItsTopic", unroutedIsCounted},
		{"ForgettingATopicLeavesTheSinksAlone", forgettingLeavesSinks},
		{"ForgettingAnUnknownTopicChangesNothing", forgettingUnknown},
	}
}

// topics are what a lane knows of topics, by name.
func (r *rig) topics(lane int) []millrace.TopicStats {
	r.Helper()
	topics, err := r.Topics(r.ctx(), lane)
	r.ok(err)
	return byName(topics)
}

func of(topic string, e millrace.CommitEvent) millrace.CommitEvent {
	e.Topic = topic
	return e
}

func laneCountsTopics(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.same("topics of an untouched lane", len(r.topics(lane)), 0)
		first := r.now
		r.publish(lane, of("x", event("a", "1", q)), of("y", event("b", "2", q)), of("x", event("b", "3", q)))
		r.pass(time.Second)
		r.publish(lane, of("y", event("a", "4", q)))
		r.same("topics", r.topics(lane), []millrace.TopicStats{
			{Name: "x", Events: 2, LastEventAt: first}, {Name: "y", Events: 2, LastEventAt: r.now},
		})
	})
}

func duplicateIsNotCounted(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	first := r.now
	r.publish(0, known(of("x", event("a", "1", q)), "1"))
	r.pass(time.Second)
	r.publish(0, known(of("x", event("a", "1", q)), "1"))
	r.same("topics", r.topics(0), []millrace.TopicStats{{Name: "x", Events: 1, LastEventAt: first}})
}

func unroutedIsCounted(t *testing.T, c Config) {
	r := open(t, c)
	r.publish(0, of("x", event("a", "1")))
	r.same("topics", r.topics(0), []millrace.TopicStats{{Name: "x", Events: 1, LastEventAt: r.now}})
}

func forgettingLeavesSinks(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, of("x", event("a", "1", q)), of("y", event("a", "2", q)))
	r.ok(r.ForgetTopic(r.ctx(), 0, "x"))
	r.same("topics", r.topics(0), []millrace.TopicStats{{Name: "y", Events: 1, LastEventAt: r.now}})
	r.reopen()
	r.same("topics after a reopen", len(r.topics(0)), 1)
	r.same("messages", r.lease(0, q, 5).names(), []string{"1", "2"})
	r.publish(0, of("x", event("a", "3", q)))
	r.same("topics after another event", r.topics(0)[0], millrace.TopicStats{Name: "x", Events: 1, LastEventAt: r.now})
}

func forgettingUnknown(t *testing.T, c Config) {
	r := open(t, c)
	for i := range 3 {
		r.publish(0, of(fmt.Sprint(i), event("a", "1")))
	}
	r.ok(r.ForgetTopic(r.ctx(), 0, "nobody"))
	r.same("topics", len(r.topics(0)), 3)
}
