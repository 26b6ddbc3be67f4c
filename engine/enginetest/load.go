package enginetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// The queues of a load: one whose messages live until they are settled, one
// whose attempts are limited, one that keeps the order of keys, one that
// nobody leases from and that is purged, and one that is tracked.
const (
	patientQueue   = "00000000000000a1"
	impatientQueue = "00000000000000a2"
	orderedQueue   = "00000000000000a3"
	purgedQueue    = "00000000000000a4"
	trackedQueue   = "00000000000000a5"
	loadVersion    = 2
	loadTenants    = 6
)

func loadQueues() []string { return append(consumedQueues(), purgedQueue) }

func consumedQueues() []string {
	return []string{patientQueue, impatientQueue, orderedQueue, trackedQueue}
}

// Load publishes, leases and settles, takes batches and tells how they went, at
// full tilt, starts, watches and cancels operations, redrives, purges, injects and changes weights in between, and writes
// down every call and its outcome. What it publishes it names by an id, so that it
// can be asked for again.
type Load struct {
	Engine    millrace.Engine
	Ledger    *Ledger
	Name      string        // of this load; no two loads of one store share one
	Producers int           // 8 if 0
	Consumers int           // 8 if 0
	Senders   int           // of batches; 3 if 0
	Pace      time.Duration // between the calls of one producer; 1 ms if 0
	Lease     time.Duration // 400 ms if 0
	Timeout   time.Duration // of each call; 1 minute if 0

	tokens atomic.Uint64
	calm   sync.RWMutex // held for reading while a lease or a settlement is under way
}

// Prepare makes the queues and subscriptions of a load known to every lane. It may be repeated.
func Prepare(ctx context.Context, e millrace.Engine) error {
	a := millrace.Apply{Version: loadVersion, Queues: []millrace.QueueSettings{
		{UID: patientQueue, Version: loadVersion}, {UID: impatientQueue, Version: loadVersion, MaxAttempts: 4},
		{UID: orderedQueue, Version: loadVersion, Ordered: true}, {UID: purgedQueue, Version: loadVersion},
		trackedSettings(),
	}, Subscriptions: loadSettings()}
	for lane := range e.Identity().Lanes {
		if _, err := e.Apply(ctx, lane, a); err != nil {
			return fmt.Errorf("prepare lane %d: %w", lane, err)
		}
	}
	return nil
}

// Run runs the load until ctx ends, and returns when every call has been answered.
func (l *Load) Run(ctx context.Context) {
	l.defaults()
	var wg sync.WaitGroup
	for i := range l.Producers {
		wg.Go(func() { l.produce(ctx, i) })
	}
	for i := range l.Consumers {
		wg.Go(func() { l.consume(ctx, i) })
	}
	for i := range l.Senders {
		wg.Go(func() { l.send(ctx, i) })
	}
	wg.Go(func() { l.step(ctx) })
	wg.Go(func() { l.manage(ctx) })
	wg.Go(func() { l.operate(ctx) })
	wg.Wait()
}

func (l *Load) defaults() {
	if l.Producers == 0 {
		l.Producers = 8
	}
	if l.Consumers == 0 {
		l.Consumers = 8
	}
	if l.Senders == 0 {
		l.Senders = 3
	}
	if l.Pace == 0 {
		l.Pace = time.Millisecond
	}
	if l.Lease == 0 {
		l.Lease = 400 * time.Millisecond
	}
	if l.Timeout == 0 {
		l.Timeout = time.Minute
	}
}

// nap waits, and reports whether the load goes on.
func nap(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (l *Load) random(who int) *rand.Rand {
	seed := millrace.Hash(l.Name, fmt.Sprint(who))
	return rand.New(rand.NewPCG(seed, uint64(who)))
}

func (l *Load) produce(ctx context.Context, who int) {
	random := l.random(who)
	for n := 0; nap(ctx, l.Pace); n++ {
		events := l.events(random, who, n)
		phase := l.publishOnceOrTwice(fmt.Sprintf("%s-p%d-%d", l.Name, who, n), events, random.IntN(5) == 0)
		for try := 1; try <= 3 && nap(ctx, l.Pace); try++ {
			again := phase != Done && random.IntN(10) < 7 || random.IntN(20) == 0
			if !again {
				break
			}
			phase = l.publish(fmt.Sprintf("%s-p%d-%d-%d", l.Name, who, n, try), events)
		}
	}
}

// publishOnceOrTwice publishes, sometimes from two goroutines at once: the one
// that is the duplicate must not be answered before the other is durable.
func (l *Load) publishOnceOrTwice(call string, events []LedgerEvent, twice bool) Phase {
	if !twice {
		return l.publish(call, events)
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.publish(call+"-twin", events) })
	phase := l.publish(call, events)
	wg.Wait()
	return phase
}

