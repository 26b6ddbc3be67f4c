package httpapi

import "github.com/millrace-dev/millrace/api"

// tenants lists the tenants of a queue, deepest first.
func (s *server) tenants(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	page, err := c.page()
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	tenants, next, err := s.backend.Queues().Tenants(c.Context(), name, page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTenants(nil, tenants, next))
}

// tenant shows what one tenant has in a queue.
func (s *server) tenant(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	who, err := c.name("tenant")
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	tenant, err := s.backend.Queues().Tenant(c.Context(), name, who)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTenant(nil, &tenant))
}

// putTenant gives a tenant a weight and a limit in a queue.
func (s *server) putTenant(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	who, whoErr := c.name("tenant")
	settings, err := api.DecodeTenantSettings(c.body)
	if err := c.check(nameErr, whoErr, err); err != nil {
		return answer{}, err
	}
	tenant, err := s.backend.Queues().PutTenant(c.Context(), name, who, settings)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTenant(nil, &tenant))
}

// deleteTenant takes a tenant's weight and limit away.
func (s *server) deleteTenant(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	who, err := c.name("tenant")
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Queues().DeleteTenant(c.Context(), name, who))
}
