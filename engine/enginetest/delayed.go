package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func heldPromises() []promise {
	return []promise{
		{"ADelayedEventIsHeldAndGoesToNoQueue", eventIsHeld},
		{"ADelayedEventIsHandedOutWhenItIsDue", heldIsDue},
		{"ADelayedEventIsHandedOutAgainUntilItIsTakenOut", heldAgain},
		{"ACommitFromAHeldEventTakesItOut", fromTakesOut},
		{"ACommitFromAnEventThatIsGoneStoresNothing", fromGone},
		{"ACommitFromAHeldEventThatIsRefusedLeavesItHeld", fromRefused},
		{"ADelayedEventIsFoundByTenantAndID", heldIsFound},
		{"OfSeveralWithOneIDTheOneHeldLastIsFound", heldLastIsFound},
		{"ACancelledEventIsNotHandedOut", heldCancelled},
		{"ADelayedEventsIDIsKnownWhileItIsHeldAndAfter", heldIsKnown},
		{"ADelayedEventsIDIsKnownForAWindowAfterItIsDue", heldIsKnownLong},
		{"DelayedEventsAreThereAfterAReopen", heldReopened},
		{"ADelayedEventThatIsDueFirstSendsAHint", heldHints},
		{"WhatIsDueAtOneTimeComesInTheOrderOfItsKind", dueKinds},
	}
}

// delayedEvent is an event that is held for a time, under an id that the publisher gave.
func delayedEvent(tenant, id string, d time.Duration) millrace.CommitEvent {
	e := known(event(tenant, id), id)
	e.ID, e.Delay = id, d
	return e
}

// heldEvent finds a held event, or fails.
func (r *rig) heldEvent(lane int, tenant, id string) millrace.HeldEvent {
	r.Helper()
	h, err := r.Held(r.ctx(), lane, tenant, id)
	r.ok(err)
	return h
}

// from is an event that was held, for some queues.
func from(h millrace.HeldEvent, tenant string, queues ...string) millrace.CommitEvent {
	e := event(tenant, string(h.Body), queues...)
	e.From = h.Name
	return e
}

func eventIsHeld(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		before := r.laneStats(lane)
		seq := r.publish(lane, keyed(event("a", "1", q), "k"))[0].Seq
		late := delayedEvent("a", "x", time.Hour)
		late.Key = "k"
		done := r.commit(lane, late)
		r.same("stamp", done.Stamps[0], millrace.Stamp{DueAt: r.now.Add(time.Hour)})
		r.same("due", done.Due, time.Hour)
		h := r.heldEvent(lane, "a", "x")
		r.same("held", h, millrace.HeldEvent{Name: h.Name, DueAt: r.now.Add(time.Hour), Body: []byte("x")})
		r.same("its name is the lane's next number", h.Name, seq+uint64(c.Lanes))
		s := r.laneStats(lane)
		r.same("published, held", []int64{s.Published - before.Published, s.Held}, []int64{1, 1})
		r.counts(lane, q, 1, 0, 0, 0)
		next := r.publish(lane, keyed(event("a", "2", q), "k"))[0]
		r.same("seq, prev of the next", []uint64{next.Seq, next.Prev}, []uint64{h.Name + uint64(c.Lanes), seq})
	})
}

func heldIsDue(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		r.publish(lane, delayedEvent("a", "x", 2*time.Second), delayedEvent("b", "y", time.Second))
		x, y := r.heldEvent(lane, "a", "x"), r.heldEvent(lane, "b", "y")
		r.pass(time.Second - time.Millisecond)
		r.same("not yet", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.pass(time.Millisecond)
		r.same("the first", r.step(lane), millrace.Stepped{Events: []millrace.HeldEvent{y}, Due: time.Second})
		r.pass(time.Second)
		r.same("the second", r.step(lane), millrace.Stepped{Events: []millrace.HeldEvent{x}, Due: 9 * time.Second})
		r.same("both are held still", r.laneStats(lane).Held, int64(2))
		r.same("found still", r.heldEvent(lane, "b", "y"), y)
	})
}

func heldAgain(t *testing.T, c Config) {
	r := open(t, c)
	r.publish(0, delayedEvent("a", "x", time.Second), delayedEvent("a", "y", time.Second))
	r.pass(time.Second)
	done, err := r.Step(r.ctx(), 0, r.now, 1)
	r.ok(err)
	r.same("bounded", []any{len(done.Events), done.More}, []any{1, true})
	first := append(done.Events, r.step(0).Events...)
	r.same("in order", []string{string(first[0].Body), string(first[1].Body)}, []string{"x", "y"})
	r.pass(10*time.Second - time.Millisecond)
	r.same("not yet", len(r.step(0).Events), 0)
	r.pass(time.Millisecond)
	r.same("again", r.step(0).Events, first)
	r.publish(0, from(first[0], "a"))
	r.pass(10 * time.Second)
	r.same("only the other", r.step(0).Events, first[1:])
}

