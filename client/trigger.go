package client

import (
	"context"
	"net/http"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// Triggers is what is done with triggers.
func (c *Client) Triggers() millrace.TriggerService { return triggers{c} }

// triggers is what is done with triggers.
type triggers struct{ c *Client }

// ask asks for something of one trigger.
func (t triggers) ask(ctx context.Context, name string, k call) (reply, error) {
	if err := nameFault("trigger", name); err != nil {
		return reply{}, err
	}
	return t.c.do(ctx, k)
}

// Put is asked once: the secret that is made is told this once, and asked again the server would tell none.
func (t triggers) Put(ctx context.Context, name string, spec millrace.TriggerSpec) (millrace.Trigger, bool, error) {
	if err := api.Join(nameFault("trigger", name), millrace.Invalid(spec.Faults(""))); err != nil {
		return millrace.Trigger{}, false, err
	}
	k := put(api.AppendTriggerSpec(nil, &spec), "triggers", name)
	k.once = true
	r, err := t.ask(ctx, name, k)
	if err != nil {
		return millrace.Trigger{}, false, err
	}
	found, err := api.DecodeTrigger(r.text)
	return found, r.status == http.StatusCreated, understood(err)
}

func (t triggers) Get(ctx context.Context, name string) (millrace.Trigger, error) {
	return t.one(ctx, name, get("triggers", name))
}

func (t triggers) one(ctx context.Context, name string, k call) (millrace.Trigger, error) {
	r, err := t.ask(ctx, name, k)
	if err != nil {
		return millrace.Trigger{}, err
	}
	found, err := api.DecodeTrigger(r.text)
	return found, understood(err)
}

func (t triggers) List(ctx context.Context, page millrace.Page) ([]millrace.Trigger, string, error) {
	k := get("triggers")
	k.query = api.EncodePage(page)
	r, err := t.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	list, next, err := api.DecodeTriggers(r.text)
	return list, next, understood(err)
}

func (t triggers) Delete(ctx context.Context, name string) error {
	if err := nameFault("trigger", name); err != nil {
		return err
	}
	return t.c.remove(ctx, remove("triggers", name))
}

// Rotate is asked once: asked again it would make another secret.
func (t triggers) Rotate(ctx context.Context, name string) (millrace.Trigger, error) {
	k := post(nil, "triggers", name, "rotate")
	k.once = true
	return t.one(ctx, name, k)
}

// Fire is asked once: asked again the trigger would fire twice. The client's token is not shown: the secret is all that is needed.
func (t triggers) Fire(ctx context.Context, secret string, request []byte) (millrace.TriggerResult, error) {
	if textFault("secret", secret) != nil {
		return millrace.TriggerResult{}, millrace.Errorf(millrace.CodeNotFound, "there is no such trigger")
	}
	k := post(request, "t", secret)
	k.once, k.bare = true, true
	r, err := t.c.do(ctx, k)
	if err != nil {
		return millrace.TriggerResult{}, err
	}
	result, err := api.DecodeTriggerResult(r.text)
	return result, understood(err)
}
