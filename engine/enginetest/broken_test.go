package enginetest

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// breakage is a deliberate fault in the model and the test that must catch it.
type breakage struct {
	name   string
	caught string // Noun/Promise
	wrap   func(*Model) millrace.Engine
}

func breakages() []breakage {
	return slices.Concat(queueBreakages(), batchBreakages(), subBreakages(), operationBreakages())
}

func queueBreakages() []breakage {
	return []breakage{
		{"receipt not compared", "Settle/AReceiptOfAnotherLeaseIsLost", receiptNotCompared},
		{"receipt not spent", "Settle/AnItemTwiceInOneCallIsLostTheSecondTime", receiptNotSpent},
		{"ended lease settles", "Settle/ALeaseEndsAtItsDeadline", endedLeaseSettles},
		{"tenant served twice in a turn", "Queue/EachTenantIsServedOneMessageATurn", servedTwice},
		{"tenant served twice in a turn, judged", "Fairness/TurnsAreFairWhileTenantsComeAndGo", servedTwice},
		{"last in first out", "Queue/WithinATenantTheLowestSeqIsFirst", lastInFirstOut},
		{"duplicate stored", "Publish/AKnownIdIsAnsweredWithTheFirstStamp", duplicateStored},
		{"ended lease into another facet", "Step/ALeaseThatEndedReturnsToItsOwnFacet", anotherFacet},
		{"attempts not counted", "Settle/ARetryWhoseAttemptsAreSpentIsDead", attemptsNotCounted},
		{"half commit", "Publish/AnEventIsInAllOfItsQueues", halfCommit},
		{"stale commit stores a part", "Publish/ACommitToAnUnknownQueueIsStaleAndStoresNothing", staleStores},
		{"prev forgotten", "Publish/PrevIsTheKeysLastSeq", prevForgotten},
		{"clock goes back", "Store/ANowBeforeTheLastOneCountsAsTheLastOne", clockGoesBack},
		{"step without a bound", "Step/AStepDoesAtMostMaxAndSaysThereIsMore", stepUnbounded},
		{"extension forgotten", "Settle/AnExtensionMovesTheDeadline", extensionForgotten},
		{"removed queue comes back", "Registry/ARemovedQueueNeverComesBack", removedComesBack},
		{"definition not compared", "Registry/ADefinitionThatReplacesAnotherThanTheCurrentIsRefused", definitionNotCompared},
		{"no hint", "Queue/AWantedQueueSendsAHintWhenItGetsAMessage", noHint},
		{"settled comes back after a reopen", "Settle/SettlementsAreThereAfterAReopen", settledComesBack},
		{"acks lost under load", "Load/NothingIsLostOrTwiceUnderLoad", ackForgotten},
		{"messages lost under load", "Load/NothingIsLostOrTwiceUnderLoad", messageLost},
		{"weights ignored", "Turn/ATurnIsAsManyMessagesAsTheTenantsWeight", weightsIgnored},
		{"weight zero served", "Turn/ATenantOfWeightZeroIsNotServed", zeroServed},
		{"cut turn begins anew", "Turn/ATurnThatALeaseCutShortGoesOnWithWhatWasLeft", cutTurnForgotten},
		{"cut turn begins anew, judged", "Fairness/WeightedTurnsAreFairWhileWeightsAndLimitsChange", cutTurnForgotten},
		{"order ignored, by many consumers", "Fairness/ConsumersOfAnOrderedQueueKeepTheOrder", orderIgnored},
		{"credit survives a pause", "Turn/ACutTurnOfATenantPausedMeanwhileEnds", creditSurvives},
		{"pause ignored", "Turn/APausedQueueLeasesNothingAndKeepsItsRing", pauseIgnored},
		{"at most once leases", "Turn/AtMostOnceGivesAMessageAway", onceLeases},
		{"limit ignored", "Limit/ATenantHasNoMoreLeasedThanTheQueuesLimit", limitIgnored},
		{"settled tenant stays out of the ring", "Limit/ATenantAtItsLimitReturnsWhenALeaseIsSettled", staysOut},
		{"settled tenant stays out, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", staysOut},
		{"block ignored", "Limit/ASpentMessageOfABlockingQueueIsTriedAgain", blockIgnored},
		{"dead without a reason", "Dead/ADeadLetterSaysWhyAndWhen", reasonForgotten},
		{"redrive keeps the attempts", "Dead/ARedriveBeginsTheAttemptsAnew", attemptsKept},
		{"retention ignored", "Dead/ADeadLetterGoesWhenItsRetentionIsOver", retentionIgnored},
		{"purge leaves the delayed", "Look/APurgeRemovesWhatWaitsOrIsDelayed", purgeLeaves},
		{"peek by name", "Look/APeekShowsTheOrderOfServing", peekByName},
		{"release of everybody", "Release/AReleaseLeavesOtherConsumersAlone", releaseOfAll},
		{"full commit stores a part", "Length/ACommitThatAQueueHasNoRoomForIsRefusedWhole", fullStores},
		{"length of the whole queue", "Length/AFullTenantDoesNotHinderTheOthers", lengthOfAll},
		{"newest dropped", "Length/DropOldestDropsTheTenantsOldestWaitingMessage", newestDropped},
		{"order ignored", "Order/OfOneKeyOneMessageIsInFlight", orderIgnored},
		{"order ignored, under load", "Load/NothingIsLostOrTwiceUnderLoad", orderIgnored},
		{"retry to the end of the line", "Order/ARetryKeepsTheHeadOfItsKey", retryToTheEnd},
		{"retry to the end of the line, drained", "Order/AnOrderedQueueIsDrainedInOrder", retryToTheEnd},
		{"delay lets the key go on", "Order/ADelayBlocksTheKey", delayForgetsKey},
		{"redrive to the end of the line", "Order/ARedrivenMessageIsTheHeadOfItsKey", redriveToTheEnd},
		{"delay ignored", "Held/ADelayedEventIsHeldAndGoesToNoQueue", holdIgnored},
		{"handed out once", "Held/ADelayedEventIsHandedOutAgainUntilItIsTakenOut", handedOnce},
		{"held stays after its commit", "Held/ACommitFromAHeldEventTakesItOut", heldStays},
		{"held id forgotten", "Held/ADelayedEventsIDIsKnownWhileItIsHeldAndAfter", heldForgotten},
		{"cancel forgotten", "Held/ACancelledEventIsNotHandedOut", cancelForgotten},
		{"held lost by a reopen", "Held/DelayedEventsAreThereAfterAReopen", heldLost},
		{"held lost under load", "Load/NothingIsLostOrTwiceUnderLoad", heldLostUnderLoad},
		{"injected under its seq", "Inject/AnInjectedMessageIsNamedByTheLane", injectedBySeq},
		{"injection counted", "Inject/AnInjectedEventTouchesNoCounter", injectionCounted},
		{"live shows duplicates", "Live/ADuplicateIsNotShown", showsDuplicates},
		{"live leaves out what nobody wants", "Live/AnEventThatNobodyWantsIsShownToo", showsRouted},
		{"live out of order", "Live/EveryEventIsShownOnceInTheOrderOfItsLane", showsBackwards},
		{"live shows the delayed at once", "Live/ADelayedEventIsShownWhenItIsStamped", showsHeld},
		{"live goes on after its stop", "Live/AfterTheStopNothingIsShown", showsOn},
		{"live leaves out what nobody wants, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", showsRouted},
		{"any of it, at random", "Random/AnEngineAnswersRandomOperationsAsTheModelDoes", lastInFirstOut},
	}
}

