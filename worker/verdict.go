package worker

import (
	"errors"
	"time"

	"github.com/millrace-dev/millrace"
)

// RetryAfter is an error that asks for another attempt after a delay: at once if it
// is negative, after millrace.MaxDelay if it is longer.
func RetryAfter(d time.Duration, err error) error { return &verdict{delay: &d, err: err} }

// Bury is an error that asks for no further attempt: the message goes to the dead letters.
func Bury(err error) error { return &verdict{bury: true, err: err} }

// verdict is an error that says how its message is to be settled.
type verdict struct {
	bury  bool
	delay *time.Duration
	err   error
}

func (v *verdict) Error() string {
	if v.err == nil {
		return "no reason given"
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// settlementOf is how a message is settled after what its handler returned.
func settlementOf(m millrace.Message, err error) (millrace.Verb, millrace.Settlement) {
	item := millrace.Settlement{Receipt: m.Receipt}
	if err == nil {
		return millrace.Ack, item
	}
	item.Error = millrace.CutError(err.Error())
	var v *verdict
	if !errors.As(err, &v) {
		return millrace.Retry, item
	}
	if v.bury {
		return millrace.Bury, item
	}
	if v.delay != nil { // one that no queue takes would spoil the settlement of all that go with it
		delay := min(max(0, *v.delay), millrace.MaxDelay)
		item.Delay = &delay
	}
	return millrace.Retry, item
}
