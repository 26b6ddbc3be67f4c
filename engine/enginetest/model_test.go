package enginetest

import (
	"cmp"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheModelKeepsEveryPromiseOnOneLane(t *testing.T) {
	Run(t, Config{Lanes: 1, New: modelPlace(1, sound), Tenants: 300, Runs: 4})
}

func TestTheModelKeepsEveryPromiseOnFourLanes(t *testing.T) {
	Run(t, Config{Lanes: 4, New: modelPlace(4, sound), Tenants: 300, Runs: 4})
}

// sound leaves the model as it is.
func sound(m *Model) millrace.Engine { return m }

// modelPlace is a place that holds a model, seen through a wrapper.
func modelPlace(lanes int, wrap func(*Model) millrace.Engine) func(testing.TB) Place {
	return func(testing.TB) Place {
		var mu sync.Mutex
		var m *Model
		return func(o millrace.EngineOptions) (millrace.Engine, error) {
			mu.Lock()
			defer mu.Unlock()
			if o.Lanes != 0 && o.Lanes != lanes {
				return nil, millrace.Errorf(millrace.CodeMismatch, "the store has %d lanes", lanes)
			}
			if m == nil && o.Existing {
				return nil, millrace.Errorf(millrace.CodeNotFound, "there is no store")
			}
			if m == nil {
				m = NewModel(lanes, time.Now)
				m.window = cmp.Or(o.DedupeWindow, millrace.DefaultDedupeWindow)
				return wrap(m), nil
			}
			m.Reopen()
			return wrap(m), nil
		}
	}
}
