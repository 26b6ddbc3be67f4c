package broker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
)

// mostTenants is how many tenants of a lane a listing examines.
const mostTenants = 10000

// Tenants lists tenants, deepest first; see millrace.QueueService.
func (s Queues) Tenants(ctx context.Context, name string, page millrace.Page) ([]millrace.Tenant, string, error) {
	limit, faults := pageFaults(page.Limit, "")
	q, err := s.enterFor(ctx, name, faults)
	if err != nil {
		return nil, "", err
	}
	defer s.b.gate.leave()
	from, err := parsePlace(page.Cursor)
	if err != nil {
		return nil, "", err
	}
	all, err := s.gatherTenants(ctx, q)
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(all, deeper)
	if page.Cursor != "" {
		i, found := slices.BinarySearchFunc(all, from, deeper)
		if found {
			i++
		}
		all = all[i:]
	}
	if len(all) <= limit {
		return all, "", nil
	}
	last := all[limit-1]
	return all[:limit], strconv.FormatInt(last.Ready, 10) + ":" + last.Name, nil
}

// deeper orders tenants by what they have waiting, then by name.
func deeper(a, b millrace.Tenant) int {
	return cmp.Or(cmp.Compare(b.Ready, a.Ready), cmp.Compare(a.Name, b.Name))
}

// parsePlace reads a cursor: how much the tenant before the page had waiting, and its name.
func parsePlace(cursor string) (millrace.Tenant, error) {
	if cursor == "" {
		return millrace.Tenant{}, nil
	}
	depth, name, _ := strings.Cut(cursor, ":")
	ready, err := strconv.ParseInt(depth, 10, 64)
	if err != nil || millrace.NameFault(name) != "" {
		return millrace.Tenant{}, millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
	}
	return millrace.Tenant{Name: name, QueueCounts: millrace.QueueCounts{Ready: ready}}, nil
}

func (s Queues) gatherTenants(ctx context.Context, q *queue) ([]millrace.Tenant, error) {
	sums := map[string]millrace.Tenant{}
	for lane := range s.b.identity.Lanes {
		after := ""
		for seen := 0; seen < mostTenants; {
			var list []millrace.TenantStats
			err := s.inLane(ctx, q, lane, func() (err error) {
				list, err = s.b.engine.Tenants(ctx, lane, q.uid, after, millrace.MaxPage)
				return err
			})
			if err != nil {
				return nil, err
			}
			for _, t := range list {
				sums[t.Tenant] = q.add(sums[t.Tenant], t)
			}
			if len(list) < millrace.MaxPage {
				break
			}
			seen += len(list)
			after = list[len(list)-1].Tenant
		}
	}
	out := make([]millrace.Tenant, 0, len(sums))
	for _, t := range sums {
		out = append(out, t)
	}
	return out, nil
}

// add adds what one lane knows of a tenant; its settings are the same in all.
func (q *queue) add(sum millrace.Tenant, t millrace.TenantStats) millrace.Tenant {
	sum.Name = t.Tenant
	sum.QueueCounts = sum.QueueCounts.Plus(t.QueueCounts)
	if sum.Oldest.IsZero() || (!t.Oldest.IsZero() && t.Oldest.Before(sum.Oldest)) {
		sum.Oldest = t.Oldest
	}
	sum.Weight, sum.Limit = 1, q.spec.TenantLimit
	if t.Settings != nil {
		sum.Weight = t.Settings.Weight
		if t.Settings.Limit >= 0 {
			sum.Limit = t.Settings.Limit
		}
	}
	return sum
}

// Tenant shows one tenant; see millrace.QueueService.
func (s Queues) Tenant(ctx context.Context, name, tenant string) (millrace.Tenant, error) {
	q, err := s.enterFor(ctx, name, namedTenantFaults(tenant))
	if err != nil {
		return millrace.Tenant{}, err
	}
	defer s.b.gate.leave()
	return s.tenant(ctx, q, tenant)
}

func namedTenantFaults(tenant string) []millrace.Fault {
	if tenant == "" {
		return []millrace.Fault{{Location: "tenant", Message: millrace.NameFault("")}}
	}
	return tenantFaults(tenant)
}

func (s Queues) tenant(ctx context.Context, q *queue, tenant string) (out millrace.Tenant, err error) {
	for lane := range s.b.identity.Lanes {
		err := s.inLane(ctx, q, lane, func() error {
			t, err := s.b.engine.Tenant(ctx, lane, q.uid, tenant)
			out = q.add(out, t)
			return err
		})
		if err != nil {
			return millrace.Tenant{}, err
		}
	}
	return out, nil
}

// PutTenant gives a tenant a weight and a limit; see millrace.QueueService.
func (s Queues) PutTenant(ctx context.Context, name, tenant string, t millrace.TenantSettings) (millrace.Tenant, error) {
	q, err := s.enterFor(ctx, name, append(namedTenantFaults(tenant), t.Faults("")...))
	if err != nil {
		return millrace.Tenant{}, err
	}
	defer s.b.gate.leave()
	if err := s.setTenant(ctx, q, tenant, &t); err != nil {
		return millrace.Tenant{}, err
	}
	return s.tenant(ctx, q, tenant)
}

// DeleteTenant takes a tenant's settings away; see millrace.QueueService.
func (s Queues) DeleteTenant(ctx context.Context, name, tenant string) error {
	q, err := s.enterFor(ctx, name, namedTenantFaults(tenant))
	if err != nil {
		return err
	}
	defer s.b.gate.leave()
	return s.setTenant(ctx, q, tenant, nil)
}

func (s Queues) setTenant(ctx context.Context, q *queue, tenant string, t *millrace.TenantSettings) error {
	for lane := range s.b.identity.Lanes {
		err := s.inLane(ctx, q, lane, func() error { return s.b.engine.SetTenant(ctx, lane, q.uid, tenant, t) })
		if err != nil {
			return err
		}
	}
	return nil
}