// brokenEnv names the breakage that a child of this test runs.
const brokenEnv = "ENGINETEST_BREAKAGE"

// TestEveryBrokenEngineIsCaught proves that the suite can go red: each
// breakage runs in a process of its own, where its named test must fail.
func TestEveryBrokenEngineIsCaught(t *testing.T) {
	if name := os.Getenv(brokenEnv); name != "" {
		i := slices.IndexFunc(breakages(), func(b breakage) bool { return b.name == name })
		Run(t, Config{Lanes: 1, New: modelPlace(1, breakages()[i].wrap), Tenants: 100, Runs: 8, Patience: 3 * time.Second})
		return
	}
	for _, b := range breakages() {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			out := runBroken(t, b)
			want := "--- FAIL: TestEveryBrokenEngineIsCaught/" + b.caught
			if !strings.Contains(out, want) {
				t.Errorf("%s was not caught by %s:\n%s", b.name, b.caught, out)
			}
		})
	}
}

// runBroken runs the test that must catch a breakage, one under load again if
// chance let the breakage pass.
func runBroken(t *testing.T, b breakage) string {
	noun, test, _ := strings.Cut(b.caught, "/")
	runs := 1
	if noun == "Load" {
		runs = 10
	}
	var out []byte
	for range runs {
		cmd := exec.CommandContext(t.Context(), os.Args[0],
			"-test.run", "^TestEveryBrokenEngineIsCaught$/^"+noun+"$/^"+test+"$", "-test.timeout", "60s")
		cmd.Env = append(os.Environ(), brokenEnv+"="+b.name)
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			return string(out)
		}
	}
	t.Errorf("%s passed, %d times", b.name, runs)
	return string(out)
}

