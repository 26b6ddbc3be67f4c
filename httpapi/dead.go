package httpapi

import (
	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// peek shows what waits, in the order of serving.
func (s *server) peek(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	tenant, tenantErr := c.word("tenant", "")
	page, err := c.page()
	if err := c.check(nameErr, tenantErr, err); err != nil {
		return answer{}, err
	}
	messages, err := s.backend.Queues().Peek(c.Context(), name, tenant, page.Limit)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendStoredMessages(nil, messages, ""))
}

// dead lists dead letters, oldest first.
func (s *server) dead(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	tenant, tenantErr := c.word("tenant", "")
	page, err := c.page()
	if err := c.check(nameErr, tenantErr, err); err != nil {
		return answer{}, err
	}
	messages, next, err := s.backend.Queues().Dead(c.Context(), name, tenant, page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendStoredMessages(nil, messages, next))
}

// redrive makes dead letters wait again.
func (s *server) redrive(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	which, err := api.DecodeRedrive(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, left, err := s.backend.Queues().Redrive(c.Context(), name, which)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendRedriven(nil, n, left))
}

// dropDead removes dead letters, of one tenant or all.
func (s *server) dropDead(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	tenant, err := c.word("tenant", "")
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, left, err := s.backend.Queues().DropDead(c.Context(), name, millrace.DeadSelection{All: true, Tenant: tenant})
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendPurged(nil, n, left))
}

// dropOneDead removes one dead letter.
func (s *server) dropOneDead(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	id, err := c.pathID()
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	_, _, err = s.backend.Queues().DropDead(c.Context(), name, millrace.DeadSelection{IDs: []string{id}})
	return done(err)
}

// purge removes what waits or is delayed, of one tenant or all.
func (s *server) purge(c *call) (answer, error) {
	name, nameErr := c.name("queue")
	tenant, err := api.DecodePurge(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, left, err := s.backend.Queues().Purge(c.Context(), name, tenant)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendPurged(nil, n, left))
}
