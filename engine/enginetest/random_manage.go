package enginetest

import (
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
)

func (p *pair) someTenant() string { return string(rune('a' + p.random.IntN(6))) }

func (p *pair) someConsumer() string { return []string{"", "one", "two"}[p.random.IntN(3)] }

// counted is a pair of numbers that a bounded call answers with.
type counted struct{ Done, Left int }

func (p *pair) setSomeTenant(lane int) {
	uid, tenant := p.someQueue(), p.someTenant()
	if q := p.model.lanes[lane].queues[uid]; q.credit > 0 && p.random.IntN(2) == 0 {
		tenant = q.ring[0] // in the midst of its turn
	}
	var s *millrace.TenantSettings
	if p.random.IntN(4) > 0 {
		s = &millrace.TenantSettings{Weight: []int{0, 1, 2, 4}[p.random.IntN(4)], Limit: []int{-1, 0, 1, 3}[p.random.IntN(4)]}
	}
	p.setTenant(lane, uid, tenant, s)
}

func (p *pair) setTenant(lane int, uid, tenant string, s *millrace.TenantSettings) {
	both(p, fmt.Sprintf("tenant %s of %s in %d: %+v", tenant, uid, lane, s), func(e millrace.Engine) (struct{}, error) {
		return struct{}{}, e.SetTenant(p.ctx(), lane, uid, tenant, s)
	})
}

// someDead selects dead letters: some by name, wrong ones among them, or all.
func (p *pair) someDead(lane int) millrace.DeadOf {
	d := millrace.DeadOf{Now: p.when(), Queue: p.someQueue()}
	switch p.random.IntN(3) {
	case 0:
		d.All, d.Max = true, 1+p.random.IntN(8)
	case 1:
		d.All, d.Max, d.Tenant = true, 1+p.random.IntN(8), p.someTenant()
	default:
		d.Names = []uint64{77}
		for _, msg := range p.model.lanes[lane].queues[d.Queue].messages {
			if p.random.IntN(3) == 0 {
				d.Names = append(d.Names, msg.name)
			}
		}
		p.random.Shuffle(len(d.Names), func(i, j int) { d.Names[i], d.Names[j] = d.Names[j], d.Names[i] })
		d.Names = d.Names[:min(len(d.Names), 1000)]
	}
	return d
}

func (p *pair) redriveSome(lane int) {
	d := p.someDead(lane)
	if p.queues[d.Queue].Tracked {
		for d.All {
			d = p.someDead(lane)
		}
		for _, name := range d.Names {
			d.Openings = append(d.Openings, p.opening(d.Queue, p.someTenant(), fmt.Sprint(name)))
		}
	}
	dead, _ := p.model.lanes[lane].queues[d.Queue].selected(d)
	for _, msg := range dead {
		p.court.redriven[msg.name] = true
	}
	both(p, fmt.Sprintf("redrive in %d: %+v", lane, d), func(e millrace.Engine) (counted, error) {
		done, left, err := e.Redrive(p.ctx(), lane, d)
		return counted{done, left}, err
	})
}

func (p *pair) dropSome(lane int) {
	d := p.someDead(lane)
	both(p, fmt.Sprintf("drop dead in %d: %+v", lane, d), func(e millrace.Engine) (counted, error) {
		done, left, err := e.DropDead(p.ctx(), lane, d)
		return counted{done, left}, err
	})
}

// purgeSome purges to the end: what a bounded call takes first is open.
func (p *pair) purgeSome(lane int) {
	o := millrace.Purge{Now: p.when(), Queue: p.someQueue(), Max: 1000}
	if p.random.IntN(3) > 0 {
		o.Tenant = p.someTenant()
	}
	both(p, fmt.Sprintf("purge in %d: %+v", lane, o), func(e millrace.Engine) (counted, error) {
		all := counted{Left: 1}
		for all.Left > 0 {
			done, left, err := e.Purge(p.ctx(), lane, o)
			all = counted{all.Done + done, left}
			if err != nil || done == 0 {
				return all, err
			}
		}
		return all, nil
	})
}

func (p *pair) releaseSome(lane int) {
	o := millrace.Release{Now: p.when(), Queue: p.someQueue(), Consumer: []string{"one", "two"}[p.random.IntN(2)], Max: 1 + p.random.IntN(9)}
	both(p, fmt.Sprintf("release in %d: %+v", lane, o), func(e millrace.Engine) (int, error) { return e.Release(p.ctx(), lane, o) })
}

