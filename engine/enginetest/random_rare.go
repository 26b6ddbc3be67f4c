package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// applyBoth tells every lane of engine and model.
func (p *pair) applyBoth(a millrace.Apply) {
	p.Helper()
	for lane := range p.config.Lanes {
		both(p, fmt.Sprintf("apply %+v", a), func(e millrace.Engine) ([]string, error) {
			return e.Apply(p.ctx(), lane, a)
		})
	}
}

func (p *pair) addQueue() {
	if len(p.known) == 4 {
		return
	}
	p.uids++
	uid := fmt.Sprintf("%016x", p.uids)
	p.known = append(p.known, uid)
	if p.queues == nil {
		p.queues = map[string]millrace.QueueSettings{}
	}
	p.queues[uid] = millrace.QueueSettings{UID: uid, Ordered: p.random.IntN(2) == 0, Tracked: p.random.IntN(2) == 0}
	p.set(p.someSettings(uid))
	for lane := range p.config.Lanes {
		for range 3 {
			p.setTenant(lane, uid, p.someTenant(), &millrace.TenantSettings{Weight: 2 + p.random.IntN(4), Limit: asTheQueue})
		}
	}
}

func (p *pair) changeQueue() { p.set(p.someSettings(p.someQueue())) }

// someSettings are settings of a queue, most of them often the plain ones.
func (p *pair) someSettings(uid string) millrace.QueueSettings {
	pick := func(values ...int) int { return values[p.random.IntN(len(values))] }
	s := millrace.QueueSettings{UID: uid, Ordered: p.queues[uid].Ordered, Tracked: p.queues[uid].Tracked}
	s.MaxAttempts = pick(0, 1, 2, 4)
	s.Block = pick(0, 0, 1) == 1
	s.BlockDelay = time.Duration(pick(0, 5, 7)) * time.Second
	s.Paused = pick(0, 0, 0, 0, 1) == 1
	s.TenantLimit = pick(0, 0, 1, 2, 5) * p.leases / 6
	s.MaxLength = pick(0, 0, 0, 2, 6) * p.commits / 5
	s.DropOldest = !s.Ordered && pick(0, 1) == 1
	s.DeadRetention = time.Duration(pick(0, 0, 20, 60)) * time.Second
	if s.Tracked {
		s.Retention, s.ErrorRetention = time.Duration(pick(1, 60, 200))*time.Second, time.Duration(pick(30, 300))*time.Second
	}
	return s
}

func (p *pair) set(s millrace.QueueSettings) {
	p.version++
	s.Version = p.version
	p.queues[s.UID] = s
	p.applyBoth(millrace.Apply{Version: p.version, Queues: []millrace.QueueSettings{s}})
}

func (p *pair) removeQueue() {
	i := p.random.IntN(len(p.known))
	p.version++
	p.applyBoth(millrace.Apply{Version: p.version, Removed: []string{p.known[i]}})
	p.known = slices.Delete(p.known, i, i+1)
}

// sweepSome sweeps the engine in bounded steps, and to the end half of the time; always to
// the end if that cancels operations, for they finish when they are swept.
func (p *pair) sweepSome(lane int) {
	p.trace = append(p.trace, fmt.Sprintf("sweep in %d", lane))
	opened := slices.ContainsFunc(p.model.lanes[lane].trash, func(msg *modelMessage) bool { return msg.operation != nil })
	if p.random.IntN(2) == 0 && !opened {
		n, err := p.Sweep(p.ctx(), lane, 3)
		p.ok(err)
		if n > 3 {
			p.Fatalf("a sweep of 3 freed %d", n)
		}
		return
	}
	p.sweepBoth(lane)
}

func (p *pair) sweepBoth(lane int) {
	p.sweepAll(lane)
	if _, err := p.model.Sweep(p.ctx(), lane, 1<<30); err != nil {
		p.Fatal(err)
	}
}

// publishStale tries commits that are refused; they carry the lane's own time,
// so that it does not matter whether a refusal moves the clock.
func (p *pair) publishStale(lane int) {
	c := millrace.Commit{Now: at(p.model.lanes[lane].t), Version: p.version, Events: p.tracking([]millrace.CommitEvent{p.someEvent()})}
	switch p.random.IntN(3) {
	case 0:
		c.Version--
	case 1:
		c.Events[0].Batches = append(c.Events[0].Batches, "00000000000000dd")
	default:
		c.Events[0].Queues = append(c.Events[0].Queues, "00000000000000cc")
	}
	both(p, "publish stale", func(e millrace.Engine) (millrace.Committed, error) { return e.Publish(p.ctx(), lane, c) })
}

// compareLane compares all that a lane says of itself.
func (p *pair) compareLane(lane int) {
	p.Helper()
	for _, q := range append(p.known, "0000000000000001") {
		both(p, "stats of "+q, func(e millrace.Engine) (millrace.QueueStats, error) { return e.Stats(p.ctx(), lane, q) })
	}
	both(p, "topics", func(e millrace.Engine) ([]millrace.TopicStats, error) {
		topics, err := e.Topics(p.ctx(), lane)
		return byName(topics), err
	})
	p.compareQueues(lane)
	p.compareSubs(lane)
	p.compareOperations(lane)
	swept := len(p.model.lanes[lane].trash) == 0 && p.model.lanes[lane].subTrash == 0
	both(p, "lane stats", func(e millrace.Engine) (millrace.LaneStats, error) {
		s, err := e.LaneStats(p.ctx(), lane)
		if !swept {
			s.Dropped = 0
		}
		return s, err
	})
	if p.random.IntN(4) == 0 {
		both(p, "forget topic", func(e millrace.Engine) (struct{}, error) {
			return struct{}{}, e.ForgetTopic(p.ctx(), lane, "users")
		})
	}
}

