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

// commit is the committer: it takes the open groups of all journals, applies
// them as one batch, and releases those who wait.
func (e *Engine) commit() {
	defer close(e.committed)
	var sync <-chan time.Time // runs while something is applied but not synced
	for {
		select {
		case <-e.wake:
			runtime.Gosched() // whoever was just released may add to this group
			if e.commitOpen(false) && e.interval > 0 && sync == nil {
				sync = time.After(e.interval)
			}
		case <-sync:
			sync = nil
			e.syncLog()
		case <-e.stop:
			e.commitOpen(true)
			e.syncLog()
			return
		case <-e.broken:
			return
		}
	}
}

// commitOpen writes all open groups, with last also what is only counted so
// far, and reports whether it wrote any.
func (e *Engine) commitOpen(last bool) bool {
	groups, owners := e.groups[:0], e.owners[:0]
	for _, j := range e.journals {
		if g := j.take(last); g != nil {
			groups, owners = append(groups, g), append(owners, j)
		}
	}
	e.groups, e.owners = groups, owners
	if len(groups) == 0 || e.failure() != nil || !e.apply(groups) {
		return false
	}
	for i, j := range owners {
		g := groups[i]
		j.release(g)
		e.sendHints(g.hints)
		groups[i] = nil
	}
	return true
}

// apply makes groups durable with one batch: all bodies, then all messages,
// then the rest, each in the order of the groups.
func (e *Engine) apply(groups []*group) bool {
	batch := groups[0].parts[0]
	for part := range groups[0].parts {
		for i, g := range groups {
			if i+part == 0 {
				continue
			}
			if err := batch.Apply(g.parts[part], nil); err != nil {
				e.fail(err)
				return false
			}
			_ = g.parts[part].Close()
		}
	}
	options := pebble.Sync
	if e.interval > 0 {
		options = pebble.NoSync
	}
	if err := e.db.Apply(batch, options); err != nil {
		e.fail(err)
	}
	// A commit that fails calls the logger's Fatalf and then returns no error.
	if e.failure() != nil {
		return false
	}
	_ = batch.Close()
	return true
}

// syncLog makes durable what was applied without a sync.
func (e *Engine) syncLog() {
	if e.interval <= 0 || e.failure() != nil {
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
