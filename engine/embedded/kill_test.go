package embedded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// unreserved are options that do not care how full the machine's disk is.
func unreserved(lanes int) millrace.EngineOptions {
	return millrace.EngineOptions{Lanes: lanes, Reserve: -1}
}

func TestAKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel() // it mostly waits
	enginetest.Kills{Open: func(dir string) (millrace.Engine, error) {
		return embedded.Open(context.Background(), dir, unreserved(2))
	}}.Run(t)
}

// TestALossOfPowerLosesNothingAcknowledged drops, at a random moment under
// load, a random part of what was written and not synced.
func TestALossOfPowerLosesNothingAcknowledged(t *testing.T) {
	acknowledged, dropped := 0, 0
	for seed := range 200 {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		percent := []int{0, 0, 50, 100, random.IntN(101)}[seed%5]
		if percent < 100 {
			dropped++
		}
		acknowledged += losePowerUnderLoad(t, seed, percent, random)
		if t.Failed() {
			t.Fatalf("seed %d, %d%% of the unsynced data kept", seed, percent)
		}
	}
	if acknowledged < 1000 || dropped == 0 {
		t.Errorf("only %d calls were acknowledged before the losses, %d of which dropped data", acknowledged, dropped)
	}
}

// losePowerUnderLoad runs a load on a file system in memory that loses power, and
// judges what is left. It returns how many calls had been acknowledged.
func losePowerUnderLoad(t *testing.T, seed, percent int, random *rand.Rand) int {
	fs := vfs.NewCrashableMem()
	before := openOn(t, fs)
	if err := enginetest.Prepare(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	var clone *vfs.MemFS
	load := &enginetest.Load{
		Engine: before, Ledger: enginetest.NewLedger(), Name: fmt.Sprint("seed", seed),
		Pace: 200 * time.Microsecond, Lease: 10 * time.Millisecond,
	}
	lead := 2*time.Millisecond + time.Duration(random.IntN(20))*time.Millisecond
	h := enginetest.Under(t.Context(), load, lead, func() {
		clone = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
	})
	if err := before.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	after := openOn(t, clone)
	if err := enginetest.Audit(t.Context(), after, h); err != nil {
		t.Error(err)
	}
	if err := after.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return h.Acknowledged("publish") + h.Acknowledged("settle")
}

func openOn(t *testing.T, fs vfs.FS) *embedded.Engine {
	t.Helper()
	e, err := embedded.OpenFS(t.Context(), fs, "store", unreserved(1))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return e
}
