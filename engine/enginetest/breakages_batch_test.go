package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// meddled is the model with somebody who meddles with a lane before and after each operation on batches.
type meddled struct {
	*Model
	before, after func(op string, l *modelLane)
	settings      func(*millrace.SubscriptionSettings)
	outcome       func(l *modelLane, o *millrace.Outcome)
}

func (b *meddled) meddle(f func(string, *modelLane), op string, lane int) {
	if f == nil || lane < 0 || lane >= len(b.lanes) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f(op, b.lanes[lane])
}

func (b *meddled) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	a.Subscriptions = slices.Clone(a.Subscriptions)
	for i := range a.Subscriptions {
		if b.settings != nil {
			b.settings(&a.Subscriptions[i])
		}
	}
	return b.Model.Apply(ctx, lane, a)
}

func (b *meddled) Take(ctx context.Context, lane int, t millrace.Take) (millrace.Taken, error) {
	b.meddle(b.before, "take", lane)
	defer b.meddle(b.after, "take", lane)
	return b.Model.Take(ctx, lane, t)
}

func (b *meddled) SettleBatches(ctx context.Context, lane int, o millrace.Outcomes) (millrace.SettledBatches, error) {
	b.meddle(b.before, "settle", lane)
	defer b.meddle(b.after, "settle", lane)
	o.Items = slices.Clone(o.Items)
	for i := range o.Items {
		if b.outcome != nil {
			b.meddle(func(_ string, l *modelLane) { b.outcome(l, &o.Items[i]) }, "", lane)
		}
	}
	return b.Model.SettleBatches(ctx, lane, o)
}

func (b *meddled) Step(ctx context.Context, lane int, now time.Time, limit int) (millrace.Stepped, error) {
	b.meddle(b.before, "step", lane)
	defer b.meddle(b.after, "step", lane)
	return b.Model.Step(ctx, lane, now, limit)
}

func (b *meddled) RetryBatches(ctx context.Context, lane int, of millrace.BatchesOf) (done, left int, err error) {
	b.meddle(b.before, "retry", lane)
	defer b.meddle(b.after, "retry", lane)
	return b.Model.RetryBatches(ctx, lane, of)
}

func (b *meddled) DropBatch(ctx context.Context, lane int, subscription string, name uint64) error {
	b.meddle(b.before, "drop", lane)
	return b.Model.DropBatch(ctx, lane, subscription, name)
}

func (b *meddled) DropOldest(ctx context.Context, lane, limit int) ([]millrace.DroppedBatch, error) {
	b.meddle(b.before, "drop", lane)
	return b.Model.DropOldest(ctx, lane, limit)
}

