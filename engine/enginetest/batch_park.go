package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func parkPromises() []promise {
	return []promise{
		{"ThreeFailuresInARowParkASubscription", threeFailuresPark},
		{"FailuresOverTimeParkASubscription", failuresOverTimePark},
		{"ThreeBatchesThatAreLateParkASubscription", lateBatchesPark},
		{"AParkLastsAsLongAsTheReceiverAsked", parkAsAsked},
		{"AParkIsSpreadByItsJitter", parkWithJitter},
		{"WhenAParkEndsOneBatchAtATimeProbes", oneProbe},
		{"AFailedProbeParksForTheNextWaitOfTheSchedule", probesTakeTheNextWait},
		{"WhatFailsWhileItIsParkedDoesNotCount", parkedDoesNotCount},
		{"ASuccessfulProbeReleasesTheRest", probeReleases},
		{"ASuccessEndsAPark", successEndsPark},
		{"ASuccessBetweenFailuresParksNobody", successBetween},
		{"APoisonousBatchAmongHealthyOnesParksNobody", poisonParksNobody},
		{"ASubscriptionWithoutAScheduleIsNeverParked", noScheduleNoPark},
		{"AParkedSubscriptionHindersNoOther", parkedHindersNobody},
		{"AParkedSubscriptionCollects", parkedCollects},
		{"ARetryDoesNotEndAPark", retryKeepsPark},
		{"EachLaneParksByItself", lanesPark},
	}
}

// parked parks a subscription by the failure of three batches; a fourth is ready.
func (r *rig) parked(lane int, edits ...func(*millrace.SubscriptionSettings)) string {
	r.Helper()
	uid := r.sub(append([]func(*millrace.SubscriptionSettings){single}, edits...)...)
	r.push(lane, uid, "1", "2", "3", "4")
	r.told(lane, r.took(lane, 3).each(taken.failed)...)
	return uid
}

// parkedUntil fails unless a subscription is parked until a time from now.
func (r *rig) parkedUntil(lane int, uid string, wait time.Duration) {
	r.Helper()
	s := r.subStats(lane, uid)
	r.same("parked, until", []any{s.Parked, s.NextAttemptAt}, []any{true, r.now.Add(wait)})
	r.same("taken while it is parked", r.take(lane, 9).names(), []string{})
}

func threeFailuresPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2", "3", "4")
		k := r.took(lane, 3)
		r.told(lane, k.failed(0), k.failed(1))
		s := r.subStats(lane, uid)
		r.same("after two", []any{s.Parked, s.NextAttemptAt}, []any{false, time.Time{}})
		r.same("due", r.told(lane, k.failed(2)).Due, 5*time.Second)
		r.parkedUntil(lane, uid, 5*time.Second)
		r.same("states", r.states(lane, uid), []string{"early 1", "early 1", "early 1", "ready 1"})
	})
}

func failuresOverTimePark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(time.Second, time.Second, time.Second))
	r.push(0, uid, "1")
	for failure := 1; failure <= 3; failure++ {
		r.told(0, r.took(0, 1).failed(0))
		r.same("parked", r.subStats(0, uid).Parked, failure == 3)
		r.pass(time.Second)
		r.step(0)
	}
	s := r.subStats(0, uid)
	r.same("probing", []any{s.Parked, s.NextAttemptAt}, []any{true, time.Time{}})
}

func lateBatchesPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4")
	r.took(0, 3)
	r.pass(2 * minute)
	r.same("step", r.step(0), millrace.Stepped{Scrubbed: 3, Due: 5 * time.Second})
	r.parkedUntil(0, uid, 5*time.Second)
}

func parkAsAsked(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4")
	k := r.took(0, 3)
	o := k.failed(2)
	o.After = 90 * time.Second
	r.told(0, k.failed(0), k.failed(1), o)
	r.parkedUntil(0, uid, 90*time.Second)
}

func parkWithJitter(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4")
	k := r.took(0, 3)
	o := k.failed(2)
	o.Jitter = 1000
	r.told(0, k.failed(0), k.failed(1), o)
	r.parkedUntil(0, uid, 6*time.Second)
}

func oneProbe(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid := r.parked(lane)
		r.pass(5*time.Second - time.Millisecond)
		r.step(lane)
		r.parkedUntil(lane, uid, time.Millisecond)
		r.pass(time.Millisecond)
		r.same("step", r.step(lane), millrace.Stepped{Promoted: 3, Due: -1})
		s := r.subStats(lane, uid)
		r.same("probing", []any{s.Parked, s.NextAttemptAt}, []any{true, time.Time{}})
		k := r.take(lane, 9)
		r.same("the oldest alone", k.names(), []string{"1"})
		r.same("no other beside it", r.take(lane, 9).names(), []string{})
		r.told(lane, k.sent(0))
		r.told(lane, r.took(lane, 3).each(taken.sent)...)
	})
}

