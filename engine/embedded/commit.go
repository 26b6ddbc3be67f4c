package embedded

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// wakeCommitter tells the committer that there is something to write.
func (e *Engine) wakeCommitter() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// commit is the committer: it takes the open groups of all journals and applies
// them as one batch, in order. The syncer makes durable what is applied while the
// committer applies the next.
func (e *Engine) commit() {
	defer close(e.committed)
	defer close(e.applied)
	for {
		select {
		case <-e.wake:
			runtime.Gosched() // whoever was just released may add to this group
			e.commitOpen(false)
		case <-e.stop:
			e.commitOpen(true)
			return
		case <-e.broken:
			return
		}
	}
}

// flight is a group that is applied and not yet released.
type flight struct {
	group *group
	owner *journal
}

// commitOpen applies all open groups, with last also what is only counted so far.
func (e *Engine) commitOpen(last bool) {
	var flights []flight
	for _, j := range e.journals {
		if g := j.take(last); g != nil {
			flights = append(flights, flight{g, j})
		}
	}
	if len(flights) == 0 || e.failure() != nil || !e.apply(flights) {
		return
	}
	select {
	case e.applied <- flights:
	case <-e.broken:
	}
}

// apply hands groups to Pebble as one batch: all bodies, then all messages, then
// the rest, each in the order of the groups. Nothing of it is durable yet.
func (e *Engine) apply(flights []flight) bool {
	batch := flights[0].group.parts[0]
	for part := range flights[0].group.parts {
		for i, f := range flights {
			if i+part == 0 || f.group.parts[part] == nil {
				continue
			}
			if err := batch.Apply(f.group.parts[part], nil); err != nil {
				e.fail(err)
				return false
			}
			if part < partReadBack { // the others may be read until the group is durable
				_ = f.group.parts[part].Close()
			}
		}
	}
	if err := e.db.Apply(batch, pebble.NoSync); err != nil {
		e.fail(err)
	}
	// A commit that fails calls the logger's Fatalf and then returns no error.
	if e.failure() != nil {
		return false
	}
	_ = batch.Close()
	return true
}

// syncApplied is the syncer: it makes durable all that is applied, with one
// fsync, and releases those who wait; meanwhile more is applied. With an interval
// it releases at once and syncs later.
func (e *Engine) syncApplied() {
	defer close(e.synced)
	var later <-chan time.Time // runs while something was released unsynced
	for {
		select {
		case flights, more := <-e.applied:
			flights = e.allApplied(flights)
			switch {
			case e.interval <= 0:
				e.syncLog()
			case later == nil:
				later = time.After(e.interval)
			}
			if e.failure() == nil {
				e.releaseAll(flights)
			}
			if !more {
				e.syncLog()
				return
			}
		case <-later:
			later = nil
			e.syncLog()
		}
	}
}

// allApplied adds to flights what else is applied by now.
func (e *Engine) allApplied(flights []flight) []flight {
	for {
		select {
		case next := <-e.applied:
			if next == nil {
				return flights
			}
			flights = append(flights, next...)
		default:
			return flights
		}
	}
}

func (e *Engine) releaseAll(flights []flight) {
	for _, f := range flights {
		e.live.show(f.group.live) // before its answers leave: who watches after an answer does not see it
		f.owner.release(f.group)
		e.sendHints(f.group.hints)
	}
}

// syncLog makes durable what was applied: a record behind it in the log, and
// what is before it, is synced.
func (e *Engine) syncLog() {
	if e.failure() != nil {
		return
	}
	if err := e.db.LogData(nil, pebble.Sync); err != nil {
		e.fail(err)
	}
}

func (e *Engine) sendHints(hints []millrace.Hint) {
	if len(hints) == 0 {
		return
	}
	if f := e.watcher.Load(); f != nil {
		for _, h := range hints {
			(*f)(h)
		}
	}
}
