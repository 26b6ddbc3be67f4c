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
		Run(t, Config{Lanes: 1, New: modelPlace(1, breakages()[i].wrap), Tenants: 100, Runs: 8, Patience: time.Second})
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

func runBroken(t *testing.T, b breakage) string {
	noun, test, _ := strings.Cut(b.caught, "/")
	cmd := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run", "^TestEveryBrokenEngineIsCaught$/^"+noun+"$/^"+test+"$", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), brokenEnv+"="+b.name)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s passed", b.name)
	}
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
