package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace"
)

var _ millrace.Diagnoser = (*Engine)(nil)

// Diagnose looks at the store, the free space of its disk and its clock.
func (e *Engine) Diagnose(ctx context.Context) ([]millrace.Finding, error) {
	if err := e.Ping(ctx); err != nil {
		return nil, err
	}
	clock, err := e.diagnoseClock(ctx)
	if err != nil {
		return nil, err
	}
	id := e.identity
	found := []millrace.Finding{
		{Name: "store", Grade: millrace.GradeOK, Detail: fmt.Sprintf("embedded, format %d, lanes %d", id.Format, id.Lanes)},
		e.diagnoseDurability(), clock,
	}
	if e.space.free != nil {
		found = append(found, e.diagnoseDisk())
	}
	return found, nil
}

func (e *Engine) diagnoseDurability() millrace.Finding {
	f := millrace.Finding{Name: "durability", Grade: millrace.GradeOK, Detail: string(e.durability)}
	switch e.durability {
	case millrace.Buffered:
		f.Grade, f.Detail = millrace.GradeWarn, "buffered: when the power fails, the last "+e.interval.String()+" can go"
		f.Next = "leave --sync interval out if that must not be"
	case millrace.InMemory:
		f.Grade, f.Detail = millrace.GradeWarn, "memory: everything ends with the process"
		f.Next = "use embedded:DIR for what must stay"
	}
	return f
}

// diagnoseClock tells of a machine's clock that went back.
func (e *Engine) diagnoseClock(ctx context.Context) (millrace.Finding, error) {
	var ahead time.Duration
	for lane := range e.lanes {
		s, err := e.LaneStats(ctx, lane)
		if err != nil {
			return millrace.Finding{}, err
		}
		ahead = max(ahead, s.ClockOffset)
	}
	if ahead == 0 {
		return millrace.Finding{Name: "clock", Grade: millrace.GradeOK, Detail: "it has not gone back"}, nil
	}
	return millrace.Finding{
		Name: "clock", Grade: millrace.GradeWarn,
		Detail: fmt.Sprintf("the machine's clock has gone back; the store's runs %s ahead of it", ahead),
		Next:   "set the machine's clock right and keep it so with NTP",
	}, nil
}

// diagnoseDisk compares the free space with the reserve below which nothing is published.
func (e *Engine) diagnoseDisk() millrace.Finding {
	f := millrace.Finding{Name: "disk", Grade: millrace.GradeOK, Next: "make room on the disk, or move the store to a larger one"}
	free, err := e.space.free()
	if err != nil {
		f.Grade, f.Detail, f.Next = millrace.GradeWarn, "the free space cannot be read: "+err.Error(), "look at the disk yourself"
		return f
	}
	f.Detail = fmt.Sprintf("%d MiB are free, and publishing stops below %d MiB", free>>20, e.space.reserve>>20)
	switch {
	case free < e.space.reserve:
		f.Grade = millrace.GradeFail
	case free < 2*e.space.reserve:
		f.Grade = millrace.GradeWarn
	default:
		f.Next = ""
	}
	return f
}