func fromTakesOut(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		seq := r.publish(lane, keyed(event("a", "1", q), "k"))[0].Seq
		late := delayedEvent("a", "x", time.Second)
		late.Key = "k"
		r.publish(lane, late)
		before := r.laneStats(lane)
		r.pass(time.Second)
		e := keyed(from(r.step(lane).Events[0], "a", q), "k")
		done := r.commit(lane, e)
		stamp := done.Stamps[0]
		r.same("stamp", stamp, millrace.Stamp{Seq: stamp.Seq, Prev: seq, Sinks: 1})
		r.same("recorded", done.RecordedAt, r.now)
		s := r.laneStats(lane)
		r.same("published, held", []int64{s.Published - before.Published, s.Held}, []int64{1, 0})
		_, err := r.Held(r.ctx(), lane, "a", "x")
		r.refused(err, millrace.CodeNotFound)
		h := r.leased(lane, q, 2)
		r.same("messages", h.names(), []string{"1", "x"})
		r.same("seq", h.Messages[1].Seq, stamp.Seq)
		r.settled(lane, q, millrace.Ack, h.items()...)
		done2 := r.step(lane)
		r.same("nothing is due", []any{len(done2.Events), done2.Due < 0}, []any{0, true})
	})
}

func fromGone(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.publish(0, delayedEvent("a", "x", time.Second), delayedEvent("a", "y", time.Second))
	x, y := r.heldEvent(0, "a", "x"), r.heldEvent(0, "a", "y")
	r.ok(r.CancelHeld(r.ctx(), 0, "a", "y"))
	done := r.publish(0, from(x, "a", q), from(x, "a", q), from(y, "a", q), event("b", "z", q))
	r.same("gone", []bool{done[0].Gone, done[1].Gone, done[2].Gone, done[3].Gone}, []bool{false, true, true, false})
	r.same("gone ones have nothing else", done[1], millrace.Stamp{Gone: true})
	r.same("no number is used", done[3].Seq, done[0].Seq+uint64(c.Lanes))
	again := r.publish(0, from(x, "a", q))
	r.same("again", again[0].Gone, true)
	r.same("messages", r.lease(0, q, 9).names(), []string{"x", "z"})
	s := r.laneStats(0)
	r.same("published, duplicates", []int64{s.Published, s.Duplicates}, []int64{2, 0})
}

func fromRefused(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{MaxLength: 1})
	r.fill(0, q, "a1")
	r.publish(0, delayedEvent("a", "x", time.Second))
	x := r.heldEvent(0, "a", "x")
	r.full(0, q, from(x, "a", q))
	r.same("held still", r.heldEvent(0, "a", "x"), x)
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	r.same("gone", r.publish(0, from(x, "a", q))[0].Gone, false)
}

func heldIsFound(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		r.publish(lane, delayedEvent("a", "x", time.Hour), delayedEvent("b", "x", time.Minute))
		r.same("a's", r.heldEvent(lane, "a", "x").DueAt, r.now.Add(time.Hour))
		r.same("b's", r.heldEvent(lane, "b", "x").DueAt, r.now.Add(time.Minute))
		for _, who := range [][2]string{{"c", "x"}, {"a", "y"}, {"ax", ""}, {"", "ax"}} {
			_, err := r.Held(r.ctx(), lane, who[0], who[1])
			r.refused(err, millrace.CodeNotFound)
			r.refused(r.CancelHeld(r.ctx(), lane, who[0], who[1]), millrace.CodeNotFound)
		}
	})
}

func heldLastIsFound(t *testing.T, c Config) {
	r := open(t, c)
	one, two := delayedEvent("a", "x", time.Hour), delayedEvent("a", "x", time.Minute)
	two.Topic, two.Body = "users", []byte("x2")
	two = known(two, "x")
	r.publish(0, one, two)
	r.same("the last", string(r.heldEvent(0, "a", "x").Body), "x2")
	r.ok(r.CancelHeld(r.ctx(), 0, "a", "x"))
	r.same("then the first", string(r.heldEvent(0, "a", "x").Body), "x")
	r.ok(r.CancelHeld(r.ctx(), 0, "a", "x"))
	r.refused(r.CancelHeld(r.ctx(), 0, "a", "x"), millrace.CodeNotFound)
}