// batchBreakages are deliberate faults in what the model does with batches.
func batchBreakages() []breakage {
	return []breakage{
		{"full batch collects on", "Batch/ABatchIsReadyWhenItIsFull", withSettings(func(s *millrace.SubscriptionSettings) { s.MaxEvents = 1 << 20 })},
		{"bytes of a batch ignored", "Batch/ABatchClosesBeforeTheEventThatWouldExceedItsBytes", withSettings(func(s *millrace.SubscriptionSettings) { s.MaxBytes = 1 << 30 })},
		{"batch too late", "Batch/ABatchIsReadyAtItsTimeAndNotBefore", withSettings(func(s *millrace.SubscriptionSettings) { s.Timeout += time.Millisecond })},
		{"step of batches without a bound", "Batch/AStepOfBatchesIsBounded", stepUnbounded},
		{"duplicate appended", "Batch/ADuplicateIsAppendedToNothing", duplicateStored},
		{"concurrency ignored", "Take/NoMoreBatchesArePendingThanConcurrency", withSettings(func(s *millrace.SubscriptionSettings) { s.Concurrency = 64 })},
		{"no turns of subscriptions", "Take/SubscriptionsAreServedByTurns", ringSorted},
		{"newest batch first", "Take/TheLowestNameIsFirst", newestBatchFirst},
		{"newest batch first, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", newestBatchFirst},
		{"no hint of batches", "Take/AWantedLaneSendsAHintWhenABatchIsFull", noHint},
		{"never wanted after a batch", "Take/ALaneWhoseLastBatchWasTakenIsWanted", meddling("take", nil, func(l *modelLane) { l.subWanted = false })},
		{"freed slot stays empty", "Take/ASlotThatIsFreedIsFilled", meddling("settle", nil, func(l *modelLane) { l.subRing = nil })},
		{"token of a batch ignored", "Outcome/AnOutcomeWithAnotherTokenIsLost", tokenIgnored},
		{"deadline of a batch ignored", "Outcome/APendingBatchEndsAtItsDeadline", meddling("settle", ofBatches(func(l *modelLane, s *modelSub, b *modelBatch) {
			b.due = max(b.due, l.t+2*minute.Milliseconds())
		}), nil)},
		{"jitter ignored", "Outcome/AFailedBatchWaitsByTheScheduleWithItsJitter", withOutcome(func(_ *modelLane, o *millrace.Outcome) { o.Jitter = millrace.NoJitter })},
		{"what the receiver asked ignored", "Outcome/AFailedBatchWaitsAsLongAsTheReceiverAsked", withOutcome(func(_ *modelLane, o *millrace.Outcome) { o.After = 0 })},
		{"failed batch collects", "Outcome/AFailedBatchCollectsNoMore", meddling("settle", nil, ofBatches(func(_ *modelLane, s *modelSub, b *modelBatch) {
			if b.state == millrace.BatchEarly && b.attempts > 0 {
				s.current = b
			}
		}))},
		{"batch changes under load", "Load/NothingIsLostOrTwiceUnderLoad", batchChanges},
		{"batch changes", "Outcome/ABatchIsTheSameOnEveryAttempt", batchChanges},
		{"batches lost under load", "Load/NothingIsLostOrTwiceUnderLoad", batchLost},
		{"sent batches return under load", "Load/NothingIsLostOrTwiceUnderLoad", sentReturns},
		{"dead batches kept for ever", "Outcome/ADeadBatchGoesWhenItsRetentionIsOver", withSettings(func(s *millrace.SubscriptionSettings) { s.Retention = 0 })},
	}
}