// reopenBoth opens the store again. The order of the turns need not survive
// that, only that everybody gets one: the model follows the engine while all
// that can be leased or taken is.
func (p *pair) reopenBoth() {
	p.trace = append(p.trace, "reopen")
	p.clean()
	p.compareShown()
	p.compareHeard()
	p.reopen()
	p.seen, p.expected = p.view(p), p.view(p.model)
	p.listen()
	p.clean()
	p.turnsOpen = true
	for lane, l := range p.model.lanes {
		p.now = later(p.now, at(l.t))
		p.compareLane(lane)
	}
	for lane := range p.model.lanes {
		both(p, "publish after the reopen", func(e millrace.Engine) (millrace.Committed, error) {
			return e.Publish(p.ctx(), lane, millrace.Commit{Now: p.now, Version: p.version, Events: []millrace.CommitEvent{event("a", "r")}})
		})
		for _, q := range p.known {
			p.resume(q)
			p.leaseAll(lane, q)
		}
		p.takeAll(lane)
	}
	p.turnsOpen = false
}

// resume ends a queue's pause.
func (p *pair) resume(uid string) {
	if s := p.queues[uid]; s.Paused {
		s.Paused = false
		p.set(s)
	}
}

// leaseAll leases all of a queue that can be leased, one by one, in the engine's order.
func (p *pair) leaseAll(lane int, uid string) {
	p.Helper()
	q := p.model.lanes[lane].queues[uid]
	for {
		l := millrace.Lease{Now: p.now, Queue: uid, Max: 1, MaxBytes: 1 << 20, For: p.soon(), Token: p.token()}
		got, err := p.Lease(p.ctx(), lane, l)
		p.ok(err)
		q.ring, q.credit = p.servedNow(lane, uid, q), 0
		served := len(q.ring) > 0
		want, err := p.model.Lease(p.ctx(), lane, l)
		p.ok(err)
		p.same("a message after a reopen", got.Messages, want.Messages)
		if p.Failed() {
			p.FailNow()
		}
		q.ring, q.credit = q.ring[:0], 0
		if !served {
			p.nobodyIsLeft(lane, q)
			return
		}
		if len(got.Messages) > 0 {
			p.out = append(p.out, lent{lane, uid, held{got, l.Token}})
		}
	}
}

// servedNow is the tenant, if any, of whom the engine has leased or dropped a message that waits in the model.
func (p *pair) servedNow(lane int, uid string, q *modelQueue) []string {
	p.Helper()
	for _, tenant := range q.names() {
		s, err := p.Tenant(p.ctx(), lane, uid, tenant)
		p.ok(err)
		if int(s.Ready) < q.count(tenant, waiting) {
			return []string{tenant}
		}
	}
	return nil
}

// nobodyIsLeft fails if a tenant can be served that the engine does not serve.
func (p *pair) nobodyIsLeft(lane int, q *modelQueue) {
	p.Helper()
	for _, tenant := range q.names() {
		if !q.barred(tenant) && q.first(tenant) != nil {
			p.Fatalf("tenant %s of %s in %d is not served after a reopen", tenant, q.settings.UID, lane)
		}
	}
}

// finish brings everything back that is out, compares all, and drains every queue and subscription.
func (p *pair) finish() {
	for range 2 {
		p.pass(millrace.MaxLease)
		for lane := range p.config.Lanes {
			for more := true; more; {
				more = both(p, "last step", func(e millrace.Engine) (millrace.Stepped, error) { return e.Step(p.ctx(), lane, p.now, 100) }).More
			}
			p.sweepBoth(lane)
			p.compareLane(lane)
		}
	}
	for _, q := range p.known {
		p.resume(q)
		for lane := range p.config.Lanes {
			p.drain(lane, q)
			p.compareLane(lane)
		}
	}
	p.drainSubs()
	p.compareShown()
	p.compareHeard()
}

// compareShown ends the watches of engine and model and fails unless they have shown the same.
func (p *pair) compareShown() {
	p.Helper()
	p.waitFor("all events to be shown", func() bool { return p.seen.count() >= p.expected.count() })
	p.seen.stop()
	for lane := range p.config.Lanes {
		p.same("shown", p.seen.shown(lane), p.expected.shown(lane))
	}
	p.same("lost", p.seen.lost, 0)
}

func (p *pair) drain(lane int, q string) {
	p.Helper()
	for {
		l := millrace.Lease{Now: p.now, Queue: q, Max: 50, MaxBytes: 1 << 20, For: p.soon(), Token: p.token()}
		done := both(p, "drain "+q, func(e millrace.Engine) (millrace.Leased, error) { return e.Lease(p.ctx(), lane, l) })
		if len(done.Messages) == 0 && done.Tenants == 0 {
			return
		}
		s := millrace.Settle{Now: p.now, Queue: q, Verb: millrace.Ack, Items: held{done, l.Token}.items()}
		both(p, "ack "+q, func(e millrace.Engine) (millrace.Settled, error) { return e.Settle(p.ctx(), lane, s) })
	}
}
