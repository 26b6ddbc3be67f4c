package httpapi

import (
	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// publish takes one event or an array of them into a topic.
func (s *server) publish(c *call) (answer, error) {
	path := api.PublishPath{Topic: c.PathValue("topic"), IdempotencyKey: c.Header.Get("Idempotency-Key")}
	events, err := api.DecodePublish(c.body, path)
	if err := c.check(emptyKey(c), err); err != nil {
		s.backend.Refused(1) // how many events there are in what cannot be read is not known
		return answer{}, err
	}
	results, err := s.backend.Publish(c.Context(), events...)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendPublished(make([]byte, 0, 64+128*len(results)), results, s.backend.Durability()))
}

// emptyKey refuses an Idempotency-Key that says nothing.
func emptyKey(c *call) error {
	if values, given := c.Header["Idempotency-Key"]; given && values[0] == "" {
		return millrace.Invalid([]millrace.Fault{{Location: "header.Idempotency-Key", Message: "must not be empty"}})
	}
	return nil
}
