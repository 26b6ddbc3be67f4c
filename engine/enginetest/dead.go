package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func deadPromises() []promise {
	return []promise{
		{"ADeadLetterSaysWhyAndWhen", deadSaysWhy},
		{"DeadLettersAreListedByNameInPages", deadInPages},
		{"ADeadLetterThatIsRedrivenWaitsAtItsOldPlace", redriveToItsPlace},
		{"ARedriveBeginsTheAttemptsAnew", redriveAttempts},
		{"ARedriveOfATenantLeavesTheOthers", redriveTenant},
		{"ARedriveOfAllIsBoundedAndSaysWhatIsLeft", redriveBounded},
		{"ARedriveOfNamesIgnoresThoseThatAreNotDead", redriveNames},
		{"ARedriveWakesAWantedQueue", redriveHints},
		{"DroppedDeadLettersAreGoneAndCounted", dropDead},
		{"ADeadLetterGoesWhenItsRetentionIsOver", deadForgotten},
		{"ARedrivenDeadLetterIsNotForgotten", redrivenIsNotForgotten},
		{"ADroppedDeadLetterFreesItsBodyOnlyForItsQueue", droppedKeepsBody},
		{"DeadLettersAreThereAfterAReopen", deadReopened},
	}
}

// dead lists the dead letters of a tenant, or of all.
func (r *rig) dead(lane int, queue, tenant string) []millrace.QueuedMessage {
	r.Helper()
	all, err := r.Dead(r.ctx(), lane, millrace.DeadPage{Queue: queue, Tenant: tenant, Limit: 1000})
	r.ok(err)
	return all
}

// shown are the bodies of messages.
func shown(messages []millrace.QueuedMessage) []string {
	names := []string{}
	for _, m := range messages {
		names = append(names, string(m.Body))
	}
	return names
}

// bury publishes messages, one per name, and makes them dead.
func (r *rig) bury(lane int, q string, names ...string) []uint64 {
	r.Helper()
	r.fill(lane, q, names...)
	h := r.leased(lane, q, len(names))
	r.settled(lane, q, millrace.Bury, h.items()...)
	var dead []uint64
	for _, m := range r.dead(lane, q, "") {
		dead = append(dead, m.Name)
	}
	return dead
}

func (r *rig) redrive(lane int, d millrace.DeadOf) (done, left int) {
	r.Helper()
	d.Now = r.now
	if r.queues[d.Queue].Tracked && d.Openings == nil {
		for _, name := range d.Names {
			d.Openings = append(d.Openings, r.opening(d.Queue, "again", fmt.Sprint(name)))
		}
	}
	done, left, err := r.Redrive(r.ctx(), lane, d)
	r.ok(err)
	return done, left
}

func deadSaysWhy(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	r.each(func(lane int) {
		stamps := r.publish(lane, keyed(event("a", "1", q), "k"), keyed(event("a", "2", q), "k"), event("b", "3", q))
		recorded := r.now
		h := r.leased(lane, q, 3) // 1, 3, 2
		bad := h.item(0)
		bad.Error = "no such account"
		r.settled(lane, q, millrace.Bury, bad)
		r.settled(lane, q, millrace.Retry, h.item(1), h.item(2))
		buried := r.now
		r.pass(time.Second)
		h = r.leased(lane, q, 2) // 3, 2
		slow := h.item(1)
		slow.Error = "too slow"
		r.settled(lane, q, millrace.Retry, slow)
		retried := r.now
		r.pass(minute)
		r.step(lane)
		r.same("dead letters", r.dead(lane, q, ""), []millrace.QueuedMessage{
			{Name: stamps[0].Seq, Seq: stamps[0].Seq, RecordedAt: recorded, Tenant: "a", Attempts: 1, Body: []byte("1"),
				Reason: millrace.ReasonBuried, Error: "no such account", DeadAt: buried},
			{Name: stamps[1].Seq, Seq: stamps[1].Seq, Prev: stamps[0].Seq, RecordedAt: recorded, Tenant: "a", Attempts: 2, Body: []byte("2"),
				Reason: millrace.ReasonAttempts, Error: "too slow", DeadAt: retried},
			{Name: stamps[2].Seq, Seq: stamps[2].Seq, RecordedAt: recorded, Tenant: "b", Attempts: 2, Body: []byte("3"),
				Reason: millrace.ReasonAttempts, Error: "the lease ended", DeadAt: r.now},
		})
	})
}

