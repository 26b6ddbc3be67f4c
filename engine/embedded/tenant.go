package embedded

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// SetTenant gives a tenant a weight and a limit; nil takes them away.
func (e *Engine) SetTenant(ctx context.Context, no int, name, tenant string, s *millrace.TenantSettings) error {
	l, err := e.enter(ctx, no)
	if err != nil {
		return err
	}
	defer e.leave()
	return l.do(ctx, func(g *group) error {
		q := l.queue(name)
		if q == nil {
			return millrace.Errorf(millrace.CodeNotFound, "the lane does not know this queue")
		}
		l.setTenant(g, q, q.facet(tenant), s)
		return nil
	})
}

func (l *lane) setTenant(g *group, q *queue, f *facet, s *millrace.TenantSettings) {
	g.key = settingsKey(g.key[:0], l.no, q.uid, f.tenant)
	if s == nil {
		f.settings = nil
		g.del()
	} else {
		own := *s
		f.settings = &own
		g.val = appendNumbers(g.val[:0], int64(s.Weight), int64(s.Limit))
		g.set()
	}
	l.enterRing(g, q, f)
	q.forget(f)
}

// Tenants lists tenants that hold anything or have settings, by name after one.
func (e *Engine) Tenants(ctx context.Context, no int, name, past string, limit int) ([]millrace.TenantStats, error) {
	var list []millrace.TenantStats
	err := e.look(ctx, no, name, func(l *lane, q *queue) ([]pick, error) {
		for _, f := range q.facetsAfter(past, limit) {
			s, err := l.tenantStats(q, f)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
		return nil, nil
	}, nil)
	return list, err
}

// Tenant shows one tenant.
func (e *Engine) Tenant(ctx context.Context, no int, name, tenant string) (millrace.TenantStats, error) {
	out := millrace.TenantStats{Tenant: tenant}
	err := e.look(ctx, no, name, func(l *lane, q *queue) (_ []pick, err error) {
		if f := q.facets[tenant]; f != nil {
			out, err = l.tenantStats(q, f)
		}
		return nil, err
	}, nil)
	return out, err
}

// facetsAfter is up to limit facets by the names of their tenants, past one.
// It sorts no more than it needs, because there may be many.
func (q *queue) facetsAfter(past string, limit int) []*facet {
	list := make([]*facet, 0, 2*max(1, limit))
	shorten := func() {
		slices.SortFunc(list, func(a, b *facet) int { return cmp.Compare(a.tenant, b.tenant) })
		list = list[:min(len(list), max(0, limit))]
	}
	for _, f := range q.facets {
		if f.tenant <= past || f.empty() {
			continue
		}
		if list = append(list, f); len(list) == cap(list) {
			shorten()
		}
	}
	shorten()
	return list
}

// empty reports whether the facet holds nothing, though it may be in the ring.
func (f *facet) empty() bool {
	return f.leased+f.delayed+f.dead == 0 && f.settings == nil && f.waiting() == 0
}

func (l *lane) tenantStats(q *queue, f *facet) (millrace.TenantStats, error) {
	s := millrace.TenantStats{Tenant: f.tenant, QueueCounts: millrace.QueueCounts{
		Ready: f.waiting(), Leased: int64(f.leased), Delayed: int64(f.delayed), Dead: int64(f.dead),
	}}
	if f.settings != nil {
		own := *f.settings
		s.Settings = &own
	}
	oldest, err := l.peekFacet(q, f, 1)
	if err == nil && len(oldest) > 0 {
		s.Oldest = milli(l.minute(oldest[0].seq) * 60000)
	}
	return s, err
}
