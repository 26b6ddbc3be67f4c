package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-dev/millrace"
)

// operationBreakages are deliberate faults in what the model does with operations.
func operationBreakages() []breakage {
	return slices.Concat(lifeBreakages(), cancelBreakages(), readBreakages(), []breakage{
		{"wish ignored, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", wishIgnored},
		{"progress falls, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", progressFalls},
		{"waited since the beginning, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", waitedSinceBeginning},
		{"oldest operation first, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", oldestListed},
		{"heard again and again, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", heardAgain},
		{"success undone under load", "Load/NothingIsLostOrTwiceUnderLoad", successUndone},
		{"cancelled is leased under load", "Load/NothingIsLostOrTwiceUnderLoad", cancelledLeased},
		{"operations lost under load", "Load/NothingIsLostOrTwiceUnderLoad", operationLost},
		{"counts lost under load", "Load/NothingIsLostOrTwiceUnderLoad", countLost},
	})
}

func lifeBreakages() []breakage {
	run := func(_ string, was modelOperation, op *modelOperation) {
		if was.Status == millrace.OperationQueued && op.Status == millrace.OperationRunning {
			op.Status = millrace.OperationQueued
		}
	}
	return []breakage{
		{"one operation for two queues", "Operation/EachTrackedQueueOfAnEventHasItsOwnOperation", publishes(func(e *millrace.CommitEvent) {
			e.Operations = e.Operations[:min(1, len(e.Operations))]
		})},
		{"payload forgotten", "Operation/AMessageOfATrackedQueueHasAnOperation", publishes(func(e *millrace.CommitEvent) {
			for i := range e.Operations {
				e.Operations[i].Payload = nil
			}
		})},
		{"duplicate opens", "Operation/ADuplicateOpensNothing", duplicateStored},
		{"refused commit opens", "Operation/ARefusedCommitOpensNothing", fullStores},
		{"delayed event opens at once", "Operation/ADelayedEventOpensItsOperationsWhenItIsTakenOut", holdIgnored},
		{"leased but not running", "Operation/AnOperationMovesWithItsMessage", afterwards("lease", run)},
		{"expired but running", "Operation/AnOperationMovesWithItsMessage", undone("step", millrace.OperationQueued)},
		{"error forgotten", "Operation/AttemptsAndErrorsAreOfTheLatest", afterwards("settle", func(_ string, _ modelOperation, op *modelOperation) { op.Error = "" })},
		{"output forgotten", "Operation/AnOutputIsKeptWhole", afterwards("settle", func(_ string, _ modelOperation, op *modelOperation) { op.Output = nil })},
		{"redrive opens the old one", "Operation/ARedriveOpensAnotherOperation", afterwards("redrive", func(_ string, _ modelOperation, op *modelOperation) {
			op.Status = millrace.OperationQueued
		})},
		{"purged but queued", "Operation/APurgeCancelsWhatItRemoves", undone("purge", millrace.OperationCancelled)},
		{"dropped but queued", "Operation/DropOldestCancelsWhatItDrops", undone("publish", millrace.OperationCancelled)},
		{"swept but queued", "Operation/ASweepCancelsWhatWasOpen", undone("sweep", millrace.OperationCancelled)},
		{"tracked can change", "Operation/WhetherAQueueIsTrackedCannotChange", trackedChanges},
		{"operations lost by a reopen", "Operation/OperationsAreThereAfterAReopen", reopenedWithout(func(l *modelLane) { l.operations = nil })},
		{"finished is cancelled", "Operation/AnOperationThatHasFinishedNeverChanges", finishedCancelled},
		{"progress falls", "Progress/ProgressRisesAndItsNoteIsReplaced", progressFalls},
		{"progress survives its attempt", "Progress/ProgressIsOfTheLatestAttempt", afterwards("lease", func(_ string, was modelOperation, op *modelOperation) {
			op.Progress = was.Progress
		})},
		{"anybody reports", "Progress/AReportNeedsALiveLeaseOfItsMessage", anybodyReports},
		{"late report", "Progress/AReportIsLostAtTheDeadline", reportsWith(func(r *millrace.ProgressReport) { r.Now = time.UnixMilli(1) })},
		{"start in its key's chain", "Start/AStartIsInNoChainAndNoTopicAndCountsAsPublished", startInChain},
		{"start shown live", "Start/AStartedMessageIsNotShownLive", startShown},
		{"dedupe ignored", "Start/WhileOneIsOpenASecondStartReturnsIt", startsWith(func(s *millrace.Start) { s.Deduped = false })},
		{"dedupe for ever", "Start/AnEndOfAnyKindFreesTheDedupe", afterwards("", func(_ string, was modelOperation, op *modelOperation) {
			if was.dedupe != nil {
				op.dedupe = was.dedupe
			}
		})},
		{"start finds room", "Start/AStartThatAQueueHasNoRoomForIsRefused", applies(func(s *millrace.QueueSettings) { s.MaxLength = 0 })},
		{"start at once", "Start/ADelayedStartWaitsItsTime", startsWith(func(s *millrace.Start) { s.Delay = 0 })},
		{"start without a key", "Start/StartsOfOneKeyAreServedInOrder", startsWith(func(s *millrace.Start) { s.Key = "" })},
		{"start unheard", "Start/AStartWakesAWantedQueue", noHint},
	}
}