func heldCancelled(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		stamp := r.publish(lane, delayedEvent("a", "x", time.Second))[0]
		r.ok(r.CancelHeld(r.ctx(), lane, "a", "x"))
		r.refused(r.CancelHeld(r.ctx(), lane, "a", "x"), millrace.CodeNotFound)
		r.same("held", r.laneStats(lane).Held, int64(0))
		r.pass(time.Second)
		done := r.step(lane)
		r.same("handed out, due", []any{len(done.Events), done.Due < 0}, []any{0, true})
		stamp.Duplicate = true
		r.same("the id is remembered", r.publish(lane, delayedEvent("a", "x", time.Second))[0], stamp)
		r.same("held", r.laneStats(lane).Held, int64(0))
	})
}

func heldIsKnown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	e := delayedEvent("a", "x", time.Second)
	first := r.publish(0, e)[0]
	first.Duplicate = true
	again := func(what string) {
		t.Helper()
		r.same(what, r.publish(0, e)[0], first)
		now := known(event("a", "x", q), "x")
		r.same(what+", without a delay", r.publish(0, now)[0], first)
	}
	again("while it is held")
	r.pass(time.Second)
	due := r.step(0).Events[0]
	again("while it is handed out")
	r.publish(0, from(due, "a", q))
	again("after it was routed")
	r.reopen()
	again("after a reopen")
	r.same("messages", r.lease(0, q, 9).names(), []string{"x"})
	r.same("duplicates", r.laneStats(0).Duplicates, int64(8))
}

func heldIsKnownLong(t *testing.T, c Config) {
	r := openWith(t, c, millrace.EngineOptions{DedupeWindow: 10 * time.Minute})
	q := r.queue(0)
	e := delayedEvent("a", "x", 2*time.Hour)
	r.publish(0, e)
	pass := func(minutes int) {
		for range minutes {
			r.pass(time.Minute)
			r.publish(0, known(event("b", "tick"), r.now.String()))
		}
	}
	pass(119)
	r.same("before it is due", r.publish(0, e)[0].Duplicate, true)
	pass(1)
	r.publish(0, from(r.step(0).Events[0], "a", q))
	pass(9)
	r.same("nine minutes after", r.publish(0, e)[0].Duplicate, true)
	r.reopen()
	r.same("after a reopen", r.publish(0, e)[0].Duplicate, true)
}

func heldReopened(t *testing.T, c Config) {
	r := open(t, c)
	r.publish(0, delayedEvent("a", "x", time.Second), delayedEvent("a", "y", time.Hour), delayedEvent("a", "z", time.Second))
	x, y := r.heldEvent(0, "a", "x"), r.heldEvent(0, "a", "y")
	r.ok(r.CancelHeld(r.ctx(), 0, "a", "z"))
	r.reopen()
	r.same("held", r.laneStats(0).Held, int64(2))
	r.same("found", r.heldEvent(0, "a", "y"), y)
	r.pass(time.Second)
	r.same("due", r.step(0).Events, []millrace.HeldEvent{x})
	r.reopen()
	r.publish(0, from(x, "a"))
	r.reopen()
	r.same("held", r.laneStats(0).Held, int64(1))
	r.pass(time.Hour)
	r.same("due", r.step(0).Events, []millrace.HeldEvent{y})
}

func heldHints(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	r.settleWatch(h, 0)
	before := h.count(millrace.HintDue, 0, "")
	r.publish(0, delayedEvent("a", "x", time.Hour))
	r.waitFor("a hint", func() bool { return h.count(millrace.HintDue, 0, "") > before })
}

// dueKinds makes one of each kind due at one millisecond.
func dueKinds(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{DeadRetention: minute})
	r.fill(0, q, "a1", "b1", "c1")
	h := r.leased(0, q, 3)
	later := h.item(1)
	later.Delay = minute
	r.settled(0, q, millrace.Bury, h.item(0))
	r.settled(0, q, millrace.Retry, later)
	r.publish(0, delayedEvent("d", "x", minute))
	r.pass(minute)
	var got []millrace.Stepped
	for range 4 {
		done, err := r.Step(r.ctx(), 0, r.now, 1)
		r.ok(err)
		done.More, done.Due, done.Exits = false, 0, nil
		for i := range done.Events {
			done.Events[i] = millrace.HeldEvent{}
		}
		got = append(got, done)
	}
	r.same("steps", got, []millrace.Stepped{{Returned: 1}, {Events: make([]millrace.HeldEvent, 1)}, {Expired: 1}, {Forgotten: 1}})
	r.same("order of the ring", r.lease(0, q, 9).names(), []string{"b1", "c1"})
}
