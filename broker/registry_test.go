package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// forgetful is an engine that fails to say what is defined, a few times.
type forgetful struct {
	millrace.Engine
	fails atomic.Int64
}

func (e *forgetful) Definitions(ctx context.Context, since uint64) (millrace.Changes, error) {
	if e.fails.Add(-1) >= 0 {
		return millrace.Changes{}, millrace.Errorf(millrace.CodeUnavailable, "not now")
	}
	return e.Engine.Definitions(ctx, since)
}

// following runs a registry on an engine in which a queue was just defined, and gives it some time.
func following(t *testing.T, fails int64, nudged bool, long time.Duration) *house {
	t.Helper()
	e := &forgetful{Engine: enginetest.NewModel(1, time.Now)}
	e.fails.Store(fails)
	r := newRegistry(e, 1, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var agent sync.WaitGroup
	agent.Go(func() { r.run(ctx) })
	d := millrace.Definition{Kind: millrace.KindQueue, Name: "q", UID: "0123456789abcdef", Spec: []byte(`{"match":"."}`)}
	if _, err := e.Define(ctx, d, 0); err != nil {
		t.Fatal(err)
	}
	if nudged {
		r.nudge()
	}
	time.Sleep(long)
	cancel()
	agent.Wait()
	return r.now()
}

func TestAReloadThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if h := following(t, 3, true, 4*reloadRetry); h.queues["q"] == nil {
			t.Error("the queue is not known")
		}
	})
}

func TestADefinitionWhoseHintWasLostIsFoundByTheSlowScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if h := following(t, 0, false, slowScan+time.Second); h.queues["q"] == nil {
			t.Error("the queue is not known")
		}
	})
}
