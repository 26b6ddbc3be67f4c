package httpapi

import (
	"net/http"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// publish takes one event or an array of them into a topic.
func (s *server) publish(c *call) (answer, error) {
	path := api.PublishPath{Topic: c.PathValue("topic"), IdempotencyKey: c.Header.Get("Idempotency-Key")}
	events, err := decodePublish(c, path)
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

// decodePublish reads the events of a publish in whatever form they come.
func decodePublish(c *call, path api.PublishPath) ([]millrace.Event, error) {
	// A form that is not supported was refused with the body; without a body there is none.
	form, _ := api.PublishFormOf(c.Header)
	if form == api.EventsForm {
		return api.DecodePublish(c.body, path)
	}
	return api.DecodeCloudEvents(form, c.Header, c.body, path)
}

// takesEvents refuses a body that is no publish.
func takesEvents(h http.Header) error {
	_, err := api.PublishFormOf(h)
	return err
}

// emptyKey refuses an Idempotency-Key that says nothing.
func emptyKey(c *call) error {
	if values, given := c.Header["Idempotency-Key"]; given && values[0] == "" {
		return millrace.Invalid([]millrace.Fault{{Location: "header.Idempotency-Key", Message: "must not be empty"}})
	}
	return nil
}
