package enginetest

import (
	"fmt"
	"slices"

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
	if len(p.queues) == 4 {
		return
	}
	p.uids++
	p.queues = append(p.queues, fmt.Sprintf("%016x", p.uids))
	p.set(p.queues[len(p.queues)-1])
}

func (p *pair) changeQueue() { p.set(p.someQueue()) }

func (p *pair) set(uid string) {
	p.version++
	attempts := []int{0, 1, 2, 4}[p.random.IntN(4)]
	p.applyBoth(millrace.Apply{Version: p.version, Queues: []millrace.QueueSettings{{UID: uid, Version: p.version, MaxAttempts: attempts}}})
}

func (p *pair) removeQueue() {
	i := p.random.IntN(len(p.queues))
	p.version++
	p.applyBoth(millrace.Apply{Version: p.version, Removed: []string{p.queues[i]}})
	p.queues = slices.Delete(p.queues, i, i+1)
}

// sweepSome sweeps the engine in bounded steps, and to the end half of the time.
func (p *pair) sweepSome(lane int) {
	p.trace = append(p.trace, fmt.Sprintf("sweep in %d", lane))
	if p.random.IntN(2) == 0 {
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
	c := millrace.Commit{Now: at(p.model.lanes[lane].t), Version: p.version, Events: []millrace.CommitEvent{p.someEvent()}}
	if p.random.IntN(2) == 0 {
		c.Version--
	} else {
		c.Events[0].Queues = append(c.Events[0].Queues, "00000000000000cc")
	}
	both(p, "publish stale", func(e millrace.Engine) (millrace.Committed, error) { return e.Publish(p.ctx(), lane, c) })
}

// compareLane compares all that a lane says of itself.
func (p *pair) compareLane(lane int) {
	p.Helper()
	for _, q := range append(p.queues, "0000000000000001") {
		both(p, "stats of "+q, func(e millrace.Engine) (millrace.QueueStats, error) { return e.Stats(p.ctx(), lane, q) })
	}
	both(p, "topics", func(e millrace.Engine) ([]millrace.TopicStats, error) {
		topics, err := e.Topics(p.ctx(), lane)
		return byName(topics), err
	})
	swept := len(p.model.lanes[lane].trash) == 0
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
// that, only that every tenant gets one: the model takes the engine's order over.
func (p *pair) reopenBoth() {
	p.trace = append(p.trace, "reopen")
	p.clean()
	p.reopen()
	p.clean()
	for lane, l := range p.model.lanes {
		p.now = later(p.now, at(l.t))
		p.compareLane(lane)
	}
	for lane := range p.model.lanes {
		both(p, "publish after the reopen", func(e millrace.Engine) (millrace.Committed, error) {
			return e.Publish(p.ctx(), lane, millrace.Commit{Now: p.now, Version: p.version, Events: []millrace.CommitEvent{event("a", "r")}})
		})
		for _, q := range p.queues {
			p.learnTurns(lane, q)
		}
	}
}

// learnTurns leases one round of a queue and checks that each tenant is served once.
func (p *pair) learnTurns(lane int, uid string) {
	p.Helper()
	q := p.model.lanes[lane].queues[uid]
	if len(q.ring) == 0 {
		return
	}
	l := millrace.Lease{Now: p.now, Queue: uid, Max: len(q.ring), MaxBytes: 1 << 20, For: p.soon(), Token: p.token()}
	got, err := p.Lease(p.ctx(), lane, l)
	p.ok(err)
	var order []string
	for _, m := range got.Messages {
		order = append(order, m.Tenant)
	}
	sorted, ring := slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(q.ring))
	p.same("the tenants of a turn after a reopen", sorted, ring)
	if p.Failed() {
		p.FailNow()
	}
	q.ring = order
	want, err := p.model.Lease(p.ctx(), lane, l)
	p.ok(err)
	p.same("the messages of a turn after a reopen", got.Messages, want.Messages)
	p.out = append(p.out, lent{lane, uid, held{got, l.Token}})
}

// finish brings everything back that is out, compares all, and drains every queue.
func (p *pair) finish() {
	p.pass(millrace.MaxLease)
	for lane := range p.config.Lanes {
		for more := true; more; {
			more = both(p, "last step", func(e millrace.Engine) (millrace.Stepped, error) { return e.Step(p.ctx(), lane, p.now, 100) }).More
		}
		p.sweepBoth(lane)
		p.compareLane(lane)
		for _, q := range p.queues {
			p.drain(lane, q)
		}
		p.compareLane(lane)
	}
}

func (p *pair) drain(lane int, q string) {
	p.Helper()
	for {
		l := millrace.Lease{Now: p.now, Queue: q, Max: 50, MaxBytes: 1 << 20, For: p.soon(), Token: p.token()}
		done := both(p, "drain "+q, func(e millrace.Engine) (millrace.Leased, error) { return e.Lease(p.ctx(), lane, l) })
		if len(done.Messages) == 0 {
			return
		}
		s := millrace.Settle{Now: p.now, Queue: q, Verb: millrace.Ack, Items: held{done, l.Token}.items()}
		both(p, "ack "+q, func(e millrace.Engine) (millrace.Settled, error) { return e.Settle(p.ctx(), lane, s) })
	}
}
