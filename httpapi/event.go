package httpapi

import (
	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// event shows an event that is not due yet.
func (s *server) event(c *call) (answer, error) {
	tenant, id, err := c.held()
	if err != nil {
		return answer{}, err
	}
	event, err := s.backend.Held(c.Context(), tenant, id)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendDelayed(nil, &event))
}

// cancelEvent takes an event back that is not due yet.
func (s *server) cancelEvent(c *call) (answer, error) {
	tenant, id, err := c.held()
	if err != nil {
		return answer{}, err
	}
	return done(s.backend.CancelHeld(c.Context(), tenant, id))
}

// held is which delayed event a request is about.
func (c *call) held() (tenant, id string, err error) {
	id, idErr := c.pathID()
	tenant, tenantErr := c.word("tenant", millrace.DefaultTenant)
	return tenant, id, c.check(idErr, tenantErr)
}

// route says what an address would reach now.
func (s *server) route(c *call) (answer, error) {
	tenant, tenantErr := c.word("tenant", millrace.DefaultTenant)
	topic, topicErr := c.wanted("topic")
	typ, typeErr := c.wanted("type")
	if err := c.check(tenantErr, topicErr, typeErr); err != nil {
		return answer{}, err
	}
	route, err := s.backend.Route(c.Context(), tenant, topic, typ)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendRoute(nil, &route))
}