// events are the events of one commit: of one tenant and key, so of one lane.
func (l *Load) events(random *rand.Rand, who, n int) []LedgerEvent {
	tenant, key := tenantOf(random), fmt.Sprint("k", random.IntN(3))
	if random.IntN(6) == 0 {
		id := fmt.Sprintf("%s-%d-%d~%s", l.Name, who, n, tenant)
		return []LedgerEvent{{ID: id, Tenant: tenant, Queues: heldQueues(), Subs: loadSubs(), Delay: time.Duration(20+random.IntN(80)) * time.Millisecond}}
	}
	queues := [][]string{{patientQueue}, {impatientQueue}, {patientQueue, impatientQueue}, {orderedQueue}, {orderedQueue, patientQueue}, {purgedQueue}, {patientQueue, purgedQueue}, {trackedQueue}, {trackedQueue, patientQueue}}[random.IntN(9)]
	subs := [][]string{nil, {plainSub}, {orderedSub}, loadSubs()}[random.IntN(4)]
	events := make([]LedgerEvent, 1+random.IntN(3))
	for i := range events {
		events[i] = LedgerEvent{ID: fmt.Sprintf("%s-%d-%d-%d", l.Name, who, n, i), Tenant: tenant, Key: key, Queues: queues, Subs: subs}
	}
	return events
}

func (l *Load) publish(call string, events []LedgerEvent) Phase {
	lane := millrace.LaneOf(millrace.Hash(events[0].Tenant, events[0].Key), l.Engine.Identity().Lanes)
	e := Entry{Call: call, Phase: Invoked, Op: "publish", Lane: lane, Events: events}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	done, err := l.Engine.Publish(ctx, lane, commitOf(events))
	e = e.ended(err)
	for _, s := range done.Stamps {
		e.Events = append(e.Events, LedgerEvent{Seq: s.Seq, Prev: s.Prev, Duplicate: s.Duplicate})
	}
	l.Ledger.Record(e)
	return e.Phase
}

// heldQueues are where a load routes the delayed events that are due, beside all of its subscriptions.
func heldQueues() []string { return []string{patientQueue, orderedQueue, trackedQueue} }

// commitFrom is the commit of a delayed event that is due; its id ends with its tenant.
func commitFrom(h millrace.HeldEvent) millrace.Commit {
	_, tenant, _ := strings.Cut(string(h.Body), "~")
	e := event(tenant, string(h.Body), heldQueues()...)
	e.From, e.Batches, e.Operations = h.Name, loadSubs(), loadOpenings(tenant, string(h.Body), e.Queues)
	return millrace.Commit{Version: loadVersion, Events: []millrace.CommitEvent{e}}
}

// commitOf is the commit of a load's events; an event's body is its id.
func commitOf(events []LedgerEvent) millrace.Commit {
	c := millrace.Commit{Version: loadVersion}
	for _, e := range events {
		if e.Delay > 0 {
			late := known(event(e.Tenant, e.ID), e.ID)
			late.ID, late.Delay = e.ID, e.Delay
			c.Events = append(c.Events, late)
			continue
		}
		now := known(keyed(event(e.Tenant, e.ID, e.Queues...), e.Key), e.ID)
		now.Batches, now.Operations = e.Subs, loadOpenings(e.Tenant, e.ID, e.Queues)
		c.Events = append(c.Events, now)
	}
	return c
}

