package enginetest

import (
	"context"
	"slices"

	"github.com/millrace-dev/millrace"
)

// Live shows every event that is stamped.
func (m *Model) Live(_ context.Context, f func(millrace.LiveEvent)) (stop func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, millrace.Errorf(millrace.CodeUnavailable, "the store is closed")
	}
	watched := &f
	m.live = watched
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.live == watched {
			m.live = nil
		}
	}, nil
}

func (m *Model) show(l *modelLane, e millrace.CommitEvent, s millrace.Stamp) {
	if m.live != nil {
		(*m.live)(millrace.LiveEvent{Lane: int(l.lane), Seq: s.Seq, Prev: s.Prev, RecordedAt: at(l.t), Body: slices.Clone(e.Body)})
	}
}