func cancelBreakages() []breakage {
	return []breakage{
		{"cancelled is leased", "Cancel/AQueuedOperationThatIsCancelledHasFinishedAndIsNeverLeased", cancelledLeased},
		{"cancelled leaves its place", "Cancel/ACancelledMessageTakesItsTenantsTurn", cancelledLeaves},
		{"cancelled without a count", "Cancel/ACancelledMessageThatIsDelayedIsDroppedWhenItComesUp", cancelledLeaves},
		{"all cancelled ones at once", "Cancel/AThousandCancelledOnesAreDroppedInBoundedSteps", droppedAtOnce},
		{"cancelled is peeked", "Cancel/APeekDoesNotShowCancelledMessages", cancelledPeeked},
		{"nobody is told", "Cancel/ARunningOperationIsToldToStopWhenItIsExtended", untold},
		{"wish ignored", "Cancel/ARunningOperationThatWouldWaitAgainIsCancelledInstead", wishIgnored},
		{"ack cancels", "Cancel/AnAckOrABuryEndsAnOperationThatIsToBeCancelled", afterwards("settle", func(_ string, _ modelOperation, op *modelOperation) {
			if op.CancelRequested && op.Status == millrace.OperationSuccess {
				op.Status = millrace.OperationCancelled
			}
		})},
		{"cancelled against a lease", "Cancel/CancelsAndLeasesAtOnceAgree", cancelledLeased},
	}
}

func readBreakages() []breakage {
	expiresLater := func(_ string, was modelOperation, op *modelOperation) {
		if op.Status.Finished() && !was.Status.Finished() {
			op.ExpiresAt = op.ExpiresAt.Add(time.Millisecond)
		}
	}
	return []breakage{
		{"expires a moment late", "Expiry/AFinishedOperationIsShownUntilItExpires", afterwards("", expiresLater)},
		{"forgotten without a bound", "Expiry/AStepForgetsInBoundedStepsWhenTheMinuteIsOver", stepUnbounded},
		{"one retention", "Expiry/AChangedRetentionCountsForWhatFinishesLater", applies(func(s *millrace.QueueSettings) { s.ErrorRetention = s.Retention })},
		{"counts go with operations", "Expiry/CountsOutliveOperations", countsGo},
		{"expiry unheard", "Expiry/AWatcherHearsWhenAnOperationIsToBeForgotten", noHint},
		{"oldest operation first", "Listing/OperationsAreListedNewestFirst", oldestListed},
		{"status ignored", "Listing/AListIsFilteredByStatusTenantAndQueue", lists(func(p *millrace.OperationPage) { p.Status = "" }, nil)},
		{"one page only", "Listing/AListIsReadPageByPage", lists(nil, func(_ []millrace.StoredOperation, next *uint64) { *next = 0 })},
		{"list without a bound", "Listing/AListLooksAtAThousandAtMost", listUnbounded},
		{"expired is listed", "Listing/WhatHasExpiredIsLookedAtUntilItIsForgotten", lists(func(p *millrace.OperationPage) { p.Now = time.UnixMilli(1) }, nil)},
		{"retries uncounted", "Count/EveryMoveIsCountedInItsMinuteHourAndDay", counting(nil, func(c *millrace.OperationCount) { c.Retried = 0 })},
		{"buckets begin late", "Count/BucketsBeginAtWholeMinutesHoursAndDays", counting(nil, func(c *millrace.OperationCount) { c.At = c.At.Add(time.Millisecond) })},
		{"waited since the beginning", "Count/TimesAreCountedByTheirClass", waitedSinceBeginning},
		{"until is in it", "Count/BucketsAreAnsweredFromSinceUntil", counting(func(c *millrace.CountQuery) { c.Until = c.Until.Add(time.Millisecond) }, nil)},
		{"buckets for ever", "Count/BucketsAreKeptForTheirTimeAndTheTotalForEver", counting(func(c *millrace.CountQuery) { c.Now = time.UnixMilli(1) }, nil)},
		{"no hint of operations", "Await/EachKindOfChangeOfAWatchedOperationSendsOneHint", noHint},
		{"heard again and again", "Await/EachKindOfChangeOfAWatchedOperationSendsOneHint", heardAgain},
		{"everything is watched", "Await/AnOperationThatNobodyWatchesSendsNoHint", afterwards("start", func(_ string, _ modelOperation, op *modelOperation) {
			op.watched = true
		})},
		{"limit of firings ignored", "Trigger/NoMoreThanTheLimitFireInAMinute", fires(func(f *millrace.Fire) { f.PerMinute = 0 })},
		{"limit of firings for ever", "Trigger/NoMoreThanTheLimitFireInAMinute", fires(func(f *millrace.Fire) { f.Now = time.UnixMilli(1) })},
		{"firings lost by a reopen", "Trigger/FiringsAreThereAfterAReopen", reopenedWithout(func(l *modelLane) { l.fired = map[string]*modelFired{} })},
		{"removed trigger fires", "Trigger/ARemovedTriggerDoesNotFire", removedFires},
	}
}

