package millrace

import "context"

// Diagnoser is an engine that can tell how its store fares. Every engine of this
// module is one.
type Diagnoser interface {
	// Diagnose looks at everything that an operator should know of the store. It
	// changes nothing. The error says that the store could not be asked at all.
	Diagnose(ctx context.Context) ([]Finding, error)
}

// Finding is one thing that was looked at.
type Finding struct {
	Name   string // what was looked at, as in "eviction"
	Grade  Grade
	Detail string // what was found
	Next   string // what to do about it; empty if nothing has to be done
}

// Grade is how bad a finding is.
type Grade string

// The grades of findings.
const (
	GradeOK   Grade = "ok"
	GradeWarn Grade = "warn" // it works, and may not for long or not as somebody expects
	GradeFail Grade = "fail" // something is lost, or refused, or will be
)

// Bounded is an engine whose store has a bound of its own, as a Redis with maxmemory has.
type Bounded interface {
	// Bound is how many bytes the store may have, as Bytes counts them; 0 if nobody has set it.
	Bound(ctx context.Context) (int64, error)
}

// Reclaimer is an engine whose size does not fall by itself when something is removed.
type Reclaimer interface {
	// Reclaim gives room back that nothing needs any more, so that Bytes counts what the store
	// holds. It works for a time that grows with what was removed, and blocks no other call.
	Reclaim(ctx context.Context) error
}
