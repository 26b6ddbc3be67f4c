package broker

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace"
)

const (
	sweepSize  = 500                  // entries freed in one step
	sweepRetry = 5 * time.Second      // after a sweep that failed
	sweepPause = 2 * time.Millisecond // between steps, so that others get their turn
)

// sweeper frees what deleted queues left behind, in small steps.
type sweeper struct {
	engine millrace.Engine
	lanes  int
	log    *slog.Logger
	nudged chan struct{}
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

// run sweeps whenever it is nudged, until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudged:
		}
		for lane := range s.lanes {
			if err := s.sweep(ctx, lane); err != nil && ctx.Err() == nil {
				s.log.Warn("sweep a lane", "lane", lane, "error", err)
				time.AfterFunc(sweepRetry, s.nudge)
			}
		}
	}
}

// sweep frees all there is to free in a lane.
func (s *sweeper) sweep(ctx context.Context, lane int) error {
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
