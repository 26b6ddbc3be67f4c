package broker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	sweepSize  = 500                  // entries freed in one step
	sweepRetry = 5 * time.Second      // after a sweep that failed
	sweepPause = 2 * time.Millisecond // between steps, so that others get their turn
)

// sweeper frees what deleted sinks left behind, in small steps.
type sweeper struct {
	engine millrace.Engine
	lanes  int
	log    *slog.Logger
	nudged chan struct{}

	mu   sync.Mutex
	told millrace.Apply // removals that the lanes may not have heard of
}

func newSweeper(e millrace.Engine, lanes int, log *slog.Logger) *sweeper {
	s := &sweeper{engine: e, lanes: lanes, log: log, nudged: make(chan struct{}, 1)}
	s.nudge() // something may have been left when the last node stopped
	return s
}

func (s *sweeper) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// removed says that sinks were removed, by whichever node: it may have died before it told
// every lane, so the lanes are told before they are swept.
func (s *sweeper) removed(a millrace.Apply) {
	s.remember(a)
	s.nudge()
}

func (s *sweeper) remember(a millrace.Apply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told.Version = max(s.told.Version, a.Version)
	s.told.Removed = append(s.told.Removed, a.Removed...)
	s.told.Removed = s.told.Removed[max(0, len(s.told.Removed)-maxRemoved):]
}

// run sweeps whenever it is nudged, until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudged:
			s.sweepAll(ctx)
		}
	}
}

// sweepAll sweeps every lane; what fails is tried again later.
func (s *sweeper) sweepAll(ctx context.Context) {
	s.mu.Lock()
	a := s.told
	s.told = millrace.Apply{}
	s.mu.Unlock()
	failed := false
	for lane := range s.lanes {
		if err := s.sweep(ctx, lane, a); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep a lane", "lane", lane, "error", err)
			failed = true
		}
	}
	if failed {
		s.remember(a)
		time.AfterFunc(sweepRetry, s.nudge)
	}
}

// sweep tells a lane of removals and frees all there is to free in it.
func (s *sweeper) sweep(ctx context.Context, lane int, a millrace.Apply) error {
	if len(a.Removed) > 0 {
		if _, err := s.engine.Apply(ctx, lane, a); err != nil {
			return err
		}
	}
	for {
		freed, err := s.engine.Sweep(ctx, lane, sweepSize)
		if err != nil || freed < sweepSize {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepPause):
		}
	}
}
