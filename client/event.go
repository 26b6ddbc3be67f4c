package client

import (
	"context"
	"net/url"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// Held returns a delayed event of a tenant that is not due yet.
func (c *Client) Held(ctx context.Context, tenant, id string) (millrace.Delayed, error) {
	k := get("events", id)
	if err := heldFaults(&k, tenant, id); err != nil {
		return millrace.Delayed{}, err
	}
	r, err := c.do(ctx, k)
	if err != nil {
		return millrace.Delayed{}, err
	}
	event, err := api.DecodeDelayed(r.text)
	return event, understood(err)
}

// CancelHeld takes a delayed event back that is not due yet.
func (c *Client) CancelHeld(ctx context.Context, tenant, id string) error {
	k := remove("events", id)
	if err := heldFaults(&k, tenant, id); err != nil {
		return err
	}
	return c.remove(ctx, k)
}

// heldFaults checks which event is meant and puts its tenant into the query.
func heldFaults(k *call, tenant, id string) error {
	k.query = url.Values{"tenant": {tenant}}
	return api.Join(nameFault("tenant", tenant), textFault("id", id))
}

// Route says which sinks an event of this address would reach now.
func (c *Client) Route(ctx context.Context, tenant, topic, typ string) (millrace.Route, error) {
	if tenant == "" {
		tenant = millrace.DefaultTenant
	}
	if err := api.Join(nameFault("tenant", tenant), nameFault("topic", topic), nameFault("type", typ)); err != nil {
		return millrace.Route{}, err
	}
	k := get("route")
	k.query = url.Values{"tenant": {tenant}, "topic": {topic}, "type": {typ}}
	r, err := c.do(ctx, k)
	if err != nil {
		return millrace.Route{}, err
	}
	route, err := api.DecodeRoute(r.text)
	return route, understood(err)
}