// subBreakages are deliberate faults in what the model does with subscriptions.
func subBreakages() []breakage {
	return []breakage{
		{"never parked", "Park/ThreeFailuresInARowParkASubscription", meddling("settle", nil, ofSubs(func(_ *modelLane, s *modelSub) { s.fails = 0 }))},
		{"all probe at once", "Park/WhenAParkEndsOneBatchAtATimeProbes", meddling("step", nil, ofSubs(func(_ *modelLane, s *modelSub) { s.probing = s.parked > 0 }))},
		{"parked failures count", "Park/WhatFailsWhileItIsParkedDoesNotCount", meddling("settle", ofSubs(func(_ *modelLane, s *modelSub) { s.parked = 0 }), nil)},
		{"rounds forgotten", "Park/AFailedProbeParksForTheNextWaitOfTheSchedule", meddling("settle", nil, ofSubs(func(_ *modelLane, s *modelSub) { s.round = 0 }))},
		{"success keeps the park", "Park/ASuccessEndsAPark", parkKept},
		{"poison parks", "Park/APoisonousBatchAmongHealthyOnesParksNobody", poisonParks},
		{"overtaken", "Sequence/NothingOvertakesABatchThatFailed", overtaken},
		{"overtaken, under load", "Load/NothingIsLostOrTwiceUnderLoad", overtaken},
		{"overtaken, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", overtaken},
		{"paused is served", "Setting/APausedSubscriptionCollectsAndSendsNothing", withSettings(func(s *millrace.SubscriptionSettings) { s.Paused = false })},
		{"disabled collects", "Setting/ADisabledSubscriptionSkipsAndCounts", withSettings(func(s *millrace.SubscriptionSettings) { s.Disabled, s.Paused = false, s.Disabled })},
		{"older version named", "Setting/ATakenBatchNamesTheVersionOfTheSettings", withSettings(func(s *millrace.SubscriptionSettings) { s.Version = 1 })},
		{"resumed is not served", "Setting/AResumedSubscriptionIsServed", resumedForgotten},
		{"retry keeps the attempts", "Handle/ARetryOfADeadBatchBeginsItsAttemptsAnew", meddling("retry", ofBatches(func(_ *modelLane, _ *modelSub, b *modelBatch) {
			if b.state == millrace.BatchDead {
				b.state = millrace.BatchEarly
			}
		}), nil)},
		{"pending dropped", "Handle/APendingBatchIsNotDropped", pendingDropped},
		{"oldest pending dropped", "Handle/DropOldestSkipsWhatIsPendingUntilNothingIsLeft", pendingDropped},
		{"log in the wrong order", "Handle/TheLogKeepsTheLastHundredNewestFirst", logReversed},
		{"pending returns by a reopen", "Handle/APendingBatchKeepsItsTokenAndDeadlineOverAReopen", afterReopen(func(s *modelSub) {
			for _, b := range s.batches {
				if b.state == millrace.BatchPending {
					b.state = millrace.BatchReady
				}
			}
		})},
		{"current forgotten by a reopen", "Handle/TheCurrentBatchGoesOnCollectingAfterAReopen", afterReopen(func(s *modelSub) { s.current = nil })},
		{"park forgotten by a reopen", "Handle/AParkedSubscriptionIsParkedAfterAReopen", afterReopen(func(s *modelSub) { s.parked = 0 })},
		{"probing forgotten by a reopen", "Handle/AProbingSubscriptionIsProbingAfterAReopen", afterReopen(func(s *modelSub) { s.probing = false })},
		{"failures forgotten by a reopen", "Handle/FailuresAreCountedOnAfterAReopen", afterReopen(func(s *modelSub) { s.fails = 0 })},
		{"blocked forgotten by a reopen", "Handle/ABlockedSubscriptionIsBlockedAfterAReopen", afterReopen(func(s *modelSub) { s.blocking = nil })},
		{"removed subscription comes back", "Sink/ARemovedSubscriptionNeverComesBack", removedComesBack},
		{"half commit to subscriptions", "Sink/AnEventInQueuesAndSubscriptionsIsHeldByEach", halfPush},
	}
}

// meddling meddles before and after one operation.
func meddling(op string, before, after func(*modelLane)) func(*Model) millrace.Engine {
	at := func(f func(*modelLane)) func(string, *modelLane) {
		return func(now string, l *modelLane) {
			if f != nil && now == op {
				f(l)
			}
		}
	}
	return func(m *Model) millrace.Engine { return &meddled{Model: m, before: at(before), after: at(after)} }
}

func withSettings(f func(*millrace.SubscriptionSettings)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine { return &meddled{Model: m, settings: f} }
}

func withOutcome(f func(*modelLane, *millrace.Outcome)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine { return &meddled{Model: m, outcome: f} }
}

func ofSubs(f func(*modelLane, *modelSub)) func(*modelLane) {
	return func(l *modelLane) {
		for _, s := range l.subs {
			f(l, s)
		}
	}
}

func ofBatches(f func(*modelLane, *modelSub, *modelBatch)) func(*modelLane) {
	return ofSubs(func(l *modelLane, s *modelSub) {
		for _, b := range slices.Clone(s.batches) {
			f(l, s, b)
		}
	})
}

// afterReopen meddles with every subscription when the store is found again.
func afterReopen(f func(*modelSub)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		if m.identity.Created {
			return m
		}
		for _, l := range m.lanes {
			for uid, s := range l.subs {
				f(s)
				m.admit(l, uid)
			}
		}
		return m
	}
}

// ringSorted takes one batch after another and always of the first subscription.
func ringSorted(m *Model) millrace.Engine { return onlyFirst{m} }

type onlyFirst struct{ *Model }

func (b onlyFirst) Take(ctx context.Context, lane int, t millrace.Take) (all millrace.Taken, err error) {
	most := t.Max
	for t.Max = 1; most > 0; most-- {
		b.mu.Lock()
		slices.Sort(b.lanes[lane].subRing)
		b.mu.Unlock()
		done, err := b.Model.Take(ctx, lane, t)
		if err != nil {
			return done, err
		}
		done.Batches = append(all.Batches, done.Batches...)
		all = done
	}
	return all, nil
}

