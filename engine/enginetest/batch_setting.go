package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func settingPromises() []promise {
	return []promise{
		{"APausedSubscriptionCollectsAndSendsNothing", pausedCollects},
		{"WhatIsPendingCanBeToldWhileItIsPaused", pausedIsTold},
		{"AResumedSubscriptionIsServed", resumedIsServed},
		{"ADisabledSubscriptionSkipsAndCounts", disabledSkips},
		{"ADisabledSubscriptionKeepsWhatItHas", disabledKeeps},
		{"ASubscriptionThatWasDisabledGoesOn", enabledGoesOn},
		{"MoreConcurrencyServesMore", moreConcurrency},
		{"LessConcurrencyWaitsForWhatIsPending", lessConcurrency},
		{"FewerEventsCloseTheCurrentBatchWithTheNextOne", fewerEvents},
		{"AnotherScheduleHoldsFromTheNextFailure", anotherSchedule},
		{"LaterSettingsOfASubscriptionAreKept", laterSubSettings},
		{"ATakenBatchNamesTheVersionOfTheSettings", takenNamesVersion},
		{"SettingsOfASubscriptionAreIdempotent", subSettingsTwice},
	}
}

func pausing(on bool) func(*millrace.SubscriptionSettings) {
	return func(s *millrace.SubscriptionSettings) { s.Paused = on }
}

func disabling(on bool) func(*millrace.SubscriptionSettings) {
	return func(s *millrace.SubscriptionSettings) { s.Disabled = on }
}

func pausedCollects(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(single), r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		r.changeSub(uid, pausing(true))
		r.push(lane, uid, "3")
		r.push(lane, other, "x")
		r.same("the other alone", r.take(lane, 9).names(), []string{"x"})
		r.same("collected", r.states(lane, uid), []string{"ready 1", "ready 1", "ready 1"})
		r.same("skipped", r.subStats(lane, uid).Skipped, int64(0))
		r.changeSub(uid, pausing(false))
		k := r.take(lane, 9)
		r.same("all of it then", k.names(), []string{"1", "2", "3"})
		r.told(lane, k.each(taken.sent)...)
	})
}

func pausedIsTold(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3")
	k := r.took(0, 3)
	r.changeSub(uid, pausing(true))
	r.told(0, k.sent(0), k.failed(1))
	r.pass(minute)
	r.same("step", r.step(0), millrace.Stepped{Promoted: 1, Scrubbed: 1, Due: 5 * time.Second})
	r.same("states", r.states(0, uid), []string{"ready 1", "early 1"})
	r.same("nothing is sent", r.take(0, 9).names(), []string{})
}

func resumedIsServed(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(single)
	r.push(0, a, "a1", "a2")
	r.push(0, b, "b1", "b2")
	r.changeSub(a, pausing(true))
	r.same("b alone", r.take(0, 1).names(), []string{"b1"})
	r.changeSub(a, pausing(false))
	r.same("a at the tail", r.take(0, 9).names(), []string{"b2", "a1", "a2"})
}

func disabledSkips(t *testing.T, c Config) {
	r := open(t, c)
	uid, other := r.sub(disabling(true)), r.sub()
	r.each(func(lane int) {
		before := r.laneStats(lane)
		stamps := r.publish(lane, pushed("1", uid), pushed("2", uid, other))
		r.same("sinks", []int{stamps[0].Sinks, stamps[1].Sinks}, []int{0, 1})
		r.same("stats", r.subStats(lane, uid), millrace.SubscriptionStats{Skipped: 2})
		r.same("states", r.states(lane, uid), []string{})
		after := r.laneStats(lane)
		r.same("unrouted, published", []int64{after.Unrouted - before.Unrouted, after.Published - before.Published}, []int64{1, 2})
		r.same("the other", r.states(lane, other), []string{"early* 1"})
	})
}

func disabledKeeps(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		r.changeSub(uid, disabling(true))
		r.push(lane, uid, "skipped")
		r.same("nothing is sent", r.take(lane, 9).names(), []string{})
		r.same("kept", r.states(lane, uid), []string{"dead 2", "early 2", "pending 2", "ready 2", "early* 1"})
		r.told(lane, k.sent(0))
		r.pass(time.Hour)
		r.step(lane)
		r.same("ready in time", r.states(lane, uid), []string{"dead 2", "ready 2", "ready 2", "ready 1"})
		r.same("still nothing is sent", r.take(lane, 9).names(), []string{})
		r.changeSub(uid, disabling(false))
		all := r.take(lane, 9)
		r.same("then it is", all.names(), []string{"f1 f2", "r1 r2", "c1"})
		r.told(lane, all.each(taken.sent)...)
	})
}