func probesTakeTheNextWait(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		uid := r.parked(lane)
		for _, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second} {
			r.parkedUntil(lane, uid, wait)
			r.pass(wait)
			r.step(lane)
			r.told(lane, r.took(lane, 1).failed(0))
		}
		for r.subStats(lane, uid).NextAttemptAt.After(r.now) {
			r.pass(10 * time.Second)
			r.step(lane)
		}
		r.told(lane, r.took(lane, 1).sent(0))
		r.push(lane, uid, "5", "6", "7")
		r.told(lane, r.took(lane, 3).each(taken.failed)...)
		r.parkedUntil(lane, uid, 5*time.Second)
	})
}

func parkedDoesNotCount(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4", "5", "6", "7", "8")
	k := r.took(0, 8)
	r.told(0, k.failed(0), k.failed(1), k.failed(2))
	r.pass(time.Second)
	r.told(0, k.failed(3), k.failed(4), k.failed(5), k.failed(6))
	r.same("parked as before", r.subStats(0, uid).NextAttemptAt, r.now.Add(4*time.Second))
	r.same("failed", r.subStats(0, uid).Failed, int64(7))
	r.pass(6 * time.Second)
	r.step(0)
	r.same("none beside what is still pending", r.take(0, 9).names(), []string{})
	r.told(0, k.failed(7))
	r.parkedUntil(0, uid, 10*time.Second)
}

func probeReleases(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	r.pass(5 * time.Second)
	r.step(0)
	k := r.took(0, 1)
	r.push(0, uid, "5")
	r.told(0, k.sent(0))
	s := r.subStats(0, uid)
	r.same("stats", []any{s.Parked, s.NextAttemptAt, s.FailingSince, s.Reason}, []any{false, time.Time{}, time.Time{}, ""})
	r.same("the rest", r.take(0, 9).names(), []string{"2", "3", "4", "5"})
}

func successEndsPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4", "5", "6")
	k := r.took(0, 4)
	r.told(0, k.failed(0), k.failed(1), k.failed(2))
	r.parkedUntil(0, uid, 5*time.Second)
	r.same("due", r.told(0, k.sent(3)).Due, 5*time.Second)
	s := r.subStats(0, uid)
	r.same("stats", []any{s.Parked, s.NextAttemptAt}, []any{false, time.Time{}})
	r.same("the rest", r.take(0, 9).names(), []string{"5", "6"})
	r.pass(5 * time.Second)
	done, err := r.Step(r.ctx(), 0, r.now, 3)
	r.ok(err)
	r.same("nothing but the batches is due", []any{done.Promoted, done.More}, []any{3, false})
}

func successBetween(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4", "5", "6", "7", "8")
	k := r.took(0, 8)
	r.told(0, k.failed(0), k.failed(1), k.sent(2), k.failed(3), k.failed(4), k.sent(5))
	r.same("parked", r.subStats(0, uid).Parked, false)
	r.told(0, k.failed(6), k.failed(7))
	r.same("parked after two more", r.subStats(0, uid).Parked, false)
}

func poisonParksNobody(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(time.Second, time.Second, time.Second, time.Second))
	r.push(0, uid, "poison")
	for range 5 {
		r.push(0, uid, "healthy")
		k := r.took(0, 2)
		r.same("both", k.names(), []string{"poison", "healthy"})
		r.told(0, k.failed(0))
		r.same("parked", r.subStats(0, uid).Parked, false)
		r.told(0, k.sent(1))
		r.pass(time.Second)
		r.step(0)
	}
	r.same("it alone is dead", r.states(0, uid), []string{"dead 1"})
}

func noScheduleNoPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits())
	r.push(0, uid, "1", "2", "3", "4", "5")
	r.told(0, r.took(0, 4).each(taken.failed)...)
	r.same("parked", r.subStats(0, uid).Parked, false)
	r.changeSub(uid, waits(time.Second))
	r.told(0, r.took(0, 1).failed(0))
	r.same("parked by one that counts", r.subStats(0, uid).Parked, false)
}

func parkedHindersNobody(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	other := r.sub(single)
	r.push(0, other, "x", "y")
	r.same("the other", r.take(0, 9).names(), []string{"x", "y"})
	r.same("parked", r.subStats(0, uid).Parked, true)
}

func parkedCollects(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	r.push(0, uid, "5")
	r.changeSub(uid, func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.push(0, uid, "6")
	r.same("states", r.states(0, uid), []string{"early 1", "early 1", "early 1", "ready 1", "ready 1", "early* 1"})
	r.pass(time.Second)
	r.same("promoted", r.step(0).Promoted, 1)
}

func retryKeepsPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	first := r.batchAt(0, uid, 0).Name
	r.retried(0, millrace.BatchesOf{Subscription: uid, Names: []uint64{first}}, 1, 0)
	r.same("states", r.states(0, uid), []string{"ready 1", "early 1", "early 1", "ready 1"})
	r.parkedUntil(0, uid, 5*time.Second)
}

func lanesPark(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.parked(0)
	for lane := 1; lane < c.Lanes; lane++ {
		r.push(lane, uid, "1")
		r.same("parked", r.subStats(lane, uid).Parked, false)
		r.told(lane, r.took(lane, 1).sent(0))
	}
	r.same("parked still", r.subStats(0, uid).Parked, true)
}