func newestBatchFirst(m *Model) millrace.Engine {
	turn := ofSubs(func(_ *modelLane, s *modelSub) { slices.Reverse(s.batches) })
	return meddling("take", turn, turn)(m)
}

func tokenIgnored(m *Model) millrace.Engine {
	return withOutcome(func(l *modelLane, o *millrace.Outcome) {
		if s := l.subs[o.Subscription]; s != nil && s.named(o.Name) != nil {
			o.Token = s.named(o.Name).token
		}
	})(m)
}

func batchChanges(m *Model) millrace.Engine {
	return meddling("settle", nil, ofBatches(func(_ *modelLane, _ *modelSub, b *modelBatch) {
		if b.state == millrace.BatchEarly && b.attempts > 0 {
			slices.Reverse(b.events)
		}
	}))(m)
}

// batchLost loses one in ten batches that failed.
func batchLost(m *Model) millrace.Engine {
	n := 0
	return meddling("settle", nil, ofBatches(func(_ *modelLane, s *modelSub, b *modelBatch) {
		if n++; n%10 == 0 && b.state == millrace.BatchEarly && b.attempts > 0 {
			s.remove(b)
		}
	}))(m)
}

// sentReturns forgets one in five successes that it has acknowledged.
func sentReturns(m *Model) millrace.Engine {
	n := 0
	return withOutcome(func(_ *modelLane, o *millrace.Outcome) {
		if n++; n%5 == 0 {
			o.OK = false
		}
	})(m)
}

func parkKept(m *Model) millrace.Engine {
	parked := map[*modelSub]int64{}
	return meddling("settle",
		ofSubs(func(_ *modelLane, s *modelSub) { parked[s] = s.parked }),
		ofSubs(func(_ *modelLane, s *modelSub) { s.parked = max(s.parked, parked[s]) }))(m)
}

func poisonParks(m *Model) millrace.Engine {
	failed := map[*modelSub]int{}
	return meddling("settle",
		ofSubs(func(_ *modelLane, s *modelSub) { s.fails = failed[s] }),
		ofSubs(func(_ *modelLane, s *modelSub) { failed[s] = min(int(s.failed), 2) }))(m)
}

func overtaken(m *Model) millrace.Engine {
	return meddling("settle", nil, func(l *modelLane) {
		for uid, s := range l.subs {
			s.blocking = nil
			m.admit(l, uid)
		}
	})(m)
}

// resumedForgotten leaves a subscription that resumes where it is: out of the ring.
func resumedForgotten(m *Model) millrace.Engine { return neverResumes{m} }

type neverResumes struct{ *Model }

func (b neverResumes) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	b.mu.Lock()
	ring := slices.Clone(b.lanes[lane].subRing)
	b.mu.Unlock()
	gone, err := b.Model.Apply(ctx, lane, a)
	b.mu.Lock()
	b.lanes[lane].subRing = ring
	b.mu.Unlock()
	return gone, err
}

func pendingDropped(m *Model) millrace.Engine {
	return meddling("drop", ofBatches(func(_ *modelLane, _ *modelSub, b *modelBatch) {
		if b.state == millrace.BatchPending {
			b.state = millrace.BatchReady
		}
	}), nil)(m)
}

func logReversed(m *Model) millrace.Engine { return oldestLogged{m} }

type oldestLogged struct{ *Model }

func (b oldestLogged) AttemptLog(ctx context.Context, lane int, subscription string) ([][]byte, error) {
	log, err := b.Model.AttemptLog(ctx, lane, subscription)
	slices.Reverse(log)
	return log, err
}

func halfPush(m *Model) millrace.Engine {
	return &broken{Model: m, publish: func(m *Model, lane int, c millrace.Commit) (millrace.Committed, error) {
		c.Events = slices.Clone(c.Events)
		for i, e := range c.Events {
			c.Events[i].Batches = e.Batches[:min(1, len(e.Batches))]
		}
		return m.Publish(context.Background(), lane, c)
	}}
}
