package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func injectPromises() []promise {
	return []promise{
		{"AnInjectedEventKeepsItsStamps", injectKeepsStamps},
		{"AnInjectedMessageIsNamedByTheLane", injectNames},
		{"InjectedEventsKeepTheOrderGiven", injectOrder},
		{"AnInjectedEventIsInOneQueueAlone", injectOneQueue},
		{"AnInjectedEventTouchesNoCounter", injectCountsNothing},
		{"AnInjectedEventTwiceIsTwoMessages", injectTwice},
		{"InjectedEventsAreOrderedByKey", injectOrdered},
		{"InjectedEventsNeedNoRoom", injectNeedsNoRoom},
		{"AnInjectionWakesAWantedQueue", injectHints},
		{"InjectedEventsAreThereAfterAReopen", injectReopened},
	}
}

// injected is an event that was stamped somewhere else, long ago.
func injected(tenant, name string, seq uint64) millrace.InjectEvent {
	return millrace.InjectEvent{Tenant: tenant, Seq: seq, Prev: seq / 2, RecordedAt: start().Add(-time.Hour), Body: []byte(name)}
}

func (r *rig) inject(lane int, q string, events ...millrace.InjectEvent) {
	r.Helper()
	for i, e := range events {
		if r.queues[q].Tracked && e.Opening == nil {
			o := r.opening(q, e.Tenant, string(e.Body))
			events[i].Opening = &o
		}
	}
	r.ok(r.Inject(r.ctx(), lane, millrace.Inject{Now: r.now, Queue: q, Events: events}))
}

func injectKeepsStamps(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		r.inject(lane, q, injected("a", "x", 4242))
		h := r.leased(lane, q, 1)
		want := millrace.LeasedMessage{
			Name: h.Messages[0].Name, Seq: 4242, Prev: 2121, RecordedAt: start().Add(-time.Hour), Tenant: "a", Attempt: 1, Body: []byte("x"),
		}
		r.same("message", h.Messages[0], want)
		r.settled(lane, q, millrace.Bury, h.items()...)
		dead := r.dead(lane, q, "")[0]
		r.same("dead letter", []uint64{dead.Name, dead.Seq, dead.Prev}, []uint64{want.Name, 4242, 2121})
		r.redrive(lane, millrace.DeadOf{Queue: q, Names: []uint64{want.Name}})
		r.same("redriven", r.leased(lane, q, 1).Messages[0], want)
	})
}

func injectNames(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		seq := r.publish(lane, event("b", "first", q))[0].Seq
		r.inject(lane, q, injected("a", "x", 4242), injected("a", "y", 1<<52))
		next := r.publish(lane, event("b", "last", q))[0].Seq
		n := uint64(c.Lanes)
		r.same("seq of the next event", next, seq+3*n)
		h := r.leased(lane, q, 4) // first x last y
		r.same("names", []uint64{h.Messages[1].Name, h.Messages[3].Name}, []uint64{seq + n, seq + 2*n})
		r.lost(lane, q, millrace.SettleItem{Name: 4242, Token: h.token})
		r.settled(lane, q, millrace.Ack, h.items()...)
	})
}

func injectOrder(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.fill(0, q, "a0")
	r.inject(0, q, injected("a", "a1", 9), injected("b", "b1", 8), injected("a", "a2", 7), injected("b", "b2", 6))
	r.same("order", r.lease(0, q, 9).names(), []string{"a0", "b1", "a1", "b2", "a2"})
}

func injectOneQueue(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	seq := r.publish(0, event("a", "1", q, other))[0].Seq
	r.inject(0, q, injected("a", "1 again", seq))
	h := r.leased(0, q, 2)
	r.same("messages", h.names(), []string{"1", "1 again"})
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("the other", r.lease(0, other, 9).names(), []string{"1"})
}

func injectCountsNothing(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	seq := r.publish(0, keyed(event("a", "1", q), "k"))[0].Seq
	before := r.laneStats(0)
	topics, err := r.Topics(r.ctx(), 0)
	r.ok(err)
	in := injected("a", "x", 4242)
	in.Key = "k"
	r.inject(0, q, in)
	r.same("lane", r.laneStats(0), before)
	after, err := r.Topics(r.ctx(), 0)
	r.ok(err)
	r.same("topics", byName(after), byName(topics))
	r.same("the key's chain", r.publish(0, keyed(event("a", "2", q), "k"))[0].Prev, seq)
	r.counts(0, q, 3, 0, 0, 0)
}

func injectTwice(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.inject(0, q, injected("a", "x", 4242), injected("a", "x", 4242))
	r.inject(0, q, injected("a", "x", 4242))
	h := r.leased(0, q, 3)
	r.settled(0, q, millrace.Ack, h.item(1))
	r.settled(0, q, millrace.Retry, h.item(0))
	r.counts(0, q, 1, 1, 0, 0)
}

func injectOrdered(t *testing.T, c Config) {
	r, q := ordered(t, c, millrace.QueueSettings{})
	r.line(0, q, "ak1")
	for _, name := range []string{"ak2", "al1", "ak3"} {
		in := injected("a", name, 7)
		in.Key = name[1:2]
		r.inject(0, q, in)
	}
	h := r.lease(0, q, 9)
	r.same("heads", h.names(), []string{"ak1", "al1"})
	r.settled(0, q, millrace.Ack, h.items()...)
	h = r.lease(0, q, 9)
	r.same("next", h.names(), []string{"ak2"})
	r.settled(0, q, millrace.Ack, h.items()...)
	r.same("last", r.lease(0, q, 9).names(), []string{"ak3"})
}

func injectNeedsNoRoom(t *testing.T, c Config) {
	r := open(t, c)
	q, drops := r.queueOf(millrace.QueueSettings{MaxLength: 1}), r.queueOf(millrace.QueueSettings{MaxLength: 1, DropOldest: true})
	for _, uid := range []string{q, drops} {
		r.inject(0, uid, injected("a", "1", 1), injected("a", "2", 2))
		r.counts(0, uid, 2, 0, 0, 0)
	}
	r.full(0, q, event("a", "3", q))
}

func injectHints(t *testing.T, c Config) {
	wanted(t, c, func(*rig, int, string) {}, func(r *rig, lane int, q string) { r.inject(lane, q, injected("a", "x", 1)) })
}

func injectReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.inject(0, q, injected("a", "x", 4242), injected("a", "y", 17))
	h := r.leased(0, q, 1)
	r.reopen()
	r.settled(0, q, millrace.Retry, h.items()...)
	again := r.leased(0, q, 2)
	r.same("messages", again.names(), []string{"x", "y"})
	r.same("seqs", []uint64{again.Messages[0].Seq, again.Messages[1].Seq}, []uint64{4242, 17})
}
