package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// subscriptions is what is done with subscriptions.
type subscriptions struct{ c *Client }

// ask asks for something of one subscription.
func (s subscriptions) ask(ctx context.Context, name string, k call) (reply, error) {
	if err := nameFault("subscription", name); err != nil {
		return reply{}, err
	}
	return s.c.do(ctx, k)
}

// Put is asked once if it brings no secret: the one that is made is told this once, and
// asked again the server would tell none.
func (s subscriptions) Put(ctx context.Context, name string, spec millrace.SubscriptionSpec) (millrace.Subscription, bool, error) {
	k := put(api.AppendSubscriptionSpec(nil, &spec), "subscriptions", name)
	k.once = len(spec.Secrets) == 0
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return millrace.Subscription{}, false, err
	}
	sub, err := api.DecodeSubscription(r.text)
	return sub, r.status == http.StatusCreated, understood(err)
}

func (s subscriptions) Get(ctx context.Context, name string) (millrace.Subscription, error) {
	r, err := s.ask(ctx, name, get("subscriptions", name))
	if err != nil {
		return millrace.Subscription{}, err
	}
	sub, err := api.DecodeSubscription(r.text)
	return sub, understood(err)
}

func (s subscriptions) List(ctx context.Context, page millrace.Page) ([]millrace.Subscription, string, error) {
	k := get("subscriptions")
	k.query = api.EncodePage(page)
	r, err := s.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeSubscriptions(r.text)
	return list, next, understood(err)
}

func (s subscriptions) Delete(ctx context.Context, name string, ifEmpty bool) error {
	if err := nameFault("subscription", name); err != nil {
		return err
	}
	k := remove("subscriptions", name)
	if ifEmpty {
		k.query = url.Values{"if_empty": {"true"}}
	}
	return s.c.remove(ctx, k)
}

func (s subscriptions) Pause(ctx context.Context, name string) error {
	_, err := s.ask(ctx, name, post(nil, "subscriptions", name, "pause"))
	return err
}

func (s subscriptions) Resume(ctx context.Context, name string) error {
	_, err := s.ask(ctx, name, post(nil, "subscriptions", name, "resume"))
	return err
}

func (s subscriptions) Test(ctx context.Context, name string) (millrace.Attempt, error) {
	k := post(nil, "subscriptions", name, "test")
	k.wait, k.once = millrace.MaxRequestTimeout, true
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return millrace.Attempt{}, err
	}
	a, err := api.DecodeAttempt(r.text)
	return a, understood(err)
}

// Rotate is asked once: asked again it would make another secret.
func (s subscriptions) Rotate(ctx context.Context, name, secret string, overlap time.Duration) (string, time.Time, error) {
	k := post(api.AppendRotate(nil, secret, overlap), "subscriptions", name, "rotate")
	k.once = true
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return "", time.Time{}, err
	}
	made, until, err := api.DecodeRotated(r.text)
	return made, until, understood(err)
}

func (s subscriptions) Batches(ctx context.Context, name string, q millrace.BatchQuery) ([]millrace.SubscriptionBatch, string, error) {
	k := get("subscriptions", name, "batches")
	k.query = api.EncodePage(q.Page)
	if q.State != "" {
		k.query.Set("state", string(q.State))
	}
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeBatches(r.text)
	return list, next, understood(err)
}

func (s subscriptions) GetBatch(ctx context.Context, name, id string) (millrace.SubscriptionBatch, error) {
	if err := textFault("batch", id); err != nil {
		return millrace.SubscriptionBatch{}, err
	}
	r, err := s.ask(ctx, name, get("subscriptions", name, "batches", id))
	if err != nil {
		return millrace.SubscriptionBatch{}, err
	}
	b, err := api.DecodeBatch(r.text)
	return b, understood(err)
}

func (s subscriptions) DropBatch(ctx context.Context, name, id string) error {
	if err := api.Join(nameFault("subscription", name), textFault("batch", id)); err != nil {
		return err
	}
	return s.c.remove(ctx, remove("subscriptions", name, "batches", id))
}

func (s subscriptions) RetryBatch(ctx context.Context, name, id string) (int, error) {
	if err := textFault("batch", id); err != nil {
		return 0, err
	}
	return s.retried(ctx, name, post(nil, "subscriptions", name, "batches", id, "retry"))
}

func (s subscriptions) RetryDead(ctx context.Context, name string) (int, error) {
	return s.retried(ctx, name, post(nil, "subscriptions", name, "dead", "retry"))
}

// retried asks once: asked again it could count what failed meanwhile.
func (s subscriptions) retried(ctx context.Context, name string, k call) (int, error) {
	k.once = true
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return 0, err
	}
	n, err := api.DecodeRetried(r.text)
	return n, understood(err)
}

func (s subscriptions) Attempts(ctx context.Context, name, batch, event string) ([]millrace.Attempt, error) {
	k := get("subscriptions", name, "attempts")
	k.query = url.Values{}
	if batch != "" {
		k.query.Set("batch", batch)
	}
	if event != "" {
		k.query.Set("event", event)
	}
	r, err := s.ask(ctx, name, k)
	if err != nil {
		return nil, err
	}
	list, err := api.DecodeAttempts(r.text)
	return list, understood(err)
}

func (s subscriptions) Inject(ctx context.Context, name string, events ...millrace.Event) (int, error) {
	if err := api.Join(nameFault("subscription", name), eventFaults(events)); err != nil {
		return 0, err
	}
	return s.c.inject(ctx, events, "subscriptions", name, "inject")
}
