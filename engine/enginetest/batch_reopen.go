package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func batchesReopened(t *testing.T, c Config) {
	r := open(t, c)
	lane := c.Lanes - 1
	uid, k := r.allStates(lane)
	for _, text := range []string{"first", "second"} {
		o := k.sent(0)
		o.Name, o.Log = 77, []byte(text)
		r.outcomes(lane, o)
	}
	batches, stats := r.batches(lane, uid), r.subStats(lane, uid)
	var events [][]millrace.BatchEvent
	contents := func() (all [][]millrace.BatchEvent) {
		for _, b := range batches {
			_, e, err := r.Batch(r.ctx(), lane, uid, b.Name)
			r.ok(err)
			all = append(all, e)
		}
		return all
	}
	events = contents()
	r.reopen()
	r.same("batches", r.batches(lane, uid), batches)
	r.same("stats", r.subStats(lane, uid), stats)
	r.same("events", contents(), events)
	r.same("log", r.log(lane, uid), []string{"second", "first"})
	r.same("ready", r.take(lane, 9).names(), []string{"r1 r2"})
	r.pass(time.Hour)
	r.same("due", r.step(lane), millrace.Stepped{Promoted: 2, Scrubbed: 2, Due: time.Hour})
	r.pass(time.Hour)
	r.step(lane)
	r.pass(46 * time.Hour)
	r.same("forgotten", r.step(lane).Forgotten, 1)
}

func pendingReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, atOnce(2))
	r.push(0, uid, "1", "2", "3")
	k := r.took(0, 2)
	r.reopen()
	r.same("none beside them", r.take(0, 9).names(), []string{})
	wrong := k.sent(0)
	wrong.Token[3] ^= 1
	r.lostBatch(0, wrong)
	r.told(0, k.sent(0))
	r.pass(minute)
	r.lostBatch(0, k.sent(1))
	r.same("scrubbed", r.step(0).Scrubbed, 1)
	r.reopen()
	r.same("states", r.states(0, uid), []string{"early 1", "ready 1"})
	r.lostBatch(0, k.sent(1))
}

func currentReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.MaxBytes = 4, 10 })
	r.push(0, uid, "1", "2")
	r.reopen()
	r.push(0, uid, "3")
	r.same("one batch", r.states(0, uid), []string{"early* 3"})
	r.push(0, uid, "4")
	r.same("full", r.states(0, uid), []string{"ready 4"})
	r.push(0, uid, "1234567")
	r.reopen()
	r.push(0, uid, "1234")
	r.same("by bytes", r.states(0, uid), []string{"ready 4", "ready 1", "early* 1"})
	r.pass(time.Second)
	r.reopen()
	r.same("due", r.step(0), millrace.Stepped{Promoted: 1, Due: -1})
	r.same("all", r.take(0, 9).names(), []string{"1 2 3 4", "1234567", "1234"})
}

func parkedReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	r.pass(time.Second)
	stats := r.subStats(0, uid)
	r.reopen()
	r.same("stats", r.subStats(0, uid), stats)
	r.parkedUntil(0, uid, 4*time.Second)
	r.pass(4 * time.Second)
	r.step(0)
	k := r.take(0, 9)
	r.same("one probe", k.names(), []string{"1"})
	r.told(0, k.failed(0))
	r.parkedUntil(0, uid, 10*time.Second)
}

func probingReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	r.pass(5 * time.Second)
	r.step(0)
	r.reopen()
	s := r.subStats(0, uid)
	r.same("probing", []any{s.Parked, s.NextAttemptAt}, []any{true, time.Time{}})
	k := r.take(0, 9)
	r.same("one", k.names(), []string{"1"})
	r.reopen()
	r.same("no other beside it", r.take(0, 9).names(), []string{})
	r.told(0, k.sent(0))
	r.reopen()
	r.same("released", r.take(0, 9).names(), []string{"2", "3", "4"})
}

func failuresReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4")
	k := r.took(0, 3)
	r.told(0, k.failed(0), k.failed(1))
	since := r.now
	r.pass(time.Second)
	r.reopen()
	r.same("since", r.told(0, k.failed(2)).Items[0].FailingSince, since)
	r.parkedUntil(0, uid, 5*time.Second)
}

func blockedReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, inOrder)
	r.push(0, uid, "1", "2")
	r.told(0, r.took(0, 1).failed(0))
	r.reopen()
	r.same("blocked", r.take(0, 9).names(), []string{})
	r.pass(5 * time.Second)
	r.step(0)
	k := r.take(0, 9)
	r.same("the first", k.names(), []string{"1"})
	r.reopen()
	r.same("one pending", r.take(0, 9).names(), []string{})
	r.told(0, k.sent(0))
	r.same("the second", r.take(0, 9).names(), []string{"2"})
}

func subSettingsReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(atOnce(1), waits(7*time.Second, 8*time.Second), func(s *millrace.SubscriptionSettings) {
		s.Timeout, s.MaxEvents, s.Retention, s.Format = 3*time.Second, 2, time.Hour, "cloudevents"
	})
	off, idle := r.sub(single, disabling(true)), r.sub(single, pausing(true))
	r.reopen()
	r.publish(0, pushed("1", uid, off, idle), pushed("2", uid, off, idle), pushed("3", uid, off, idle))
	r.same("batches", r.states(0, uid), []string{"ready 2", "early* 1"})
	r.same("due", r.batchAt(0, uid, 1).DueAt, r.now.Add(3*time.Second))
	r.same("disabled", r.subStats(0, off), millrace.SubscriptionStats{Skipped: 3})
	r.same("paused", r.states(0, idle), []string{"ready 1", "ready 1", "ready 1"})
	r.pass(3 * time.Second)
	r.step(0)
	k := r.take(0, 9)
	r.same("taken", k.names(), []string{"1 2"})
	r.same("format", k.Batches[0].Format, "cloudevents")
	r.told(0, k.failed(0))
	r.same("wait", r.batchAt(0, uid, 0).DueAt, r.now.Add(7*time.Second))
}

func goneReopened(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	names := r.push(0, uid, "1", "2", "3")
	r.told(0, r.took(0, 1).sent(0))
	r.ok(r.DropBatch(r.ctx(), 0, uid, names[1]))
	r.reopen()
	s := r.subStats(0, uid)
	r.same("sent, dropped", []int64{s.Sent, s.Dropped}, []int64{1, 1})
	r.same("left", r.take(0, 9).names(), []string{"3"})
}
