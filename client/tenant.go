package client

import (
	"context"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

func (q queues) Tenants(ctx context.Context, name string, page millrace.Page) ([]millrace.Tenant, string, error) {
	if err := nameFault("queue", name); err != nil {
		return nil, "", err
	}
	k := get("queues", name, "tenants")
	k.query = api.EncodePage(page)
	r, err := q.c.do(ctx, k)
	if err != nil {
		return nil, "", err
	}
	tenants, next, err := api.DecodeTenants(r.text)
	return tenants, next, understood(err)
}

func (q queues) Tenant(ctx context.Context, name, tenant string) (millrace.Tenant, error) {
	return q.tenant(ctx, name, tenant, get("queues", name, "tenants", tenant))
}

func (q queues) PutTenant(ctx context.Context, name, tenant string, s millrace.TenantSettings) (millrace.Tenant, error) {
	return q.tenant(ctx, name, tenant, put(api.AppendTenantSettings(nil, s), "queues", name, "tenants", tenant))
}

// tenant asks for something that answers with a tenant.
func (q queues) tenant(ctx context.Context, name, tenant string, k call) (millrace.Tenant, error) {
	if err := api.Join(nameFault("queue", name), nameFault("tenant", tenant)); err != nil {
		return millrace.Tenant{}, err
	}
	r, err := q.c.do(ctx, k)
	if err != nil {
		return millrace.Tenant{}, err
	}
	t, err := api.DecodeTenant(r.text)
	return t, understood(err)
}

func (q queues) DeleteTenant(ctx context.Context, name, tenant string) error {
	if err := api.Join(nameFault("queue", name), nameFault("tenant", tenant)); err != nil {
		return err
	}
	return q.c.remove(ctx, remove("queues", name, "tenants", tenant))
}