func deadInPages(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.bury(0, q, "a1", "b1", "a2", "b2", "c1")
	var got []string
	after := uint64(0)
	for {
		page, err := r.Dead(r.ctx(), 0, millrace.DeadPage{Queue: q, After: after, Limit: 2})
		r.ok(err)
		if len(page) == 0 {
			break
		}
		got, after = append(got, shown(page)...), page[len(page)-1].Name
	}
	r.same("all", got, []string{"a1", "b1", "a2", "b2", "c1"})
	r.same("one tenant's", shown(r.dead(0, q, "b")), []string{"b1", "b2"})
	page, err := r.Dead(r.ctx(), 0, millrace.DeadPage{Queue: q, Tenant: "b", After: r.dead(0, q, "b")[0].Name, Limit: 5})
	r.ok(err)
	r.same("one tenant's second page", shown(page), []string{"b2"})
	r.same("a stranger's", r.dead(0, q, "x"), []millrace.QueuedMessage{})
}

func redriveToItsPlace(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		names := r.bury(lane, q, "a1", "a2")
		r.fill(lane, q, "a3", "b1")
		done, left := r.redrive(lane, millrace.DeadOf{Queue: q, Names: names})
		r.same("done, left", []int{done, left}, []int{2, 0})
		r.same("dead", r.dead(lane, q, ""), []millrace.QueuedMessage{})
		r.same("order", r.lease(lane, q, 9).names(), []string{"a1", "b1", "a2", "a3"})
	})
}

func redriveAttempts(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	r.fill(0, q, "a1")
	for range 3 {
		for attempt := 1; attempt <= 2; attempt++ {
			h := r.leased(0, q, 1)
			r.same("attempt", h.Messages[0].Attempt, attempt)
			r.settled(0, q, millrace.Retry, h.items()...)
		}
		r.counts(0, q, 0, 0, 0, 1)
		r.redrive(0, millrace.DeadOf{Queue: q, All: true, Max: 10})
	}
	r.same("spent", r.stats(0, q).Spent, int64(3))
}

func redriveTenant(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.bury(0, q, "a1", "b1", "a2")
	done, left := r.redrive(0, millrace.DeadOf{Queue: q, All: true, Tenant: "a", Max: 10})
	r.same("done, left", []int{done, left}, []int{2, 0})
	r.same("dead", shown(r.dead(0, q, "")), []string{"b1"})
	r.same("waiting", r.lease(0, q, 9).names(), []string{"a1", "a2"})
}

func redriveBounded(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.bury(0, q, "b1", "a1", "b2", "a2", "a3")
	done, left := r.redrive(0, millrace.DeadOf{Queue: q, All: true, Max: 2})
	r.same("of all", []int{done, left}, []int{2, 3})
	r.same("oldest first", shown(r.dead(0, q, "")), []string{"b2", "a2", "a3"})
	done, left = r.redrive(0, millrace.DeadOf{Queue: q, All: true, Tenant: "a", Max: 1})
	r.same("of a", []int{done, left}, []int{1, 1})
	r.same("order", r.lease(0, q, 9).names(), []string{"b1", "a1", "a2"})
}

func redriveNames(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	names := r.bury(0, q, "a1", "b1")
	waiting := r.publish(0, event("a", "a2", q))[0].Seq
	done, left := r.redrive(0, millrace.DeadOf{Queue: q, Names: []uint64{waiting, 7, names[1], names[1]}})
	r.same("done, left", []int{done, left}, []int{1, 0})
	done, _ = r.redrive(0, millrace.DeadOf{Queue: q, Names: names[1:]})
	r.same("again", done, 0)
	r.counts(0, q, 2, 0, 0, 1)
	_, _, err := r.Redrive(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: "00000000000000ee", Names: names})
	r.refused(err, millrace.CodeNotFound)
}

