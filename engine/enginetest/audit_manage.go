package enginetest

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace"
)

// managed is what a history says of the operator's calls.
type managed struct {
	purges   []purging
	settings map[tenantAt]*setting
	injected int
}

// purging is one purge: from when to when it ran, and what it told.
type purging struct {
	lane       int
	tenant     string
	began, end int // indexes of the history; end is -1 if nobody knows of one
	count      int
	emptied    bool // it answered that nothing was left
}

// tenantAt is a tenant in a queue of a lane.
type tenantAt struct {
	lane          int
	queue, tenant string
}

// setting is what a tenant was given last.
type setting struct {
	to        *millrace.TenantSettings
	uncertain bool
}

// readManagement takes a call of the operator in, with its outcome.
func (a *audit) readManagement(e, outcome Entry, began, end int) {
	if outcome.Phase == Refused {
		return
	}
	switch e.Op {
	case "redrive":
		a.readRedrive(e, outcome)
	case "purge":
		p := purging{lane: e.Lane, tenant: e.Tenant, began: began, end: -1}
		if outcome.Phase == Done {
			p.end, p.count, p.emptied = end, outcome.Count, outcome.Left == 0
		}
		a.managed.purges = append(a.managed.purges, p)
	case "weigh":
		at := tenantAt{e.Lane, e.Queue, e.Tenant}
		a.managed.settings[at] = &setting{to: e.Settings, uncertain: outcome.Phase != Done}
	}
}

// readRedrive forgets how the messages ended: they wait again, or if nobody
// knows they may be dead still. Nothing of them was under way when it was invoked.
func (a *audit) readRedrive(e, outcome Entry) {
	if outcome.Phase == Done && outcome.Count != len(e.Events) {
		a.wrong("redrive %s made %d of %d dead letters wait", e.Call, outcome.Count, len(e.Events))
	}
	for _, m := range e.Events {
		p := place{e.Queue, m.Seq}
		a.identified(p, m)
		a.settled[p] = &settlement{done: -1, tried: outcome.Phase != Done}
		delete(a.leases, p)
	}
}

// readInjection takes the events of an inject in. They have no stamps of this store.
func (a *audit) readInjection(e Entry, outcome Phase) {
	for _, event := range e.Events {
		a.fates[event.ID] = &fate{LedgerEvent: event, lane: e.Lane, uncertain: outcome != Refused, done: outcome == Done}
		a.managed.injected++
	}
}

// absent reports whether an event may be in no queue at all: nobody knows
// whether it was injected, and nobody was answered with it.
func (f *fate) absent() bool { return (f.Own != 0 || f.started) && !f.done && !f.seen }

// resetTenants compares every tenant's weight and limit with what it was given
// last, and takes them away, so that everybody can be served.
func (a *audit) resetTenants(ctx context.Context) error {
	for at, s := range a.managed.settings {
		got, err := a.engine.Tenant(ctx, at.lane, at.queue, at.tenant)
		if err != nil {
			return fmt.Errorf("look at a tenant: %w", err)
		}
		if !s.uncertain && !reflect.DeepEqual(got.Settings, s.to) {
			a.wrong("tenant %s of %s in lane %d has the settings %v, was given %v", at.tenant, at.queue, at.lane, got.Settings, s.to)
		}
		if err := a.engine.SetTenant(ctx, at.lane, at.queue, at.tenant, nil); err != nil {
			return fmt.Errorf("reset a tenant: %w", err)
		}
	}
	return nil
}

// judgePurged compares, for each event of the queue that nobody leases from,
// the purges with what is there: what was there when a purge began that left
// nothing is gone for good, and what no purge can have met is there.
func (a *audit) judgePurged(ctx context.Context) error {
	missing := int64(0)
	for _, f := range a.fates {
		if !f.in(purgedQueue) {
			continue
		}
		_, there := a.found[place{purgedQueue, f.Seq}]
		met, must := a.purged(f)
		switch {
		case there && must:
			a.wrong("message %d of %s (%s) was purged and is there", f.Seq, purgedQueue, f.ID)
		case !there && !met:
			a.wrong("message %d of %s (%s) is lost: nobody purged it", f.Seq, purgedQueue, f.ID)
		case !there:
			missing++
		}
	}
	return a.judgeDropped(ctx, missing)
}

// purged reports whether a purge may have met an event, and whether one must have.
func (a *audit) purged(f *fate) (may, must bool) {
	for _, p := range a.managed.purges {
		if p.lane != f.lane || p.tenant != "" && p.tenant != f.Tenant {
			continue
		}
		may = may || p.end < 0 || p.end > f.invoked
		must = must || p.emptied && p.began > f.acked
	}
	return may, must
}

// judgeDropped compares what is missing with what the store and the purges counted.
func (a *audit) judgeDropped(ctx context.Context, missing int64) error {
	told, certain := int64(0), true
	for _, p := range a.managed.purges {
		told += int64(p.count)
		certain = certain && p.end >= 0
	}
	dropped := int64(0)
	for lane := range a.engine.Identity().Lanes {
		s, err := a.engine.Stats(ctx, lane, purgedQueue)
		if err != nil {
			return fmt.Errorf("count what was purged: %w", err)
		}
		dropped += s.Dropped
	}
	if missing != dropped || told > dropped || certain && told != dropped {
		a.wrong("of queue %s %d messages are missing, it counts %d as dropped, and purges told of %d", purgedQueue, missing, dropped, told)
	}
	return nil
}
