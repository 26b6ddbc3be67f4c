package broker

import (
	"encoding/binary"

	"github.com/millrace-dev/millrace"
)

// attemptRecord is an attempt as it is logged, with a mark for each of its events: an event's
// attempts are found by it, and a log of 1,000 events stays small. Two
// ids share a mark once in four billion.
type attemptRecord struct {
	millrace.Attempt
	Marks []byte `json:"marks,omitempty"`
}

const markSize = 4

func markOf(id string) uint32 { return uint32(millrace.Hash("", id)) }

// mark notes that an event is part of the attempt.
func (a *attemptRecord) mark(id string) {
	a.Marks = binary.BigEndian.AppendUint32(a.Marks, markOf(id))
}

// marks reports whether an event is part of the attempt.
func (a *attemptRecord) marks(id string) bool {
	want := markOf(id)
	for at := 0; at+markSize <= len(a.Marks); at += markSize {
		if binary.BigEndian.Uint32(a.Marks[at:]) == want {
			return true
		}
	}
	return false
}
