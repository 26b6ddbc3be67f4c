package embedded

import (
	"context"

	"github.com/millrace-dev/millrace"
)

// topic is what a lane has counted of a topic.
type topic struct {
	name      string
	events    int64
	last      int64 // when the last event came, in milliseconds
	dirty     bool  // it has changed since it was written
	forgotten bool
}

// count counts an event by its topic.
func (l *lane) count(name string, now int64) {
	t := l.topics[name]
	if t == nil {
		t = &topic{name: name}
		l.topics[name] = t
	}
	t.events++
	t.last = now
	if !t.dirty {
		t.dirty = true
		l.dirtyTopics = append(l.dirtyTopics, t)
	}
}

// Topics returns the topics that the lane has seen.
func (e *Engine) Topics(ctx context.Context, lane int) ([]millrace.TopicStats, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	var list []millrace.TopicStats
	err = l.do(ctx, func(*group) error {
		for _, t := range l.topics {
			list = append(list, millrace.TopicStats{Name: t.name, Events: t.events, LastEventAt: milli(t.last)})
		}
		return nil
	})
	return list, err
}

// ForgetTopic drops the lane's record of a topic.
func (e *Engine) ForgetTopic(ctx context.Context, lane int, name string) error {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.do(ctx, func(g *group) error {
		t := l.topics[name]
		if t == nil {
			return nil
		}
		t.forgotten = true
		delete(l.topics, name)
		g.key = topicKey(g.key[:0], l.no, name)
		g.del()
		return nil
	})
}
