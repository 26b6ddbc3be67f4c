package httpapi

import (
	"net/http"

	"github.com/millrace-dev/millrace/api"
)

// queues lists queues by name.
func (s *server) queues(c *call) (answer, error) {
	page, err := c.page()
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	queues, next, err := s.backend.Queues().List(c.Context(), page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendQueues(nil, queues, next))
}

// queue shows one queue.
func (s *server) queue(c *call) (answer, error) {
	name, err := c.name("queue")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	queue, err := s.backend.Queues().Get(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendQueue(nil, &queue))
}

// putQueue defines a queue.
func (s *server) putQueue(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	spec, err := api.DecodeQueueSpec(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	queue, created, err := s.backend.Queues().Put(c.Context(), name, spec)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, body: api.AppendQueue(nil, &queue)}
	if created {
		a.status, a.location = http.StatusCreated, "/v1/queues/"+name
	}
	return a, nil
}

// deleteQueue removes a queue.
func (s *server) deleteQueue(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	ifEmpty, err := c.flag("if_empty")
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Queues().Delete(c.Context(), name, ifEmpty))
}

// pause stops the leasing of a queue.
func (s *server) pause(c *call) (answer, error) { return c.actOn("queue", s.backend.Queues().Pause) }

// resume ends a pause.
func (s *server) resume(c *call) (answer, error) { return c.actOn("queue", s.backend.Queues().Resume) }

// inject puts events into one queue alone, as they were stored.
func (s *server) inject(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	events, err := api.DecodeInject(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, err := s.backend.Queues().Inject(c.Context(), name, events...)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendInjected(nil, n))
}
