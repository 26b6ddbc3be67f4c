package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// away is what one take of the pair gave.
type away struct {
	lane int
	taken
}

// operateBatches does one random operation on subscriptions.
func (p *pair) operateBatches(lane int) {
	switch n := p.random.IntN(100); {
	case n < 35:
		p.takeSome(lane)
		if n < 25 {
			p.outcomeSome()
		}
	case n < 65:
		p.outcomeSome()
	case n < 80:
		p.stepSome(lane)
	case n < 84:
		p.retrySome(lane)
	case n < 87:
		p.dropBatchSome(lane)
	case n < 89:
		p.dropOldestSome(lane)
	case n < 96:
		p.changeSubSome()
	case n < 98:
		p.addSub()
	case len(p.serves) > 1:
		p.removeSub()
	}
}

func (p *pair) someSub() string { return p.serves[p.random.IntN(len(p.serves))] }

// someSubs are the subscriptions of an event.
func (p *pair) someSubs() []string {
	var some []string
	for _, uid := range p.serves {
		if p.random.IntN(2) == 0 {
			some = append(some, uid)
		}
	}
	return some
}

func (p *pair) addSub() {
	if len(p.serves) == 4 {
		return
	}
	p.uids++
	uid := fmt.Sprintf("%016x", p.uids)
	p.serves = append(p.serves, uid)
	if p.subs == nil {
		p.subs = map[string]millrace.SubscriptionSettings{}
	}
	p.subs[uid] = millrace.SubscriptionSettings{UID: uid, Ordered: p.random.IntN(3) == 0}
	p.setSub(p.someSubSettings(uid))
}

func (p *pair) changeSubSome() { p.setSub(p.someSubSettings(p.someSub())) }

func (p *pair) removeSub() {
	i := p.random.IntN(len(p.serves))
	p.version++
	p.applyBoth(millrace.Apply{Version: p.version, Removed: []string{p.serves[i]}})
	p.serves = slices.Delete(p.serves, i, i+1)
}

// someSubSettings are settings of a subscription, most of them often the plain ones.
func (p *pair) someSubSettings(uid string) millrace.SubscriptionSettings {
	pick := func(values ...int) int { return values[p.random.IntN(len(values))] }
	seconds := func(values ...int) (all []time.Duration) {
		for _, v := range values {
			all = append(all, time.Duration(v)*time.Second)
		}
		return all
	}
	s := millrace.SubscriptionSettings{UID: uid, Ordered: p.subs[uid].Ordered}
	s.Timeout = time.Duration(pick(0, 1, 5, 20)) * time.Second
	s.MaxEvents = pick(1, 1, 2, 3, 12) * max(1, p.commits/5)
	s.MaxBytes = pick(64, 200, 1<<20)
	s.Concurrency = pick(1, 2, 8)
	s.Schedule = [][]time.Duration{{}, {0}, seconds(5), seconds(1, 5, 20), seconds(5, 5, 5, 5, 5)}[pick(0, 1, 2, 3, 3, 4, 4)]
	s.Retention = time.Duration(pick(0, 0, 20, 60)) * time.Second
	s.Format = []string{"events", "cloudevents"}[pick(0, 1)]
	s.Paused, s.Disabled = pick(0, 0, 0, 0, 0, 0, 1) == 1, pick(0, 0, 0, 0, 0, 0, 0, 0, 0, 1) == 1
	return s
}

func (p *pair) setSub(s millrace.SubscriptionSettings) {
	p.version++
	s.Version = p.version
	p.subs[s.UID] = s
	p.applyBoth(millrace.Apply{Version: p.version, Subscriptions: []millrace.SubscriptionSettings{s}})
}

func (p *pair) takeSome(lane int) {
	o := millrace.Take{Now: p.when(), Max: 1 + p.random.IntN(min(p.leases, 64)), MaxBytes: 1 << 20, For: p.soon(), Token: p.token(), Node: p.someConsumer()}
	if p.random.IntN(3) == 0 {
		o.MaxBytes = 1 + p.random.IntN(200)
	}
	what := fmt.Sprintf("take %d in %d at %v for %v, %d bytes", o.Max, lane, o.Now, o.For, o.MaxBytes)
	done := both(p, what, func(e millrace.Engine) (millrace.Taken, error) { return e.Take(p.ctx(), lane, o) })
	p.inTurn(done)
	if len(done.Batches) > 0 {
		p.away = append(p.away, away{lane, taken{done, o.Token}})
	}
}