func (p *pair) injectSome(lane int) {
	in := millrace.Inject{Now: p.when(), Queue: p.someQueue()}
	for range 1 + p.random.IntN(3) {
		e := p.someEvent()
		in.Events = append(in.Events, millrace.InjectEvent{
			Tenant: e.Tenant, Key: e.Key, Seq: 1 + p.random.Uint64N(1<<50), Prev: p.random.Uint64N(1 << 50),
			RecordedAt: p.now.Add(-time.Duration(p.random.IntN(1e6)) * time.Millisecond), Body: e.Body,
		})
	}
	if p.random.IntN(2) == 0 {
		in.Queue, in.Subscription = "", p.someSub()
	}
	for i, e := range in.Events {
		if p.queues[in.Queue].Tracked {
			o := p.opening(in.Queue, e.Tenant, string(e.Body))
			in.Events[i].Opening = &o
		}
	}
	both(p, fmt.Sprintf("inject %d into %s%s in %d", len(in.Events), in.Queue, in.Subscription, lane), func(e millrace.Engine) (struct{}, error) {
		return struct{}{}, e.Inject(p.ctx(), lane, in)
	})
}

// someHeld are commits from held events, due or not, there or not.
func (p *pair) someHeld(lane int) []millrace.CommitEvent {
	var events []millrace.CommitEvent
	for _, h := range p.model.lanes[lane].held {
		if p.random.IntN(4) > 0 {
			continue
		}
		e := event(h.tenant, string(h.body), p.someQueue())
		e.Batches = p.someSubs()
		e.Key, e.From = []string{"", "k"}[p.random.IntN(2)], h.name
		events = append(events, e)
		if p.random.IntN(8) == 0 {
			events = append(events, e)
		}
	}
	return events
}

func (p *pair) cancelSome(lane int) {
	tenant, id := p.someTenant(), strconv.Itoa(p.random.IntN(p.ids+1))
	if held := p.model.lanes[lane].held; len(held) > 0 && p.random.IntN(4) > 0 {
		h := held[p.random.IntN(len(held))]
		tenant, id = h.tenant, h.id
	}
	both(p, fmt.Sprintf("held %s of %s in %d", id, tenant, lane), func(e millrace.Engine) (millrace.HeldEvent, error) {
		return e.Held(p.ctx(), lane, tenant, id)
	})
	both(p, fmt.Sprintf("cancel %s of %s in %d", id, tenant, lane), func(e millrace.Engine) (struct{}, error) {
		return struct{}{}, e.CancelHeld(p.ctx(), lane, tenant, id)
	})
}

// compareQueues compares what the queues of a lane show.
func (p *pair) compareQueues(lane int) {
	p.Helper()
	for _, q := range p.known {
		tenant := []string{"", p.someTenant()}[p.random.IntN(2)]
		if p.turnsOpen {
			tenant = "a"
		}
		limit := 1 + p.random.IntN(2*p.leases)
		both(p, fmt.Sprintf("peek %d of %s of %q in %d", limit, q, tenant, lane), func(e millrace.Engine) ([]millrace.QueuedMessage, error) {
			return e.Peek(p.ctx(), lane, millrace.Peek{Queue: q, Tenant: tenant, Limit: limit})
		})
		both(p, fmt.Sprintf("dead %d of %s of %q in %d", limit, q, tenant, lane), func(e millrace.Engine) ([]millrace.QueuedMessage, error) {
			return e.Dead(p.ctx(), lane, millrace.DeadPage{Queue: q, Tenant: tenant, Limit: limit})
		})
		after := []string{"", "b"}[p.random.IntN(2)]
		both(p, fmt.Sprintf("tenants of %s in %d", q, lane), func(e millrace.Engine) ([]millrace.TenantStats, error) {
			all, err := e.Tenants(p.ctx(), lane, q, after, 1+limit%7)
			for i := range all {
				p.ageless(q, &all[i])
			}
			return all, err
		})
		both(p, fmt.Sprintf("tenant a of %s in %d", q, lane), func(e millrace.Engine) (millrace.TenantStats, error) {
			s, err := e.Tenant(p.ctx(), lane, q, "a")
			p.ageless(q, &s)
			return s, err
		})
	}
}

// ageless takes the age of a tenant away that the contract leaves open: in an
// ordered queue the oldest may stand behind another.
func (p *pair) ageless(q string, s *millrace.TenantStats) {
	if p.queues[q].Ordered {
		s.Oldest = time.Time{}
	}
}