func enabledGoesOn(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.push(0, uid, "1")
	r.changeSub(uid, disabling(true))
	r.push(0, uid, "2")
	r.changeSub(uid, disabling(false))
	r.push(0, uid, "3")
	r.pass(time.Second)
	r.step(0)
	r.same("one batch", r.take(0, 9).names(), []string{"1 3"})
	r.same("skipped", r.subStats(0, uid).Skipped, int64(1))
}

func moreConcurrency(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, atOnce(1))
	r.push(0, uid, "1", "2", "3", "4")
	r.same("one", r.take(0, 9).names(), []string{"1"})
	r.changeSub(uid, atOnce(3))
	r.same("two more", r.take(0, 9).names(), []string{"2", "3"})
}

func lessConcurrency(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, atOnce(3))
	r.push(0, uid, "1", "2", "3", "4", "5")
	k := r.took(0, 2)
	r.changeSub(uid, atOnce(1))
	r.same("none", r.take(0, 9).names(), []string{})
	r.told(0, k.sent(0))
	r.same("none yet", r.take(0, 9).names(), []string{})
	r.told(0, k.sent(1))
	r.same("one", r.take(0, 9).names(), []string{"3"})
}

func fewerEvents(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.push(0, uid, "1", "2", "3", "4")
	r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.same("still open", r.states(0, uid), []string{"early* 4"})
	r.push(0, uid, "5", "6")
	r.same("closed with the next", r.states(0, uid), []string{"ready 5", "early* 1"})
	r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.MaxBytes = 100, 1 })
	r.push(0, uid, "7")
	r.same("closed before the next", r.states(0, uid), []string{"ready 5", "ready 1", "early* 1"})
}

func anotherSchedule(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(time.Second, time.Second, time.Second))
	r.push(0, uid, "1", "2")
	k := r.took(0, 2)
	r.told(0, k.failed(0))
	due := r.batchAt(0, uid, 0).DueAt
	r.changeSub(uid, waits(minute))
	r.same("what waits", r.batchAt(0, uid, 0).DueAt, due)
	r.told(0, k.failed(1))
	r.same("the next failure", r.batchAt(0, uid, 1).DueAt, r.now.Add(minute))
	r.pass(time.Second)
	r.step(0)
	r.same("fewer attempts", r.told(0, r.took(0, 1).failed(0)).Items[0].Dead, true)
}

func laterSubSettings(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	change := func(version uint64, most int) {
		s := r.subs[uid]
		s.Version, s.MaxEvents = version, most
		r.apply(millrace.Apply{Version: version, Subscriptions: []millrace.SubscriptionSettings{s}})
	}
	change(r.version+5, 2)
	change(r.version+3, 3)
	r.version += 5
	r.push(0, uid, "1", "2")
	r.same("states", r.states(0, uid), []string{"ready 2"})
}

func subSettingsTwice(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid, k := r.allStates(lane)
		stats, batches := r.subStats(lane, uid), r.batches(lane, uid)
		for range 3 {
			r.apply(millrace.Apply{Version: r.version, Subscriptions: []millrace.SubscriptionSettings{r.subs[uid]}})
		}
		r.same("stats", r.subStats(lane, uid), stats)
		r.same("batches", r.batches(lane, uid), batches)
		r.same("once", r.take(lane, 9).names(), []string{"r1 r2"})
		r.told(lane, k.sent(0))
		r.remove(uid)
	})
}

func takenNamesVersion(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2")
		first := r.took(lane, 1)
		r.same("as it was defined", first.Batches[0].Version, r.subs[uid].Version)
		r.changeSub(uid, func(*millrace.SubscriptionSettings) {}) // what a lane knows stays the same; the callback may not
		second := r.took(lane, 1)
		r.same("as it was defined last", second.Batches[0].Version, r.subs[uid].Version)
		if second.Batches[0].Version <= first.Batches[0].Version {
			r.Errorf("version %d follows %d", second.Batches[0].Version, first.Batches[0].Version)
		}
		r.told(lane, first.sent(0))
		r.told(lane, second.sent(0))
	})
}