func redriveHints(t *testing.T, c Config) {
	take := func(r *rig, lane int, q string) { r.bury(lane, q, "a1") }
	wanted(t, c, take, func(r *rig, lane int, q string) { r.redrive(lane, millrace.DeadOf{Queue: q, All: true, Max: 1}) })
}

func dropDead(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	names := r.bury(0, q, "a1", "b1", "a2", "b2", "b3")
	drop := func(d millrace.DeadOf) []int {
		d.Now, d.Queue = r.now, q
		done, left, err := r.DropDead(r.ctx(), 0, d)
		r.ok(err)
		return []int{done, left}
	}
	r.same("by name", drop(millrace.DeadOf{Names: []uint64{names[0], 7}}), []int{1, 0})
	r.same("of b", drop(millrace.DeadOf{All: true, Tenant: "b", Max: 2}), []int{2, 1})
	r.same("left", shown(r.dead(0, q, "")), []string{"a2", "b3"})
	r.same("all", drop(millrace.DeadOf{All: true, Max: 9}), []int{2, 0})
	s := r.stats(0, q)
	r.same("dropped, spent, dead", []int64{s.Dropped, s.Spent, s.Dead}, []int64{5, 5, 0})
	r.same("dropped in the lane", r.laneStats(0).Dropped, int64(5))
}

func deadForgotten(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{DeadRetention: time.Hour})
	r.each(func(lane int) {
		r.fill(lane, q, "a1", "b1", "a2")
		h := r.leased(lane, q, 3)
		r.same("due", r.settle(lane, q, millrace.Bury, h.item(0), h.item(1)).Due, minute)
		r.settled(lane, q, millrace.Ack, h.item(2))
		r.pass(time.Hour - time.Millisecond)
		r.same("not yet", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.pass(time.Millisecond)
		done, err := r.Step(r.ctx(), lane, r.now, 1)
		r.ok(err)
		r.same("one", done, millrace.Stepped{Forgotten: 1, More: true, Exits: []millrace.Exit{{Queue: q, Name: h.Messages[0].Name, Reason: millrace.ReasonRetention}}})
		r.same("left", shown(r.dead(lane, q, "")), []string{"b1"})
		done = r.step(lane)
		r.same("forgotten, none due", []any{done.Forgotten, done.Due < 0}, []any{1, true})
		r.counts(lane, q, 0, 0, 0, 0)
		r.same("dropped", r.stats(lane, q).Dropped, int64(2))
	})
}

func redrivenIsNotForgotten(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{DeadRetention: time.Hour})
	names := r.bury(0, q, "a1", "b1")
	r.redrive(0, millrace.DeadOf{Queue: q, Names: names[:1]})
	_, _, err := r.DropDead(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: q, Names: names[1:]})
	r.ok(err)
	r.pass(2 * time.Hour)
	done := r.step(0)
	r.same("forgotten", done.Forgotten, 0)
	r.same("due", done.Due < 0, true)
	r.same("waiting", r.lease(0, q, 9).names(), []string{"a1"})
}

func droppedKeepsBody(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	r.publish(0, event("a", "both", one, two))
	r.settled(0, one, millrace.Bury, r.leased(0, one, 1).items()...)
	_, _, err := r.DropDead(r.ctx(), 0, millrace.DeadOf{Now: r.now, Queue: one, All: true, Max: 5})
	r.ok(err)
	r.same("the other", r.lease(0, two, 1).names(), []string{"both"})
}

func deadReopened(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queueOf(millrace.QueueSettings{DeadRetention: time.Hour})
	r.bury(0, q, "a1", "b1")
	before := r.dead(0, q, "")
	r.reopen()
	r.same("dead letters", r.dead(0, q, ""), before)
	r.redrive(0, millrace.DeadOf{Queue: q, Names: []uint64{before[1].Name}})
	r.reopen()
	r.same("waiting", r.lease(0, q, 9).names(), []string{"b1"})
	r.pass(time.Hour)
	r.same("forgotten", r.step(0).Forgotten, 1)
}
