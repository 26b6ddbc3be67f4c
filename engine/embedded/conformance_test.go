package embedded_test

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
	"github.com/millrace-dev/millrace/engine/enginetest"
	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheEmbeddedEngineKnowsOnlyTheWords(t *testing.T) { importguard.Check(t, ".") }

func TestConformanceInMemory(t *testing.T) {
	t.Parallel() // with what waits for the disk
	t.Run("OneLane", func(t *testing.T) {
		t.Parallel()
		enginetest.Run(t, enginetest.Config{Lanes: 1, New: inMemory, Runs: 40})
	})
	t.Run("FourLanes", func(t *testing.T) {
		t.Parallel()
		enginetest.Run(t, enginetest.Config{Lanes: 4, New: inMemory, Tenants: 5_000})
	})
}

func TestConformanceOnDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	t.Run("OneLane", func(t *testing.T) {
		t.Parallel()
		enginetest.Run(t, enginetest.Config{Lanes: 1, New: onDisk, Tenants: 5_000, Runs: 6})
	})
	t.Run("FourLanes", func(t *testing.T) {
		t.Parallel()
		enginetest.Run(t, enginetest.Config{Lanes: 4, New: onDisk, Tenants: 5_000, Runs: 6})
	})
}

// What is on its way is right as well when no event of a batch is kept in memory
// longer than it must, and little of a deep facet.
func TestConformanceWithBatchesOnDisk(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Config{Lanes: 1, New: forgetful, Tenants: 1_000, Runs: 20})
}

func forgetful(t testing.TB) enginetest.Place {
	place := inMemory(t)
	return func(o millrace.EngineOptions) (millrace.Engine, error) {
		e, err := place(o)
		if err == nil {
			e.(*embedded.Engine).KeepMembers(0)
			e.(*embedded.Engine).ShortenWindows()
		}
		return e, err
	}
}

// inMemory is a place on a file system in memory that outlives a close.
func inMemory(testing.TB) enginetest.Place {
	fs := vfs.NewMem()
	return func(o millrace.EngineOptions) (millrace.Engine, error) {
		return embedded.OpenFS(context.Background(), fs, "store", o)
	}
}

func onDisk(t testing.TB) enginetest.Place {
	dir := t.TempDir()
	return func(o millrace.EngineOptions) (millrace.Engine, error) {
		return embedded.Open(context.Background(), dir, o)
	}
}
