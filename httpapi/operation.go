package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// startOperation enqueues one piece of work.
func (s *server) startOperation(c *call) (answer, error) {
	r, err := api.DecodeOperationRequest(c.body)
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	started, err := s.backend.Operations().Start(c.Context(), r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, location: api.OperationPath(started.ID), body: api.AppendStarted(nil, &started)}, nil
}

// operation shows one operation, at once or when its status is another.
func (s *server) operation(c *call) (answer, error) {
	id, idErr := c.pathID()
	seen, wait, waits, err := api.DecodeAwait(c.URL.Query())
	if err := c.check(idErr, err); err != nil {
		return answer{}, err
	}
	var o millrace.TrackedOperation
	if waits {
		o, err = s.backend.Operations().Await(c.Context(), id, seen, wait)
	} else {
		o, err = s.backend.Operations().Get(c.Context(), id)
	}
	return shownOperation(&o, err)
}

func shownOperation(o *millrace.TrackedOperation, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendOperation(nil, o))
}

// watchOperation shows an operation at each change, until it has finished.
func (s *server) watchOperation(c *call) (answer, error) {
	id, err := c.pathID()
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancel(c.Context())
	items, err := s.backend.Operations().Watch(ctx, id)
	if err != nil {
		cancel()
		return answer{}, err
	}
	return streamed(ctx, s, c, cancel, items, api.AppendOperationFrame), nil
}

// operations lists operations, newest first.
func (s *server) operations(c *call) (answer, error) {
	q, err := api.DecodeOperationQuery(c.URL.Query())
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	list, next, err := s.backend.Operations().List(c.Context(), q)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendOperations(nil, list, next))
}

// cancelOperation ends an operation, or asks for its end.
func (s *server) cancelOperation(c *call) (answer, error) {
	id, err := c.pathID()
	if err := c.check(err, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	o, err := s.backend.Operations().Cancel(c.Context(), id)
	return shownOperation(&o, err)
}

// reportProgress tells how far an operation has come.
func (s *server) reportProgress(c *call) (answer, error) {
	id, idErr := c.pathID()
	receipt, p, err := api.DecodeProgress(c.body)
	if err := c.check(idErr, err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Operations().Report(c.Context(), id, receipt, p))
}

// operationCounts tells what happened to the operations of a queue.
func (s *server) operationCounts(c *call) (answer, error) {
	q, err := api.DecodeCountQuery(c.URL.Query(), time.Now())
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	counts, err := s.backend.Operations().Counts(c.Context(), q)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendOperationCounts(nil, &counts))
}