func (l *Load) consume(ctx context.Context, who int) {
	random := l.random(1000 + who)
	lanes := l.Engine.Identity().Lanes
	for n := 0; ctx.Err() == nil; n++ {
		lane, queue := random.IntN(lanes), consumedQueues()[random.IntN(4)]
		consumer := fmt.Sprintf("%s-c%d", l.Name, who)
		h := l.lease(fmt.Sprintf("%s-%d", consumer, n), lane, queue, 1+random.IntN(12), consumer)
		if len(h.Messages) == 0 {
			nap(ctx, 2*time.Millisecond)
			continue
		}
		verb := []millrace.Verb{
			millrace.Ack, millrace.Ack, millrace.Ack, millrace.Ack, millrace.Ack, millrace.Ack,
			millrace.Retry, millrace.Retry, millrace.Bury, 0,
		}[random.IntN(10)]
		if random.IntN(8) == 0 {
			l.extend(lane, queue, h.items())
			l.report(lane, h, random.IntN(101))
		}
		switch {
		case random.IntN(12) == 0:
			l.release(fmt.Sprintf("%s-r%d-%d", l.Name, who, n), lane, queue, consumer, h)
		case verb != 0:
			l.settle(fmt.Sprintf("%s-s%d-%d", l.Name, who, n), lane, queue, verb, h, time.Duration(random.IntN(2))*30*time.Millisecond)
		}
	}
}

// token is unique in the life of a store.
func (l *Load) token() millrace.Token {
	var t millrace.Token
	binary.BigEndian.PutUint64(t[:8], millrace.Hash(l.Name, "token"))
	binary.BigEndian.PutUint64(t[8:], l.tokens.Add(1))
	return t
}

func (l *Load) lease(call string, lane int, queue string, limit int, consumer string) held {
	l.calm.RLock()
	defer l.calm.RUnlock()
	e := Entry{Call: call, Phase: Invoked, Op: "lease", Lane: lane, Queue: queue}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	h := held{token: l.token()}
	var err error
	h.Leased, err = l.Engine.Lease(ctx, lane, millrace.Lease{
		Queue: queue, Max: limit, MaxBytes: millrace.MaxLeaseBytes, For: l.Lease, Token: h.token, Consumer: consumer,
	})
	e = e.ended(err)
	for _, m := range h.Messages {
		e.Events = append(e.Events, leasedEvent(m))
	}
	l.Ledger.Record(e)
	return h
}

// leasedEvent is a leased message. It is known by its name, which is its seq unless it was injected.
func leasedEvent(m millrace.LeasedMessage) LedgerEvent {
	e := LedgerEvent{ID: string(m.Body), Tenant: m.Tenant, Seq: m.Name, Prev: m.Prev, Attempt: m.Attempt}
	if m.Seq != m.Name {
		e.Own = m.Seq
	}
	return e
}

// extend prolongs leases; whatever comes of it, the settlement after it is what counts.
func (l *Load) extend(lane int, queue string, items []millrace.SettleItem) {
	ctx, cancel := l.patience()
	defer cancel()
	_, err := l.Engine.Extend(ctx, lane, millrace.Extend{Queue: queue, For: l.Lease, Items: items})
	if outcome(err) == Forbidden {
		l.Ledger.Record(Entry{Call: l.Name + "-extend", Op: "extend", Lane: lane}.ended(err))
	}
}

func (l *Load) settle(call string, lane int, queue string, verb millrace.Verb, h held, delay time.Duration) {
	l.settleAs(Entry{Call: call, Phase: Invoked, Op: "settle", Lane: lane, Queue: queue, Verb: string(verb)}, h, delay)
}

// settleReleased settles what was released: all of it must be lost.
func (l *Load) settleReleased(call string, lane int, queue string, h held) {
	l.settleAs(Entry{Call: call, Phase: Invoked, Op: "settle", Lane: lane, Queue: queue, Verb: string(millrace.Ack), Released: true}, h, 0)
}

