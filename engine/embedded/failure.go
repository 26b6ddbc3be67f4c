package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace-dev/millrace"
)

// closePatience is how long Close waits for a Pebble that has failed.
const closePatience = 5 * time.Second

// fail stops the engine for good: from now on no call is answered but with an
// error, because what the index says may not be what the disk has.
func (e *Engine) fail(err error) {
	if e.reason.CompareAndSwap(nil, &err) {
		e.log.Error("the store has failed and stops", "error", err)
		close(e.broken)
	}
}

// failure is why the engine has stopped, or nil.
func (e *Engine) failure() error {
	if p := e.reason.Load(); p != nil {
		return *p
	}
	return nil
}

// readFailed stops the engine because the disk cannot be read.
func (e *Engine) readFailed(err error) error {
	e.fail(fmt.Errorf("read the store: %w", err))
	return millrace.Wrap(millrace.CodeUnavailable, err, "the store cannot be read")
}

// errIndex is a broken invariant between index and disk.
type errIndex string

func (e errIndex) Error() string { return string(e) }

// abandon closes a Pebble that has failed, if it can be closed.
func (e *Engine) abandon(cause error) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-e.committed
		<-e.synced
		_ = e.db.Close()
		_ = e.lock.Close()
	}()
	select {
	case <-done:
	case <-time.After(closePatience):
		e.log.Error("the failed store cannot be closed; its directory stays locked until the process ends")
	}
	return millrace.Wrap(millrace.CodeInternal, cause, "the store had failed")
}

// pebbleLog hands Pebble's messages on. What Pebble calls fatal stops the
// engine and not the process.
type pebbleLog struct{ engine *Engine }

// Infof is for what nobody needs to read.
func (pebbleLog) Infof(string, ...any) {}

// Errorf is for what went wrong and was repaired.
func (l pebbleLog) Errorf(format string, args ...any) {
	l.engine.log.Warn("Pebble reports a fault", "detail", fmt.Sprintf(format, args...))
}

// Fatalf is for what Pebble cannot go on after.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.engine.fail(fmt.Errorf("pebble: "+format, args...))
}

func (e *Engine) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, pebble.ErrCancelledCompaction) {
				e.fail(fmt.Errorf("write in the background: %w", err))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			e.fail(fmt.Errorf("read a file of the store: %s", info))
		},
	}
}