// broken is the model with some of its transitions replaced.
type broken struct {
	*Model
	publish func(*Model, int, millrace.Commit) (millrace.Committed, error)
	lease   func(*Model, int, millrace.Lease) (millrace.Leased, error)
	settle  func(*Model, int, millrace.Settle) (millrace.Settled, error)
	extend  func(*Model, int, millrace.Extend) (millrace.Extended, error)
	step    func(*Model, int, time.Time, int) (millrace.Stepped, error)
	apply   func(*millrace.QueueSettings)
	redrive func(*modelMessage)
}

func (b *broken) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	a.Queues = slices.Clone(a.Queues)
	for i := range a.Queues {
		if b.apply != nil {
			b.apply(&a.Queues[i])
		}
	}
	return b.Model.Apply(ctx, lane, a)
}

func (b *broken) Redrive(ctx context.Context, lane int, d millrace.DeadOf) (done, left int, err error) {
	var some []*modelMessage
	inside(b.Model, lane, d.Queue, func(_ *modelLane, q *modelQueue) { some, _ = q.selected(d) })
	done, left, err = b.Model.Redrive(ctx, lane, d)
	for _, msg := range some {
		if b.redrive != nil {
			b.redrive(msg)
		}
	}
	return done, left, err
}

func (b *broken) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	if b.publish != nil {
		return b.publish(b.Model, lane, c)
	}
	return b.Model.Publish(ctx, lane, c)
}

func (b *broken) Lease(ctx context.Context, lane int, l millrace.Lease) (millrace.Leased, error) {
	if b.lease != nil {
		return b.lease(b.Model, lane, l)
	}
	return b.Model.Lease(ctx, lane, l)
}

func (b *broken) Settle(ctx context.Context, lane int, s millrace.Settle) (millrace.Settled, error) {
	if b.settle != nil {
		return b.settle(b.Model, lane, s)
	}
	return b.Model.Settle(ctx, lane, s)
}

func (b *broken) Extend(ctx context.Context, lane int, e millrace.Extend) (millrace.Extended, error) {
	if b.extend != nil {
		return b.extend(b.Model, lane, e)
	}
	return b.Model.Extend(ctx, lane, e)
}

func (b *broken) Step(ctx context.Context, lane int, now time.Time, limit int) (millrace.Stepped, error) {
	if b.step != nil {
		return b.step(b.Model, lane, now, limit)
	}
	return b.Model.Step(ctx, lane, now, limit)
}