// traced is the model with somebody who meddles with its operations around each call.
type traced struct {
	*Model
	before func(call string, l *modelLane)
	after  func(call string, l *modelLane, was map[uint64]modelOperation)
}

// around meddles before a call, and hands back who meddles after it.
func (b *traced) around(call string, lane int) func() {
	if lane < 0 || lane >= len(b.lanes) {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l, was := b.lanes[lane], map[uint64]modelOperation{}
	if b.before != nil {
		b.before(call, l)
	}
	for _, op := range l.operations {
		was[op.ID.Number] = *op
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.after != nil {
			b.after(call, l, was)
		}
	}
}

func (b *traced) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	after := b.around("publish", lane)
	defer after()
	return b.Model.Publish(ctx, lane, c)
}

func (b *traced) Start(ctx context.Context, lane int, s millrace.Start) (millrace.Started, error) {
	after := b.around("start", lane)
	defer after()
	return b.Model.Start(ctx, lane, s)
}

func (b *traced) Lease(ctx context.Context, lane int, l millrace.Lease) (millrace.Leased, error) {
	after := b.around("lease", lane)
	defer after()
	return b.Model.Lease(ctx, lane, l)
}

func (b *traced) Settle(ctx context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	after := b.around("settle", lane)
	defer after()
	return b.Model.Settle(ctx, lane, s)
}

func (b *traced) Release(ctx context.Context, lane int, r millrace.Release) (int, error) {
	after := b.around("release", lane)
	defer after()
	return b.Model.Release(ctx, lane, r)
}

func (b *traced) Step(ctx context.Context, lane int, now time.Time, limit int) (millrace.Stepped, error) {
	after := b.around("step", lane)
	defer after()
	return b.Model.Step(ctx, lane, now, limit)
}

func (b *traced) Purge(ctx context.Context, lane int, p millrace.Purge) (done, left int, err error) {
	after := b.around("purge", lane)
	defer after()
	return b.Model.Purge(ctx, lane, p)
}

func (b *traced) Sweep(ctx context.Context, lane, limit int) (int, error) {
	after := b.around("sweep", lane)
	defer after()
	return b.Model.Sweep(ctx, lane, limit)
}

func (b *traced) Redrive(ctx context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	after := b.around("redrive", lane)
	defer after()
	return b.Model.Redrive(ctx, lane, d)
}

func (b *traced) CancelOperation(ctx context.Context, lane int, now time.Time, number uint64) (millrace.StoredOperation, error) {
	after := b.around("cancel", lane)
	defer after()
	return b.Model.CancelOperation(ctx, lane, now, number)
}

