package httpapi

import "github.com/millrace-dev/millrace/api"

// topics lists topics by name.
func (s *server) topics(c *call) (answer, error) {
	page, err := c.page()
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	topics, next, err := s.backend.Topics().List(c.Context(), page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTopics(nil, topics, next))
}

// topic shows one topic.
func (s *server) topic(c *call) (answer, error) {
	name, err := c.name("topic")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	topic, err := s.backend.Topics().Get(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTopic(nil, &topic))
}

// putTopic hands a topic to a publisher, or to nobody.
func (s *server) putTopic(c *call) (answer, error) {
	name, nameErr := c.name("topic")
	publisher, err := api.DecodeTopicPut(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	topic, err := s.backend.Topics().Put(c.Context(), name, publisher)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTopic(nil, &topic))
}

// deleteTopic forgets a topic.
func (s *server) deleteTopic(c *call) (answer, error) {
	name, err := c.name("topic")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Topics().Delete(c.Context(), name))
}
