package enginetest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// Place opens the store that lies in one place. It creates the store the first
// time and finds it again every time after a Close.
type Place func(o millrace.EngineOptions) (millrace.Engine, error)

// Config says how the suite gets at an engine.
type Config struct {
	// Lanes is the number of lanes that every store is created with.
	Lanes int
	// New returns an empty place for one test, and frees it in a cleanup of t.
	New func(t testing.TB) Place
	// Tenants is the number of tenants in the bulk tests of fairness; 100,000 if 0.
	Tenants int
	// Runs is the number of random runs against the model; 24 if 0.
	Runs int
	// Patience is how long a test waits for a hint or another thing to come; 10 seconds if 0.
	Patience time.Duration
}

// Run proves every promise of the contract against an engine. After each test
// the engine's own invariants must hold.
func Run(t *testing.T, c Config) {
	if c.Tenants == 0 {
		c.Tenants = 100_000
	}
	if c.Runs == 0 {
		c.Runs = 24
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	for _, noun := range nouns() {
		t.Run(noun.name, func(t *testing.T) {
			for _, p := range noun.promises {
				t.Run(p.name, func(t *testing.T) { p.prove(t, c) })
			}
		})
	}
}

// promise is one sentence of the contract and its proof.
type promise struct {
	name  string
	prove func(t *testing.T, c Config)
}

type noun struct {
	name     string
	promises []promise
}

func nouns() []noun {
	return []noun{
		{"Store", storePromises()},
		{"Step", stepPromises()},
		{"Registry", registryPromises()},
		{"Publish", publishPromises()},
		{"Queue", queuePromises()},
		{"Settle", settlePromises()},
		{"Turn", turnPromises()},
		{"Limit", limitPromises()},
		{"Order", orderPromises()},
		{"Dead", deadPromises()},
		{"Look", lookPromises()},
		{"Release", releasePromises()},
		{"Length", lengthPromises()},
		{"Held", heldPromises()},
		{"Inject", injectPromises()},
		{"Topic", topicPromises()},
		{"Node", nodePromises()},
		{"Batch", batchPromises()},
		{"Take", takePromises()},
		{"Outcome", outcomePromises()},
		{"Park", parkPromises()},
		{"Sequence", sequencePromises()},
		{"Setting", settingPromises()},
		{"Handle", handlePromises()},
		{"Sink", sinkPromises()},
		{"Live", livePromises()},
		{"Operation", operationPromises()},
		{"Progress", progressPromises()},
		{"Start", startPromises()},
		{"Cancel", cancelPromises()},
		{"Expiry", expiryPromises()},
		{"Listing", listingPromises()},
		{"Count", countPromises()},
		{"Await", awaitPromises()},
		{"Trigger", triggerPromises()},
		{"Fairness", append(fairnessPromises(), sharePromises()...)},
		{"Random", randomPromises()},
		{"Load", loadPromises()},
	}
}
