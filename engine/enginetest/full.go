package enginetest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// FillUp publishes large events into lane 0 of a prepared store until it has
// no room, or up to a number, and returns how many were stored. Each refusal
// must be CodeStoreFull.
func FillUp(t *testing.T, e millrace.Engine, limit int) int {
	t.Helper()
	body := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	for n := range limit {
		event := event(fmt.Sprint("t", n%3), "", patientQueue)
		event.Body = body
		_, err := e.Publish(t.Context(), 0, millrace.Commit{Version: loadVersion, Events: []millrace.CommitEvent{event}})
		if millrace.CodeOf(err) == millrace.CodeStoreFull {
			return n
		}
		if err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	return limit
}

// Drain leases and acks all of what FillUp stored, and fails if that is not all there is.
func Drain(t *testing.T, e millrace.Engine, want int) {
	t.Helper()
	got := 0
	for n := byte(1); ; n++ {
		h := held{token: millrace.Token{0: 0xee, 1: n, 2: byte(got), 3: byte(got >> 8)}}
		var err error
		h.Leased, err = e.Lease(t.Context(), 0, millrace.Lease{
			Queue: patientQueue, Max: 30, MaxBytes: millrace.MaxLeaseBytes, For: time.Minute, Token: h.token,
		})
		if err != nil {
			t.Fatalf("lease: %v", err)
		}
		if len(h.Messages) == 0 {
			break
		}
		got += len(h.Messages)
		s, err := e.Settle(t.Context(), 0, millrace.Settle{Queue: patientQueue, Verb: millrace.Ack, Items: h.items()})
		if err != nil || len(s.Lost) > 0 {
			t.Fatalf("ack: %v, lost %v", err, s.Lost)
		}
	}
	if got != want {
		t.Errorf("drained %d messages, want %d", got, want)
	}
}
