package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func outcomePromises() []promise {
	return []promise{
		{"ABatchThatWasSentIsGone", sentIsGone},
		{"AFailedBatchWaitsByTheSchedule", failedWaits},
		{"AFailedBatchWaitsByTheScheduleWithItsJitter", failedWaitsWithJitter},
		{"AFailedBatchWaitsAsLongAsTheReceiverAsked", failedWaitsAsAsked},
		{"AFailedBatchCollectsNoMore", failedCollectsNothing},
		{"ABatchIsTheSameOnEveryAttempt", sameOnEveryAttempt},
		{"ABatchWhoseAttemptsAreSpentIsDead", spentBatchIsDead},
		{"ABatchWithoutAScheduleIsDeadAtOnce", deadWithoutSchedule},
		{"ADeadBatchGoesWhenItsRetentionIsOver", deadBatchGoes},
		{"AnOutcomeWithAnotherTokenIsLost", wrongTokenIsLost},
		{"AnOutcomeTwiceInOneCallIsLostTheSecondTime", outcomeTwice},
		{"APendingBatchEndsAtItsDeadline", deadlineIsLost},
		{"AnOutcomeOfAnEarlierAttemptIsLost", earlierAttemptIsLost},
		{"AnOutcomeAfterADeleteIsLost", deletedIsLost},
		{"AnOutcomeOfWhatIsNotThereIsLost", notThereIsLost},
		{"ALostOutcomeIsLoggedAllTheSame", lostIsLogged},
		{"ABatchThatIsPendingTooLongHasFailed", lateHasFailed},
		{"ALateBatchWhoseAttemptsAreSpentIsDead", lateIsDead},
		{"OutcomesOfManySubscriptionsAreToldAtOnce", manyOutcomes},
		{"ASubscriptionSaysSinceWhenItFails", failingSince},
		{"EveryAnswerSaysWhenTheNextBatchIsDue", batchAnswersSayDue},
	}
}

func sentIsGone(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
	r.each(func(lane int) {
		names := r.push(lane, uid, "1", "2")
		k := r.took(lane, 1)
		r.same("settled", r.told(lane, k.sent(0)), millrace.SettledBatches{Items: []millrace.SettledBatch{{}}, Due: -1})
		r.same("states", r.states(lane, uid), []string{})
		_, _, err := r.Batch(r.ctx(), lane, uid, names[0])
		r.refused(err, millrace.CodeNotFound)
		r.same("stats", r.subStats(lane, uid), millrace.SubscriptionStats{Sent: 2})
		r.lostBatch(lane, k.sent(0))
		r.pass(time.Hour)
		r.same("step", r.step(lane), millrace.Stepped{Due: -1})
		r.clean()
	})
}

func failedWaits(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(5*time.Second, minute, time.Hour))
	r.each(func(lane int) {
		name := r.push(lane, uid, "1")[0]
		opened := r.now
		for i, wait := range []time.Duration{5 * time.Second, minute} {
			k := r.took(lane, 1)
			r.same("attempt", k.Batches[0].Attempt, i+1)
			r.pass(time.Second)
			done := r.told(lane, k.failed(0))
			r.same("dead", done.Items[0].Dead, false)
			r.same("due", done.Due, wait)
			r.same("batch", r.batches(lane, uid), []millrace.Batch{{
				Name: name, State: millrace.BatchEarly, Count: 1, Bytes: 1, Attempts: i + 1, CreatedAt: opened, DueAt: r.now.Add(wait), Error: "refused",
			}})
			r.pass(wait - time.Millisecond)
			r.same("too early", r.step(lane).Promoted, 0)
			r.same("taken too early", r.take(lane, 9).names(), []string{})
			r.pass(time.Millisecond)
			r.same("in time", r.step(lane).Promoted, 1)
		}
		r.same("failed", r.subStats(lane, uid).Failed, int64(2))
		r.told(lane, r.took(lane, 1).sent(0))
	})
}