// inTurn fails if an ordered subscription was given two batches by one take.
func (p *pair) inTurn(done millrace.Taken) {
	p.Helper()
	seen := map[string]uint64{}
	for _, b := range done.Batches {
		last, before := seen[b.Subscription]
		if before && p.subs[b.Subscription].Ordered {
			p.Fatalf("an ordered subscription was given batches %d and %d at once", last, b.Name)
		}
		if b.Name <= last {
			p.Fatalf("batch %d was given after %d", b.Name, last)
		}
		seen[b.Subscription] = b.Name
	}
}

// outcomeSome tells how some batches went that were taken, pending or not, wrong tokens among them.
func (p *pair) outcomeSome() {
	if len(p.away) == 0 {
		return
	}
	k := p.away[max(0, len(p.away)-1-p.random.IntN(1+p.random.IntN(6)))]
	items := k.each(p.someOutcome)
	p.random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	items = items[:1+p.random.IntN(min(len(items), 63))]
	switch p.random.IntN(12) {
	case 0:
		items = append(items, items[0])
	case 1:
		items[0].Token[8] ^= 1
	}
	o := millrace.Outcomes{Now: p.when(), Items: items}
	what := fmt.Sprintf("outcomes in %d at %v: %s", k.lane, o.Now, describeOutcomes(items))
	both(p, what, func(e millrace.Engine) (millrace.SettledBatches, error) { return e.SettleBatches(p.ctx(), k.lane, o) })
}

func (p *pair) someOutcome(k taken, i int) millrace.Outcome {
	o := k.sent(i)
	if p.random.IntN(3) == 0 {
		o.Log = fmt.Appendf(nil, "attempt %d of %d", k.Batches[i].Attempt, o.Name)
	}
	if p.random.IntN(5) < 3 {
		return o
	}
	log := o.Log
	o = k.failed(i)
	o.Log, o.Error, o.Jitter = log, []string{"", "refused", "timeout"}[p.random.IntN(3)], millrace.Jitter(p.random.IntN(1001))
	if p.random.IntN(4) == 0 {
		o.After = p.soon()
	}
	return o
}

func describeOutcomes(items []millrace.Outcome) (s string) {
	for _, o := range items {
		s += fmt.Sprintf("%s/%d %v after %v jitter %d; ", o.Subscription[12:], o.Name, o.OK, o.After, o.Jitter)
	}
	return s
}

