package httpapi

import (
	"net/http"

	"github.com/millrace-dev/millrace/api"
)

// live says that the process lives.
func (s *server) live(*call) (answer, error) { return ok(api.AppendHealth(nil, true)) }

// ready says whether requests can be served.
func (s *server) ready(c *call) (answer, error) {
	if err := s.backend.Ready(c.Context()); err != nil {
		return answer{status: http.StatusServiceUnavailable, body: api.AppendHealth(nil, false)}, nil
	}
	return ok(api.AppendHealth(nil, true))
}

// nodes lists who has joined the store.
func (s *server) nodes(c *call) (answer, error) {
	if err := c.check(); err != nil {
		return answer{}, err
	}
	nodes, err := s.backend.Nodes(c.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendNodes(nil, nodes))
}

// stats describes the store.
func (s *server) stats(c *call) (answer, error) {
	if err := c.check(); err != nil {
		return answer{}, err
	}
	stats, err := s.backend.Stats(c.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendStats(nil, &stats))
}

// describe is the API's own description.
func (s *server) describe(*call) (answer, error) { return ok(s.openAPI) }