func failedWaitsWithJitter(t *testing.T, c Config) {
	r := open(t, c)
	for _, step := range []struct {
		jitter     millrace.Jitter
		wait, want time.Duration
	}{
		{0, 5 * time.Second, 4 * time.Second}, {1000, 5 * time.Second, 6 * time.Second}, {333, 5001 * time.Millisecond, 4666 * time.Millisecond},
		{999, 24 * time.Hour, 103645440 * time.Millisecond}, {0, time.Millisecond, time.Millisecond}, {1000, 0, time.Millisecond},
	} {
		uid := r.sub(single, waits(step.wait))
		r.push(0, uid, "1")
		k := r.took(0, 1)
		o := k.failed(0)
		o.Jitter = step.jitter
		r.told(0, o)
		r.same(fmt.Sprintf("wait of %v at %d", step.wait, step.jitter), r.batchAt(0, uid, 0).DueAt.Sub(r.now), step.want)
		r.pass(48 * time.Hour)
		r.step(0)
		r.told(0, r.took(0, 1).sent(0))
	}
}

func failedWaitsAsAsked(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	for _, after := range []time.Duration{90 * time.Second, 1500 * time.Microsecond} {
		r.push(0, uid, "1")
		o := r.took(0, 1).failed(0)
		o.After, o.Jitter = after, 0
		r.told(0, o)
		want := (after + time.Millisecond - 1).Truncate(time.Millisecond)
		r.same("wait", r.batchAt(0, uid, 0).DueAt.Sub(r.now), want)
		r.pass(minute * 2)
		r.step(0)
		r.told(0, r.took(0, 1).sent(0))
	}
}

func failedCollectsNothing(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.push(0, uid, "1")
	r.pass(time.Second)
	r.step(0)
	k := r.took(0, 1)
	r.push(0, uid, "2")
	r.same("while it is pending", r.states(0, uid), []string{"pending 1", "early* 1"})
	r.told(0, k.failed(0))
	r.push(0, uid, "3")
	r.same("when it has failed", r.states(0, uid), []string{"early 1", "early* 2"})
}

func sameOnEveryAttempt(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(waits(time.Second, time.Second, time.Second), func(s *millrace.SubscriptionSettings) { s.MaxEvents = 3 })
	r.push(0, uid, "1", "2", "3")
	var first []millrace.BatchEvent
	for attempt := 1; attempt <= 4; attempt++ {
		k := r.took(0, 1)
		if attempt == 1 {
			first = k.Batches[0].Events
		}
		r.same("events", k.Batches[0].Events, first)
		r.same("attempt", k.Batches[0].Attempt, attempt)
		if attempt%2 == 0 {
			r.pass(minute)
			r.same("scrubbed", r.step(0).Scrubbed, 1)
		} else {
			r.told(0, k.failed(0))
		}
		r.push(0, uid, "x")
		r.pass(2 * time.Second)
		r.step(0)
	}
	_, events, err := r.Batch(r.ctx(), 0, uid, first[0].Seq)
	r.ok(err)
	r.same("when it is dead", events, first)
}

func spentBatchIsDead(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.each(func(lane int) {
		name := r.push(lane, uid, "1")[0]
		opened := r.now
		for attempt := 1; attempt <= 3; attempt++ {
			k := r.took(lane, 1)
			r.same("dead", r.told(lane, k.failed(0)).Items[0].Dead, attempt == 3)
			r.lostBatch(lane, k.sent(0))
			r.pass(minute)
			r.step(lane)
		}
		r.same("batch", r.batches(lane, uid), []millrace.Batch{{
			Name: name, State: millrace.BatchDead, Count: 1, Bytes: 1, Attempts: 3, CreatedAt: opened, Error: "refused",
		}})
		s := r.subStats(lane, uid)
		r.same("queued, dead, failed, dropped", []int64{s.Queued, s.Dead, s.Failed, s.Dropped}, []int64{0, 1, 3, 0})
		r.same("taken", r.take(lane, 9).names(), []string{})
		r.pass(1000 * time.Hour)
		r.same("kept for ever", r.step(lane), millrace.Stepped{Due: -1})
	})
}

func deadWithoutSchedule(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits())
	r.push(0, uid, "1")
	o := r.took(0, 1).failed(0)
	o.After = time.Hour
	r.same("settled", r.told(0, o).Items, []millrace.SettledBatch{{Dead: true, FailingSince: r.now}})
	r.same("states", r.states(0, uid), []string{"dead 1"})
}

