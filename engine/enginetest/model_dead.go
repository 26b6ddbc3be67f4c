package enginetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// queued shows a message that waits or is dead.
func (msg *modelMessage) queued() millrace.QueuedMessage {
	shown := millrace.QueuedMessage{
		Name: msg.name, Seq: msg.seq, Prev: msg.prev, RecordedAt: at(msg.recorded), Tenant: msg.tenant,
		Attempts: msg.attempts, Body: slices.Clone(msg.body),
	}
	if msg.state == dead {
		shown.Reason, shown.Error, shown.DeadAt = msg.reason, msg.err, at(msg.died)
	}
	return shown
}

// Peek shows what waits.
func (m *Model) Peek(_ context.Context, lane int, p millrace.Peek) ([]millrace.QueuedMessage, error) {
	_, q, err := m.enterQueue(lane, p.Queue)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var shown []millrace.QueuedMessage
	looked := 0
	show := func(msg *modelMessage) {
		looked++
		if len(shown) < p.Limit && looked <= 1000 && !msg.cancelled() {
			shown = append(shown, msg.queued())
		}
	}
	if p.Tenant != "" {
		for _, msg := range q.leasable(p.Tenant) {
			show(msg)
		}
		return shown, nil
	}
	var facets [][]*modelMessage
	for _, tenant := range q.ring[:min(len(q.ring), 1000)] {
		facets = append(facets, q.leasable(tenant))
	}
	for round := range len(q.messages) {
		for _, facet := range facets {
			if round < len(facet) {
				show(facet[round])
			}
		}
	}
	return shown, nil
}

// deadOf are a tenant's dead letters, or all, by name.
func (q *modelQueue) deadOf(tenant string) []*modelMessage {
	var all []*modelMessage
	for _, msg := range q.messages {
		if msg.state == dead && (tenant == "" || msg.tenant == tenant) {
			all = append(all, msg)
		}
	}
	return all
}

// Dead lists dead letters.
func (m *Model) Dead(_ context.Context, lane int, p millrace.DeadPage) ([]millrace.QueuedMessage, error) {
	_, q, err := m.enterQueue(lane, p.Queue)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var shown []millrace.QueuedMessage
	for _, msg := range q.deadOf(p.Tenant) {
		if msg.name > p.After && len(shown) < p.Limit {
			shown = append(shown, msg.queued())
		}
	}
	return shown, nil
}

// selected are the dead letters that a call is about, and how many it leaves.
func (q *modelQueue) selected(d millrace.DeadOf) (some []*modelMessage, left int) {
	if d.All {
		all := q.deadOf(d.Tenant)
		n := min(len(all), d.Max)
		return all[:n], len(all) - n
	}
	return slices.DeleteFunc(q.deadOf(""), func(msg *modelMessage) bool { return !slices.Contains(d.Names, msg.name) }), 0
}

// Redrive makes dead letters wait again: the highest first, so that the lowest
// is the head of its key; then their tenants enter the ring, the lowest first.
func (m *Model) Redrive(_ context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	l, q, err := m.enterQueue(lane, d.Queue)
	if err != nil {
		return 0, 0, err
	}
	defer m.leave()
	if q.settings.Tracked && (d.All || len(d.Openings) != len(d.Names)) {
		return 0, 0, millrace.Errorf(millrace.CodeInvalid, "each name needs an opening")
	}
	m.tick(l, d.Now)
	some, left := q.selected(d)
	for _, msg := range some {
		msg.due = 0 // of its retention: it can be leased at once
		if q.settings.Tracked {
			msg.due = 0 // it can be leased at once, whenever it was to be forgotten
			l.open(msg, l.next(), d.Openings[slices.Index(d.Names, msg.name)])
		}
	}
	for _, msg := range slices.Backward(some) {
		l.places++
		msg.state, msg.place, msg.attempts, msg.due = waiting, -l.places, 0, 0
	}
	for _, msg := range some {
		m.wait(l, q, msg.tenant)
	}
	return len(some), left, nil
}

// DropDead removes dead letters.
func (m *Model) DropDead(_ context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	l, q, err := m.enterQueue(lane, d.Queue)
	if err != nil {
		return 0, 0, err
	}
	defer m.leave()
	m.tick(l, d.Now)
	some, left := q.selected(d)
	for _, msg := range some {
		l.drop(q, msg)
	}
	return len(some), left, nil
}

// Purge removes what waits or is delayed.
func (m *Model) Purge(_ context.Context, lane int, p millrace.Purge) (done, left int, err error) {
	l, q, err := m.enterQueue(lane, p.Queue)
	if err != nil {
		return 0, 0, err
	}
	defer m.leave()
	m.tick(l, p.Now)
	before := l.due()
	var all []*modelMessage
	for _, msg := range q.messages {
		if (msg.state == waiting || msg.state == delayed) && (p.Tenant == "" || msg.tenant == p.Tenant) {
			all = append(all, msg)
		}
	}
	done = min(len(all), p.Max)
	for _, msg := range all[:done] {
		m.cancel(l, msg)
		l.drop(q, msg)
	}
	for _, msg := range all[:done] {
		m.wait(l, q, msg.tenant)
	}
	m.hintDue(l, before)
	return done, len(all) - done, nil
}

// SetTenant gives a tenant settings of its own.
func (m *Model) SetTenant(_ context.Context, lane int, uid, tenant string, s *millrace.TenantSettings) error {
	l, q, err := m.enterQueue(lane, uid)
	if err != nil {
		return err
	}
	defer m.leave()
	delete(q.tenants, tenant)
	if s != nil {
		q.tenants[tenant] = *s
	}
	m.wait(l, q, tenant)
	return nil
}

// tenant is what a queue knows of a tenant.
func (q *modelQueue) tenant(l *modelLane, tenant string) millrace.TenantStats {
	s := millrace.TenantStats{Tenant: tenant}
	var oldest uint64
	for _, msg := range q.messages {
		if msg.tenant != tenant {
			continue
		}
		msg.countIn(&s.QueueCounts)
		if msg.state == waiting && oldest == 0 {
			oldest = msg.name
		}
	}
	if own, set := q.tenants[tenant]; set {
		s.Settings = &own
	}
	s.Oldest = l.minute(oldest)
	return s
}

// names are the tenants that hold anything or have settings, sorted.
func (q *modelQueue) names() []string {
	var names []string
	for _, msg := range q.messages {
		names = append(names, msg.tenant)
	}
	for tenant := range q.tenants {
		names = append(names, tenant)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}

// Tenants lists tenants by name.
func (m *Model) Tenants(_ context.Context, lane int, uid, after string, limit int) ([]millrace.TenantStats, error) {
	l, q, err := m.enterQueue(lane, uid)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	var all []millrace.TenantStats
	for _, name := range q.names() {
		if name > after && len(all) < limit {
			all = append(all, q.tenant(l, name))
		}
	}
	return all, nil
}

// Tenant shows one tenant.
func (m *Model) Tenant(_ context.Context, lane int, uid, tenant string) (millrace.TenantStats, error) {
	l, q, err := m.enterQueue(lane, uid)
	if err != nil {
		return millrace.TenantStats{}, err
	}
	defer m.leave()
	return q.tenant(l, tenant), nil
}
