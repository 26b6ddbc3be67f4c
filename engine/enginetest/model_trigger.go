package enginetest

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
)

// modelFired is how often a trigger fired, in all and in the minute of the last time.
type modelFired struct {
	millrace.Fired
	inMinute int
}

// Fire counts one firing.
func (m *Model) Fire(_ context.Context, lane int, f millrace.Fire) (millrace.Fired, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Fired{}, err
	}
	defer m.leave()
	if l.removed[f.UID] {
		return millrace.Fired{}, millrace.Errorf(millrace.CodeNotFound, "it was removed")
	}
	m.tick(l, f.Now)
	if l.fired[f.UID] == nil {
		l.fired[f.UID] = &modelFired{}
	}
	fired := l.fired[f.UID]
	if l.t/60_000 != fired.LastAt.UnixMilli()/60_000 {
		fired.inMinute = 0
	}
	if f.PerMinute > 0 && fired.inMinute >= f.PerMinute {
		refused := fired.Fired
		refused.Refused, refused.Retry = true, time.Duration(60_000-l.t%60_000)*time.Millisecond
		return refused, nil
	}
	fired.inMinute++
	fired.Count++
	fired.LastAt = at(l.t)
	return fired.Fired, nil
}

// Fired returns what was counted.
func (m *Model) Fired(_ context.Context, lane int, uid string) (millrace.Fired, error) {
	l, err := m.enter(lane)
	if err != nil {
		return millrace.Fired{}, err
	}
	defer m.leave()
	if fired := l.fired[uid]; fired != nil {
		return fired.Fired, nil
	}
	return millrace.Fired{}, nil
}
