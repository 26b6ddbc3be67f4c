package millrace

import "time"

// Backoff is the wait before a failed message is tried again: it doubles from
// First with each attempt, up to Max.
type Backoff struct {
	First, Max time.Duration
}

// Delay is the wait after a failed attempt, counted from 1. random, in [0, 1),
// spreads it evenly over the upper half, so that what failed together does not
// return together.
func (b Backoff) Delay(attempt int, random float64) time.Duration {
	d := b.First
	for i := 1; i < attempt && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	return d/2 + time.Duration(random*float64(d-d/2))
}