func deadBatchGoes(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(waits(), func(s *millrace.SubscriptionSettings) { s.MaxEvents, s.Retention = 2, time.Hour })
	r.each(func(lane int) {
		r.push(lane, uid, "1", "2", "3", "4")
		r.same("due", r.told(lane, r.took(lane, 2).each(taken.failed)...).Due, time.Hour)
		r.same("goes at", r.batchAt(lane, uid, 0).DueAt, r.now.Add(time.Hour))
		r.pass(time.Hour - time.Millisecond)
		r.same("not yet", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.pass(time.Millisecond)
		done, err := r.Step(r.ctx(), lane, r.now, 1)
		r.ok(err)
		r.same("one", done, millrace.Stepped{Forgotten: 1, More: true})
		r.same("the rest", r.step(lane), millrace.Stepped{Forgotten: 1, Due: -1})
		r.same("states", r.states(lane, uid), []string{})
		s := r.subStats(lane, uid)
		r.same("dropped, dead", []int64{s.Dropped, s.Dead}, []int64{4, 0})
		r.same("dropped in the lane", r.laneStats(lane).Dropped, int64(4))
	})
}

func wrongTokenIsLost(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	one, two := r.took(0, 1), r.took(0, 1)
	o := one.sent(0)
	o.Token = two.token
	r.lostBatch(0, o)
	o.Token = millrace.Token{}
	r.lostBatch(0, o)
	r.told(0, one.sent(0), two.sent(0))
}

func outcomeTwice(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	k := r.took(0, 2)
	done := r.outcomes(0, k.sent(0), k.failed(1), k.sent(0), k.sent(1), k.failed(0))
	var lost []bool
	for _, s := range done.Items {
		lost = append(lost, s.Lost)
	}
	r.same("lost", lost, []bool{false, false, true, true, true})
	r.same("states", r.states(0, uid), []string{"early 1"})
	r.same("sent", r.subStats(0, uid).Sent, int64(1))
}

func deadlineIsLost(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	k := r.took(0, 2)
	r.pass(minute - time.Millisecond)
	r.told(0, k.sent(0))
	r.pass(time.Millisecond)
	r.lostBatch(0, k.sent(1))
	r.same("pending until the step", r.states(0, uid), []string{"pending 1"})
	r.step(0)
	r.lostBatch(0, k.sent(1))
}

func earlierAttemptIsLost(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1")
	first := r.took(0, 1)
	r.pass(minute)
	r.step(0)
	r.lostBatch(0, first.sent(0))
	r.pass(minute)
	r.step(0)
	r.lostBatch(0, first.sent(0))
	second := r.took(0, 1)
	r.lostBatch(0, first.sent(0))
	r.told(0, second.sent(0))
	r.lostBatch(0, second.sent(0), first.sent(0))
}

func deletedIsLost(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	k := r.took(0, 2)
	r.remove(uid)
	r.lostBatch(0, k.sent(0))
	r.sweepAll(0)
	r.lostBatch(0, k.sent(0), k.sent(1))
}

func notThereIsLost(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2")
	k := r.took(0, 1)
	stranger, nobody := k.sent(0), k.sent(0)
	stranger.Subscription, nobody.Name = "00000000000000cc", 77
	ready := k.sent(0)
	ready.Name = r.batchAt(0, uid, 1).Name
	r.lostBatch(0, stranger, nobody, ready)
	done := r.outcomes(0, stranger, k.sent(0), nobody)
	r.same("items", done.Items, []millrace.SettledBatch{{Lost: true}, {}, {Lost: true}})
}

func lostIsLogged(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1")
	k := r.took(0, 1)
	o := k.failed(0)
	o.Log = []byte("first")
	r.told(0, o)
	o.Log = []byte("second")
	r.same("lost", r.outcomes(0, o).Items[0].Lost, true)
	o.Log = nil
	r.outcomes(0, o)
	r.same("log", r.log(0, uid), []string{"second", "first"})
}

func lateHasFailed(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.each(func(lane int) {
		r.push(lane, uid, "1")
		k := r.took(lane, 1)
		r.pass(minute - time.Millisecond)
		r.same("not yet", r.step(lane), millrace.Stepped{Due: time.Millisecond})
		r.pass(time.Millisecond)
		r.same("in time", r.step(lane), millrace.Stepped{Scrubbed: 1, Due: 5 * time.Second})
		b := r.batchAt(lane, uid, 0)
		r.same("batch", []any{b.State, b.Current, b.Attempts, b.Error, b.Node, b.DueAt}, []any{millrace.BatchEarly, false, 1, "lost", "", r.now.Add(5 * time.Second)})
		s := r.subStats(lane, uid)
		r.same("stats", []any{s.Failed, s.Reason, s.FailingSince, s.Pending}, []any{int64(1), "lost", r.now, int64(0)})
		r.lostBatch(lane, k.sent(0))
		r.pass(5 * time.Second)
		r.step(lane)
		again := r.took(lane, 1)
		r.same("attempt", again.Batches[0].Attempt, 2)
		r.told(lane, again.sent(0))
	})
}

func lateIsDead(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single, waits(), func(s *millrace.SubscriptionSettings) { s.Retention = time.Hour })
	r.push(0, uid, "1")
	r.took(0, 1)
	r.pass(2 * minute)
	r.same("step", r.step(0), millrace.Stepped{Scrubbed: 1, Due: time.Hour})
	r.same("states", r.states(0, uid), []string{"dead 1"})
}

