package api

import "github.com/millrace-dev/millrace"

// queuesLimit stands for a tenant's limit that is the queue's own.
const queuesLimit = -1

// DecodeTenantSettings reads what a tenant has in a queue: a weight of 1 and the
// queue's limit unless it says otherwise.
func DecodeTenantSettings(body []byte) (millrace.TenantSettings, error) {
	d := newDecoder(body)
	s := d.tenantSettings()
	return s, d.finish()
}

func (d *decoder) tenantSettings() millrace.TenantSettings {
	s := millrace.TenantSettings{Weight: 1, Limit: queuesLimit}
	if !d.object() {
		return s
	}
	for d.next() {
		switch string(d.name) {
		case "weight":
			n, _ := d.integer(0, millrace.MaxWeight)
			s.Weight = int(n)
		case "limit":
			n, _ := d.integer(0, millrace.MaxCount)
			s.Limit = int(n)
		default:
			d.skip()
		}
	}
	return s
}

// AppendTenantSettings writes what a tenant is to have in a queue.
func AppendTenantSettings(b []byte, s millrace.TenantSettings) []byte {
	b = appendIntField(append(b, '{'), "weight", int64(s.Weight))
	if s.Limit >= 0 {
		b = appendIntField(b, "limit", int64(s.Limit))
	}
	return append(b, '}')
}

// AppendTenant writes what a tenant has in a queue.
func AppendTenant(b []byte, t *millrace.Tenant) []byte {
	b = appendTextField(append(b, '{'), "tenant", t.Name)
	b = appendIntField(b, "ready", t.Ready)
	b = appendIntField(b, "leased", t.Leased)
	b = appendIntField(b, "delayed", t.Delayed)
	b = appendIntField(b, "dead", t.Dead)
	b = appendIntField(b, "weight", int64(t.Weight))
	b = appendIntField(b, "limit", int64(t.Limit))
	b = appendTimeOrNull(appendName(b, "oldest"), t.Oldest)
	return append(b, '}')
}

// DecodeTenant reads what a tenant has in a queue.
func DecodeTenant(text []byte) (millrace.Tenant, error) {
	d := newAnswerDecoder(text)
	t := d.tenant()
	return t, d.finish()
}

// AppendTenants writes a page of a queue's tenants.
func AppendTenants(b []byte, tenants []millrace.Tenant, next string) []byte {
	return appendPage(b, "tenants", tenants, next, AppendTenant)
}

// DecodeTenants reads a page of a queue's tenants.
func DecodeTenants(text []byte) ([]millrace.Tenant, string, error) {
	return decodePage(text, "tenants", (*decoder).tenant)
}

func (d *decoder) tenant() (t millrace.Tenant) {
	if !d.object() {
		return t
	}
	for d.next() {
		switch string(d.name) {
		case "tenant":
			t.Name, _ = d.string("")
		case "weight":
			t.Weight = int(d.unsigned())
		case "limit":
			t.Limit = int(d.unsigned())
		case "oldest":
			t.Oldest = d.timeOrNull()
		default:
			d.tenantCount(&t.QueueCounts)
		}
	}
	return t
}

func (d *decoder) tenantCount(c *millrace.QueueCounts) {
	var to *int64
	switch string(d.name) {
	case "ready":
		to = &c.Ready
	case "leased":
		to = &c.Leased
	case "delayed":
		to = &c.Delayed
	case "dead":
		to = &c.Dead
	default:
		d.skip()
		return
	}
	*to, _ = d.integer(0, maxInteger)
}
