package httpapi

import (
	"context"
	"net/http"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// live says that the process lives.
func (s *server) live(*call) (answer, error) { return ok(api.AppendHealth(nil, true)) }

// ready says whether requests can be served, and with ?verbose how the store fares.
func (s *server) ready(c *call) (answer, error) {
	if q := c.URL.Query(); q.Has("verbose") && q.Get("verbose") != "false" {
		return s.readyVerbose(c)
	}
	if err := s.backend.Ready(c.Context()); err != nil {
		return answer{status: http.StatusServiceUnavailable, body: api.AppendHealth(nil, false)}, nil
	}
	return ok(api.AppendHealth(nil, true))
}

// readyVerbose tells what only those may know who may manage. It answers also
// when the store does not: what is not known then is zero.
func (s *server) readyVerbose(c *call) (answer, error) {
	p, err := s.door.principal(c.Request)
	if err != nil {
		return answer{}, err
	}
	if !p.may(scopeManage) {
		return answer{}, millrace.Errorf(millrace.CodeForbidden, "this needs the scope %s", scopeManage)
	}
	found, err := s.diagnose(c.Context())
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK}
	ready := s.backend.Ready(c.Context()) == nil
	if !ready {
		a.status = http.StatusServiceUnavailable
	}
	stats, err := s.backend.Stats(c.Context())
	if err != nil && ready {
		return answer{}, err
	}
	a.body = api.AppendReadiness(nil, &stats, ready, found)
	return a, nil
}

// diagnose looks at the store, as closely as the backend can.
func (s *server) diagnose(ctx context.Context) ([]millrace.Finding, error) {
	if d, can := s.backend.(millrace.Diagnoser); can {
		return d.Diagnose(ctx)
	}
	return []millrace.Finding{{Name: "store", Grade: millrace.GradeOK}}, nil
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