func manyOutcomes(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.sub(single), r.sub(single, waits())
	r.publish(0, pushed("1", a, b))
	r.publish(0, pushed("2", a, b))
	k := r.took(0, 4)
	done := r.told(0, k.failed(0), k.failed(1), k.sent(2), k.sent(3))
	r.same("items", done.Items, []millrace.SettledBatch{{FailingSince: r.now}, {Dead: true, FailingSince: r.now}, {}, {}})
	r.same("a", r.states(0, a), []string{"early 1"})
	r.same("b", r.states(0, b), []string{"dead 1"})
}

func failingSince(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub(single)
	r.push(0, uid, "1", "2", "3", "4")
	k := r.took(0, 4)
	r.pass(time.Second)
	first := r.now
	r.same("the first", r.told(0, k.failed(0)).Items[0].FailingSince, first)
	r.pass(time.Second)
	o := k.failed(1)
	o.Error = "gone"
	r.same("the second", r.told(0, o).Items[0].FailingSince, first)
	r.same("a lost one", r.outcomes(0, o).Items[0].FailingSince, first)
	s := r.subStats(0, uid)
	r.same("stats", []any{s.FailingSince, s.Reason}, []any{first, "gone"})
	r.same("a success", r.told(0, k.sent(2)).Items[0].FailingSince, time.Time{})
	s = r.subStats(0, uid)
	r.same("stats after a success", []any{s.FailingSince, s.Reason, s.Failed}, []any{time.Time{}, "", int64(2)})
	r.pass(time.Second)
	r.same("anew", r.told(0, k.failed(3)).Items[0].FailingSince, r.now)
}

func batchAnswersSayDue(t *testing.T, c Config) {
	r := open(t, c)
	uid := r.sub()
	r.same("publish", r.commit(0, pushed("1", uid)).Due, time.Second)
	r.pass(time.Second)
	r.same("step", r.step(0).Due < 0, true)
	k := r.took(0, 1)
	r.same("take", k.Due, minute)
	r.pass(time.Second)
	r.same("publish beside", r.commit(0, pushed("2", uid)).Due, time.Second)
	r.same("fail", r.told(0, k.failed(0)).Due, time.Second)
	r.pass(time.Second)
	r.same("overdue", r.take(0, 1).Due, time.Duration(0))
	r.same("the failed one's", r.step(0).Due, 4*time.Second)
	r.told(0, r.took(0, 1).sent(0))
	r.pass(4 * time.Second)
	r.same("nothing", r.step(0).Due < 0, true)
	r.same("sent", r.told(0, r.took(0, 1).sent(0)).Due < 0, true)
}
