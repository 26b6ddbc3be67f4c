package embedded

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace"
)

// viewer hands events to the one who watches.
type viewer struct {
	on atomic.Bool // somebody watches: publishes note what they stamp

	mu sync.Mutex
	f  func(millrace.LiveEvent)
}

// Live hands f every event that is stamped, when it is durable, until stop is called.
func (e *Engine) Live(ctx context.Context, f func(millrace.LiveEvent)) (stop func(), err error) {
	if err := e.enterStore(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	e.live.set(f)
	return sync.OnceFunc(func() { e.live.set(nil) }), nil
}

// set changes who watches. When it has returned, who watched before hears no more.
func (v *viewer) set(f func(millrace.LiveEvent)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.f = f
	v.on.Store(f != nil)
}

func (v *viewer) show(events []millrace.LiveEvent) {
	if len(events) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range events {
		if v.f != nil {
			v.f(events[i])
		}
	}
}

// show notes an event that is to be shown when its group is durable.
func (l *lane) show(g *group, now int64, ev *millrace.CommitEvent, s stamp) {
	g.live = append(g.live, millrace.LiveEvent{Lane: l.no, Seq: s.seq, Prev: s.prev, RecordedAt: milli(now), Body: ev.Body})
}