// someBatches are names of batches of a subscription, wrong ones among them.
func (p *pair) someBatches(lane int, uid string) []uint64 {
	names := []uint64{77}
	for _, b := range p.model.lanes[lane].subs[uid].batches {
		if p.random.IntN(3) == 0 && len(names) < 1000 {
			names = append(names, b.name)
		}
	}
	p.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func (p *pair) retrySome(lane int) {
	of := millrace.BatchesOf{Now: p.when(), Subscription: p.someSub()}
	if p.random.IntN(2) == 0 {
		of.Dead, of.Max = true, 1+p.random.IntN(4)
	} else {
		of.Names = p.someBatches(lane, of.Subscription)
	}
	both(p, fmt.Sprintf("retry in %d: %+v", lane, of), func(e millrace.Engine) (counted, error) {
		done, left, err := e.RetryBatches(p.ctx(), lane, of)
		return counted{done, left}, err
	})
}

func (p *pair) dropBatchSome(lane int) {
	uid := p.someSub()
	name := p.someBatches(lane, uid)[0]
	both(p, fmt.Sprintf("drop batch %d of %s in %d", name, uid, lane), func(e millrace.Engine) (struct{}, error) {
		return struct{}{}, e.DropBatch(p.ctx(), lane, uid, name)
	})
}

func (p *pair) dropOldestSome(lane int) {
	most := 1 + p.random.IntN(4)
	both(p, fmt.Sprintf("drop the oldest %d in %d", most, lane), func(e millrace.Engine) ([]millrace.DroppedBatch, error) {
		return e.DropOldest(p.ctx(), lane, most)
	})
}

// compareSubs compares what the subscriptions of a lane show.
func (p *pair) compareSubs(lane int) {
	p.Helper()
	for _, uid := range append(p.serves, "0000000000000003") {
		both(p, fmt.Sprintf("stats of subscription %s in %d", uid, lane), func(e millrace.Engine) (millrace.SubscriptionStats, error) {
			return e.SubscriptionStats(p.ctx(), lane, uid)
		})
		both(p, fmt.Sprintf("log of %s in %d", uid, lane), func(e millrace.Engine) ([][]byte, error) {
			return e.AttemptLog(p.ctx(), lane, uid)
		})
		page := millrace.BatchPage{Subscription: uid, Limit: 1000}
		all := both(p, fmt.Sprintf("batches of %s in %d", uid, lane), func(e millrace.Engine) ([]millrace.Batch, error) {
			return e.ListBatches(p.ctx(), lane, page)
		})
		p.comparePage(lane, uid, all)
	}
}

// comparePage compares one batch, and a page of one state after it.
func (p *pair) comparePage(lane int, uid string, all []millrace.Batch) {
	p.Helper()
	if len(all) == 0 {
		return
	}
	b := all[p.random.IntN(len(all))]
	both(p, fmt.Sprintf("batch %d of %s in %d", b.Name, uid, lane), func(e millrace.Engine) ([]millrace.BatchEvent, error) {
		one, events, err := e.Batch(p.ctx(), lane, uid, b.Name)
		p.same("a batch as it is listed", one, b)
		return events, err
	})
	page := millrace.BatchPage{Subscription: uid, State: b.State, After: b.Name - uint64(p.random.IntN(2)), Limit: 1 + p.random.IntN(3)}
	both(p, fmt.Sprintf("page %+v in %d", page, lane), func(e millrace.Engine) ([]millrace.Batch, error) {
		return e.ListBatches(p.ctx(), lane, page)
	})
}

// takeAll takes all batches that can be taken, one by one, in the engine's
// order: after a reopen the model follows it.
func (p *pair) takeAll(lane int) {
	p.Helper()
	l := p.model.lanes[lane]
	for {
		o := millrace.Take{Now: p.now, Max: 1, MaxBytes: 1 << 20, For: p.soon(), Token: p.token(), Node: "reopened"}
		got, err := p.Take(p.ctx(), lane, o)
		p.ok(err)
		l.subRing = nil
		if len(got.Batches) > 0 {
			l.subRing = []string{got.Batches[0].Subscription}
		}
		want, err := p.model.Take(p.ctx(), lane, o)
		p.ok(err)
		p.same("a batch after a reopen", got.Batches, want.Batches)
		if p.Failed() {
			p.FailNow()
		}
		l.subRing = nil
		if len(got.Batches) == 0 {
			p.noSubIsLeft(lane)
			return
		}
		p.away = append(p.away, away{lane, taken{got, o.Token}})
	}
}

// noSubIsLeft fails if a subscription can be served that the engine does not serve.
func (p *pair) noSubIsLeft(lane int) {
	p.Helper()
	for uid, s := range p.model.lanes[lane].subs {
		if s.servable() {
			p.Fatalf("subscription %s in %d is not served after a reopen", uid, lane)
		}
	}
}

// drainSubs sends all that the subscriptions hold, and compares what is left.
func (p *pair) drainSubs() {
	p.Helper()
	for _, uid := range p.serves {
		s := p.subs[uid]
		s.Paused, s.Disabled = false, false
		p.setSub(s)
	}
	for lane := range p.config.Lanes {
		for more := true; more; {
			o := millrace.Take{Now: p.now, Max: 64, MaxBytes: 1 << 20, For: p.soon(), Token: p.token()}
			done := both(p, "drain batches", func(e millrace.Engine) (millrace.Taken, error) { return e.Take(p.ctx(), lane, o) })
			told := millrace.Outcomes{Now: p.now, Items: taken{done, o.Token}.each(taken.sent)}
			both(p, "batches were sent", func(e millrace.Engine) (millrace.SettledBatches, error) { return e.SettleBatches(p.ctx(), lane, told) })
			more = len(done.Batches) > 0
		}
		p.compareLane(lane)
		for uid, s := range p.model.lanes[lane].subs {
			if n := len(s.batches) - s.count(millrace.BatchDead); n > 0 {
				p.Errorf("subscription %s in %d has %d batches after all were sent", uid, lane, n)
			}
		}
	}
}
