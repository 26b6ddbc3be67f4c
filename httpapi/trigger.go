package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// triggers lists triggers by name.
func (s *server) triggers(c *call) (answer, error) {
	page, err := c.page()
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	list, next, err := s.backend.Triggers().List(c.Context(), page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTriggers(nil, list, next))
}

// trigger shows one trigger.
func (s *server) trigger(c *call) (answer, error) {
	name, err := c.name("trigger")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	t, err := s.backend.Triggers().Get(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTrigger(nil, &t))
}

// putTrigger defines a trigger.
func (s *server) putTrigger(c *call) (answer, error) {
	name, nameErr := c.name("trigger")
	spec, err := api.DecodeTriggerSpec(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	t, created, err := s.backend.Triggers().Put(c.Context(), name, spec)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, body: api.AppendTrigger(nil, &t)}
	if created {
		a.status, a.location = http.StatusCreated, "/v1/triggers/"+name
	}
	return a, nil
}

// deleteTrigger removes a trigger.
func (s *server) deleteTrigger(c *call) (answer, error) {
	name, err := c.name("trigger")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Triggers().Delete(c.Context(), name))
}

// rotateTrigger gives a trigger a new URL.
func (s *server) rotateTrigger(c *call) (answer, error) {
	name, nameErr := c.name("trigger")
	if err := c.check(nameErr, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	t, err := s.backend.Triggers().Rotate(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendTrigger(nil, &t))
}

// fire does what the trigger of a secret URL does.
func (s *server) fire(c *call) (answer, error) {
	request, err := api.DecodeTriggerCall(c.body)
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	r, err := s.backend.Triggers().Fire(c.Context(), c.PathValue("secret"), request)
	if err != nil {
		return answer{}, wholeBody(err)
	}
	a := answer{status: http.StatusAccepted, body: api.AppendTriggerResult(nil, &r)}
	if r.Operation != nil {
		a.location = api.OperationPath(r.Operation.ID)
	} else {
		a.location = "/v1/events/" + r.Event.ID
	}
	return a, nil
}

// wholeBody says of faults in what a trigger made of a request that they are in the request: its caller knows of nothing else.
func wholeBody(err error) error {
	var invalid *millrace.Error
	if !errors.As(err, &invalid) || invalid.Code != millrace.CodeInvalid {
		return err
	}
	faults := make([]millrace.Fault, len(invalid.Faults))
	for i, f := range invalid.Faults {
		faults[i] = millrace.Fault{Location: "body", Message: f.Message}
		if at := f.Location[strings.LastIndex(f.Location, ".")+1:]; at != "data" && at != "payload" {
			faults[i].Message = "cannot be used: what the trigger asks for is refused, its " + at + " " + f.Message
		}
	}
	return millrace.Invalid(faults)
}

// takesAnything takes a body whatever it is called: whoever calls a trigger may not choose.
func takesAnything(http.Header) error { return nil }
