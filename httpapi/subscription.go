package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// subscriptions lists subscriptions by name.
func (s *server) subscriptions(c *call) (answer, error) {
	page, err := c.page()
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	list, next, err := s.backend.Subscriptions().List(c.Context(), page)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendSubscriptions(nil, list, next))
}

// subscription shows one subscription.
func (s *server) subscription(c *call) (answer, error) {
	name, err := c.name("subscription")
	if err := c.check(err); err != nil {
		return answer{}, err
	}
	sub, err := s.backend.Subscriptions().Get(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendSubscription(nil, &sub))
}

// putSubscription defines a subscription.
func (s *server) putSubscription(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	spec, err := api.DecodeSubscriptionSpec(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	sub, created, err := s.backend.Subscriptions().Put(c.Context(), name, spec)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK, body: api.AppendSubscription(nil, &sub)}
	if created {
		a.status, a.location = http.StatusCreated, "/v1/subscriptions/"+name
	}
	return a, nil
}

// deleteSubscription removes a subscription.
func (s *server) deleteSubscription(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	ifEmpty, err := c.flag("if_empty")
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Subscriptions().Delete(c.Context(), name, ifEmpty))
}

// pauseSubscription stops the sending.
func (s *server) pauseSubscription(c *call) (answer, error) {
	return c.actOn("subscription", s.backend.Subscriptions().Pause)
}

// resumeSubscription ends a pause or a disabling.
func (s *server) resumeSubscription(c *call) (answer, error) {
	return c.actOn("subscription", s.backend.Subscriptions().Resume)
}

// actOn does something with what the path names, that needs no words.
func (c *call) actOn(what string, do func(ctx context.Context, name string) error) (answer, error) {
	name, nameErr := c.name(what)
	if err := c.check(nameErr, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	return done(do(c.Context(), name))
}

// testSubscription sends a ping.
func (s *server) testSubscription(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	if err := c.check(nameErr, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	attempt, err := s.backend.Subscriptions().Test(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendAttempt(nil, &attempt))
}

// rotateSubscription gives a subscription a new secret.
func (s *server) rotateSubscription(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	secret, overlap, err := api.DecodeRotate(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	made, until, err := s.backend.Subscriptions().Rotate(c.Context(), name, secret, overlap)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendRotated(nil, made, until))
}

// injectSubscription puts events into one subscription alone, as they were stored.
func (s *server) injectSubscription(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	events, err := api.DecodeInject(c.body)
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	n, err := s.backend.Subscriptions().Inject(c.Context(), name, events...)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendInjected(nil, n))
}

// batches lists the batches of a subscription.
func (s *server) batches(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	page, pageErr := c.page()
	state, err := c.batchState()
	if err := c.check(nameErr, pageErr, err); err != nil {
		return answer{}, err
	}
	list, next, err := s.backend.Subscriptions().Batches(c.Context(), name, millrace.BatchQuery{State: state, Page: page})
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendBatches(nil, list, next))
}

// batchState is the state of batches that a query asks for, and its fault.
func (c *call) batchState() (millrace.BatchState, error) {
	state := millrace.BatchState(c.URL.Query().Get("state"))
	known := []millrace.BatchState{millrace.BatchEarly, millrace.BatchReady, millrace.BatchPending, millrace.BatchDead}
	if c.URL.Query().Has("state") && !slices.Contains(known, state) {
		return "", millrace.Invalid([]millrace.Fault{{Location: "query.state", Message: "must be early, ready, pending or dead"}})
	}
	return state, nil
}

// batch shows one batch.
func (s *server) batch(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	id, err := c.pathID()
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	b, err := s.backend.Subscriptions().GetBatch(c.Context(), name, id)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendBatch(nil, &b))
}

// dropBatch removes a batch.
func (s *server) dropBatch(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	id, err := c.pathID()
	if err := c.check(nameErr, err); err != nil {
		return answer{}, err
	}
	return done(s.backend.Subscriptions().DropBatch(c.Context(), name, id))
}

// retryBatch sends a batch at once.
func (s *server) retryBatch(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	id, err := c.pathID()
	if err := c.check(nameErr, err, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	n, err := s.backend.Subscriptions().RetryBatch(c.Context(), name, id)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendRetried(nil, n))
}

// retryDead sends all dead batches again.
func (s *server) retryDead(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	if err := c.check(nameErr, api.DecodeNothing(c.body)); err != nil {
		return answer{}, err
	}
	n, err := s.backend.Subscriptions().RetryDead(c.Context(), name)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendRetried(nil, n))
}

// attempts shows the last attempts, of one batch or one event if the query names them.
func (s *server) attempts(c *call) (answer, error) {
	name, nameErr := c.name("subscription")
	batch, batchErr := c.idIn("batch")
	event, err := c.idIn("event")
	if err := c.check(nameErr, batchErr, err); err != nil {
		return answer{}, err
	}
	list, err := s.backend.Subscriptions().Attempts(c.Context(), name, batch, event)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendAttempts(nil, list))
}