// afterwards is the model with operations that are changed after a call, or after any.
func afterwards(of string, change func(call string, was modelOperation, op *modelOperation)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		return &traced{Model: m, after: func(call string, l *modelLane, was map[uint64]modelOperation) {
			for _, op := range l.operations {
				if of == "" || of == call {
					change(call, was[op.ID.Number], op)
				}
			}
		}}
	}
}

// undone is the model with operations that are as before when a call has brought them to a status.
func undone(of string, status millrace.OperationStatus) func(*Model) millrace.Engine {
	return afterwards(of, func(_ string, was modelOperation, op *modelOperation) {
		if op.Status == status && was.Status != "" {
			op.Status, op.FinishedAt, op.ExpiresAt = was.Status, was.FinishedAt, was.ExpiresAt
		}
	})
}

// reopenedWithout is the model that loses something when it is opened again.
func reopenedWithout(lose func(*modelLane)) func(*Model) millrace.Engine {
	return func(m *Model) millrace.Engine {
		for _, l := range m.lanes {
			if !m.identity.Created {
				lose(l)
			}
		}
		return m
	}
}

func wishIgnored(m *Model) millrace.Engine {
	return &traced{Model: m, before: func(call string, l *modelLane) {
		for _, op := range l.operations {
			op.CancelRequested = op.CancelRequested && call == "cancel"
		}
	}}
}

func heardAgain(m *Model) millrace.Engine {
	return afterwards("", func(_ string, was modelOperation, op *modelOperation) { op.watched = op.watched || was.watched })(m)
}

func waitedSinceBeginning(m *Model) millrace.Engine {
	return afterwards("start", func(_ string, _ modelOperation, op *modelOperation) { op.ready = op.QueuedAt.UnixMilli() })(m)
}

func successUndone(m *Model) millrace.Engine {
	return afterwards("step", func(_ string, _ modelOperation, op *modelOperation) {
		if op.Status == millrace.OperationSuccess && op.ID.Number%5 == 0 {
			op.Status = millrace.OperationQueued
		}
	})(m)
}

// cancelledLeased gives out what was cancelled.
func cancelledLeased(m *Model) millrace.Engine {
	return &traced{Model: m, before: func(call string, l *modelLane) {
		for _, op := range l.operations {
			if call == "lease" && op.Status == millrace.OperationCancelled {
				op.Status = millrace.OperationQueued
			}
		}
	}}
}

// cancelledLeaves takes a message away when its operation is cancelled.
func cancelledLeaves(m *Model) millrace.Engine {
	return &traced{Model: m, after: func(call string, l *modelLane, _ map[uint64]modelOperation) {
		for _, q := range l.queues {
			if call == "cancel" {
				q.messages = slices.DeleteFunc(q.messages, (*modelMessage).cancelled)
			}
		}
	}}
}

// droppedAtOnce drops all that was cancelled in one lease.
func droppedAtOnce(m *Model) millrace.Engine {
	return &traced{Model: m, before: func(call string, l *modelLane) {
		for _, q := range l.queues {
			if call == "lease" {
				q.messages = slices.DeleteFunc(q.messages, (*modelMessage).cancelled)
			}
		}
	}}
}

func operationLost(m *Model) millrace.Engine {
	n := 0
	return &traced{Model: m, after: func(call string, l *modelLane, _ map[uint64]modelOperation) {
		if n++; call == "start" && n%5 == 0 && len(l.operations) > 3 {
			l.forget(l.operations[len(l.operations)-2])
		}
	}}
}

func countLost(m *Model) millrace.Engine {
	n := 0
	return &traced{Model: m, after: func(_ string, l *modelLane, _ map[uint64]modelOperation) {
		if q := l.queues[trackedQueue]; q != nil && q.total.Success > 0 {
			if n++; n == 20 {
				q.total.Success--
			}
		}
	}}
}

func countsGo(m *Model) millrace.Engine {
	return &traced{Model: m, after: func(_ string, l *modelLane, was map[uint64]modelOperation) {
		for _, q := range l.queues {
			if len(l.operations) < len(was) {
				q.counts, q.total = map[countedAt]*millrace.OperationCount{}, millrace.Tally{}
			}
		}
	}}
}
