package enginetest

import (
	"fmt"
	"slices"
)

// Lines judges the order within the keys of one ordered queue in one lane: of one
// key never two messages are in flight, and none is given while an earlier one of
// its key is not settled for good. It knows nothing of heads; it is told what
// comes, what is given and what ends. A redriven message is the one exception,
// and is not told of.
type Lines struct {
	waiting map[[2]string][]uint64 // unsettled names, as they came
	line    map[uint64][2]string
	flying  map[uint64]bool
}

// NewLines returns a judge that has seen nothing.
func NewLines() *Lines {
	return &Lines{waiting: map[[2]string][]uint64{}, line: map[uint64][2]string{}, flying: map[uint64]bool{}}
}

// Waits says that a message begins to wait. One without a key has a line of its own.
func (l *Lines) Waits(tenant, key string, name uint64) {
	line := [2]string{tenant, "k" + key}
	if key == "" {
		line[1] = fmt.Sprint(name)
	}
	l.line[name] = line
	l.waiting[line] = append(l.waiting[line], name)
}

// Leased says that a message is given out, and judges it.
func (l *Lines) Leased(name uint64) error {
	line, known := l.line[name]
	if !known {
		return fmt.Errorf("message %d is given and was settled or never there", name)
	}
	if l.flying[name] {
		return fmt.Errorf("message %d is given while it is in flight", name)
	}
	if first := l.waiting[line][0]; first != name {
		return fmt.Errorf("message %d of key %q is given before %d is settled (in flight: %v)", name, line, first, l.flying[first])
	}
	l.flying[name] = true
	return nil
}

// Ended says that a lease is over, and whether the message is settled for good.
func (l *Lines) Ended(name uint64, forGood bool) {
	delete(l.flying, name)
	if !forGood {
		return
	}
	line := l.line[name]
	delete(l.line, name)
	l.waiting[line] = slices.DeleteFunc(l.waiting[line], func(n uint64) bool { return n == name })
}

// AllEnded says that all leases are over and nothing was settled.
func (l *Lines) AllEnded() { clear(l.flying) }

// Waiting is the number of messages that are not settled.
func (l *Lines) Waiting() int { return len(l.line) }