func (l *Load) settleAs(e Entry, h held, delay time.Duration) {
	l.calm.RLock()
	defer l.calm.RUnlock()
	items := h.items()
	for i, m := range h.Messages {
		items[i].Delay = delay
		m := leasedEvent(m)
		m.Prev, m.Attempt = 0, 0
		e.Events = append(e.Events, m)
	}
	l.Ledger.Record(e)
	ctx, cancel := l.patience()
	defer cancel()
	done, err := l.Engine.Settle(ctx, e.Lane, millrace.Settle{Queue: e.Queue, Verb: millrace.Verb(e.Verb[0]), Items: items})
	e = e.ended(err)
	lost := map[int]bool{}
	for _, i := range done.Lost {
		lost[i] = true
	}
	for i := range items {
		e.Events = append(e.Events, LedgerEvent{Seq: items[i].Name, Lost: lost[i]})
	}
	l.Ledger.Record(e)
}

// step returns what is due, as a node does.
func (l *Load) step(ctx context.Context) {
	for nap(ctx, 20*time.Millisecond) {
		for lane := range l.Engine.Identity().Lanes {
			l.stepLane(lane)
		}
	}
}

func (l *Load) stepLane(lane int) {
	ctx, cancel := l.patience()
	defer cancel()
	done, err := l.Engine.Step(ctx, lane, time.Time{}, 500)
	for _, h := range done.Events {
		if _, failed := l.Engine.Publish(ctx, lane, commitFrom(h)); failed != nil {
			err = failed
		}
	}
	if outcome(err) == Forbidden {
		call := fmt.Sprintf("%s-step-%d", l.Name, lane)
		l.Ledger.Record(Entry{Call: call, Op: "step", Lane: lane}.ended(err))
	}
}

// patience is the context of one call. The end of the load does not end it: a
// call that was made is waited for.
func (l *Load) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), l.Timeout)
}

// Under runs a load on a prepared engine, does something to the store in its
// midst, and returns the history as it was known when that began, the rest being
// uncertain: what a fault that loses the store's memory leaves.
func Under(ctx context.Context, l *Load, lead time.Duration, fault func()) History {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	nap(ctx, lead)
	known := l.Ledger.Len()
	fault()
	cancel()
	wg.Wait()
	return l.Ledger.History().Cut(known)
}

// Through runs a load on a prepared engine while something is done to the
// store that it must live through, and returns the whole history.
func Through(ctx context.Context, l *Load, faults func()) History {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	faults()
	cancel()
	wg.Wait()
	return l.Ledger.History()
}

func loadPromises() []promise {
	return []promise{
		{"NothingIsLostOrTwiceUnderLoad", nothingLostUnderLoad},
		{"NothingIsLostOrTwiceOverACloseUnderLoad", nothingLostOverAClose},
	}
}

func nothingLostUnderLoad(t *testing.T, c Config) {
	r := open(t, c)
	r.ok(Prepare(r.ctx(), r.Engine))
	l := &Load{Engine: r.Engine, Ledger: NewLedger(), Name: "load", Lease: 50 * time.Millisecond}
	h := Through(r.ctx(), l, func() {
		nap(r.ctx(), 400*time.Millisecond)
		r.waitFor("calls of every kind", func() bool { return enough(l.Ledger.History()) })
	})
	r.judge(h)
}

func nothingLostOverAClose(t *testing.T, c Config) {
	r := open(t, c)
	r.ok(Prepare(r.ctx(), r.Engine))
	l := &Load{Engine: r.Engine, Ledger: NewLedger(), Name: "load"}
	h := Through(r.ctx(), l, func() {
		nap(r.ctx(), 200*time.Millisecond)
		r.waitFor("calls of every kind", func() bool { return enough(l.Ledger.History()) })
		r.ok(r.Close())
	})
	r.Engine = r.opened()
	r.judge(h)
}

// judge fails the test unless the store is as the history says, and there is something to judge.
func (r *rig) judge(h History) {
	r.Helper()
	if !enough(h) {
		r.Error("too few calls were acknowledged")
	}
	if err := Audit(r.ctx(), r.Engine, h); err != nil {
		r.Error(err)
	}
}

// enough reports whether a history has something of every kind to judge by.
func enough(h History) bool {
	for op, least := range map[string]int{"publish": 5, "lease": 5, "settle": 5, "take": 30, "outcome": 30, "observe": 12} {
		if h.Acknowledged(op) < least {
			return false
		}
	}
	return !slices.ContainsFunc(managementOps(), func(op string) bool { return h.Acknowledged(op) == 0 })
}
