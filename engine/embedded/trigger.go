package embedded

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace"
)

// Fire counts one firing of a trigger, unless it fired too often in this minute.
func (e *Engine) Fire(ctx context.Context, lane int, f millrace.Fire) (millrace.Fired, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.Fired{}, err
	}
	defer e.leave()
	u, ok := parseUID(f.UID)
	if !ok {
		return millrace.Fired{}, errUID()
	}
	var out millrace.Fired
	err = l.transition(ctx, f.Now, func(g *group, now int64) (err error) {
		out, err = l.fire(g, u, now, f.PerMinute)
		return err
	})
	return out, err
}

func errUID() error { return millrace.Errorf(millrace.CodeInvalid, "a uid must be 16 of 0-9a-f") }

func (l *lane) fire(g *group, u uid, now int64, most int) (millrace.Fired, error) {
	if _, gone := l.removed[u]; gone {
		return millrace.Fired{}, millrace.Errorf(millrace.CodeNotFound, "the trigger was removed")
	}
	r, err := l.fired(u)
	if err != nil {
		return millrace.Fired{}, l.engine.readFailed(err)
	}
	if minute := now / 60000; r.minute != minute {
		r.minute, r.many = minute, 0
	}
	if most > 0 && r.many >= int64(most) {
		out := r.answer()
		out.Refused, out.Retry = true, time.Duration((r.minute+1)*60000-now)*time.Millisecond
		return out, nil
	}
	r.count++
	r.many++
	r.last = now
	g.key = queueKey(g.key[:0], kindFired, l.no, u)
	g.val = r.append(g.val[:0])
	g.set()
	return r.answer(), nil
}

func (l *lane) fired(u uid) (firedRecord, error) {
	value, err := l.overlay.get(queueKey(nil, kindFired, l.no, u))
	if err != nil {
		return firedRecord{}, err
	}
	return decodeFired(value)
}

func (f *firedRecord) answer() millrace.Fired {
	out := millrace.Fired{Count: f.count}
	if f.count > 0 {
		out.LastAt = milli(f.last)
	}
	return out
}

// Fired returns how often a trigger fired.
func (e *Engine) Fired(ctx context.Context, lane int, name string) (millrace.Fired, error) {
	l, err := e.enter(ctx, lane)
	if err != nil {
		return millrace.Fired{}, err
	}
	defer e.leave()
	u, ok := parseUID(name)
	if !ok {
		return millrace.Fired{}, nil
	}
	var r firedRecord
	err = l.do(ctx, func(*group) error {
		if r, err = l.fired(u); err != nil {
			return e.readFailed(err)
		}
		return nil
	})
	return r.answer(), err
}
