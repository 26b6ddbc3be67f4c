package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// logbook is a log that keeps every line, as its text and its attributes.
type logbook struct {
	level slog.Level

	mu    sync.Mutex
	lines []map[string]string
}

func (b *logbook) Enabled(_ context.Context, l slog.Level) bool { return l >= b.level }

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	line := map[string]string{slog.MessageKey: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

func (b *logbook) WithAttrs([]slog.Attr) slog.Handler { return b }
func (b *logbook) WithGroup(string) slog.Handler      { return b }

// has reports whether there is a line with these attributes.
func (b *logbook) has(want map[string]string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		all := true
		for key, value := range want {
			all = all && line[key] == value
		}
		if all {
			return true
		}
	}
	return false
}

// await fails unless there is a line with these attributes before long.
func (b *logbook) await(t *testing.T, attributes ...string) {
	t.Helper()
	want := map[string]string{}
	for i := 0; i < len(attributes); i += 2 {
		want[attributes[i]] = attributes[i+1]
	}
	for until := time.Now().Add(20 * time.Second); !b.has(want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("no line says %v in %v", want, b.lines)
		}
	}
}

// logged opens a house whose log is kept from a level on.
func logged(t *testing.T, level slog.Level, test func(t *testing.T, h *house, log *logbook)) {
	t.Helper()
	engines(t, func(t *testing.T, h *house) {
		log := &logbook{level: level}
		h.options.Logger, h.options.Engine.Lanes = slog.New(log), 1
		h.Backbone = h.open(t)
		test(t, h, log)
	})
}

func TestEveryWayOutOfAQueueIsLoggedWithMessageQueueAndReason(t *testing.T) {
	logged(t, slog.LevelDebug, func(t *testing.T, h *house, log *logbook) {
		logsWhatWasSettled(t, h, log)
		logsWhatEndedByItself(t, h, log)
		logsWhatWasTakenAway(t, h, log)
	})
}

func logsWhatWasSettled(t *testing.T, h *house, log *logbook) {
	h.queue(t, "jobs", ":jobs:", func(s *millrace.QueueSpec) { s.MaxAttempts = 1 })
	publish(t, h, numbered("jobs", 4)...)
	m := leaseAll(t, h, "jobs", 3)
	ack(t, h, "jobs", m[0])
	log.await(t, "became", "gone", "queue", "jobs", "message", m[0].ID, "reason", "ack")
	if _, err := h.Queues().Bury(t.Context(), "jobs", settlements(m[1])...); err != nil {
		t.Fatal(err)
	}
	log.await(t, "became", "dead", "queue", "jobs", "message", m[1].ID, "reason", "buried")
	if got := retryAtOnce(t, h, "jobs", m[2]); got.Dead != 1 {
		t.Fatalf("got %+v, want one dead", got)
	}
	log.await(t, "became", "dead", "queue", "jobs", "message", m[2].ID, "reason", "attempts")
	once, err := h.Queues().Lease(t.Context(), "jobs", millrace.LeaseOptions{AtMostOnce: true})
	if err != nil || len(once) != 1 {
		t.Fatalf("got %d messages, %v", len(once), err)
	}
	log.await(t, "queue", "jobs", "message", once[0].ID, "event", once[0].Event.ID, "reason", "at_most_once")
	if _, err := h.Queues().Ack(t.Context(), "jobs", settlements(m[0])...); err != nil {
		t.Fatal(err)
	}
	if n := log.count("message", m[0].ID); n != 1 {
		t.Errorf("a lost receipt was logged: %d lines of one message", n)
	}
	if _, _, err := h.Queues().DropDead(t.Context(), "jobs", millrace.DeadSelection{IDs: []string{m[1].ID}}); err != nil {
		t.Fatal(err)
	}
	log.await(t, "became", "gone", "queue", "jobs", "message", m[1].ID, "reason", "dead_dropped")
	if _, _, err := h.Queues().DropDead(t.Context(), "jobs", millrace.DeadSelection{All: true}); err != nil {
		t.Fatal(err)
	}
	log.await(t, "became", "gone", "queue", "jobs", "count", "1", "reason", "dead_dropped")
}

func logsWhatEndedByItself(t *testing.T, h *house, log *logbook) {
	h.queue(t, "short", ":short:", func(s *millrace.QueueSpec) { s.MaxAttempts = 2; s.DeadRetention = time.Second })
	publish(t, h, numbered("short", 1)...)
	var m millrace.Message
	for _, reason := range []string{"lease_ended", "attempts"} {
		got, err := h.Queues().Lease(t.Context(), "short", millrace.LeaseOptions{Lease: millrace.MinLease, Wait: 20 * time.Second})
		if err != nil || len(got) != 1 {
			t.Fatalf("got %d messages, %v", len(got), err)
		}
		m = got[0]
		log.await(t, "queue", "short", "message", m.ID, "reason", reason)
	}
	log.await(t, "became", "gone", "queue", "short", "message", m.ID, "reason", "dead_retention")

	h.queue(t, "two", ":two:", func(s *millrace.QueueSpec) { s.MaxLength = 2; s.Overflow = millrace.OverflowDropOldest })
	first := publish(t, h, numbered("two", 1)...)
	publish(t, h, numbered("two", 2)...)
	log.await(t, "became", "gone", "queue", "two", "message", millrace.MessageID(first[0].Seq), "reason", "max_length")
}

func logsWhatWasTakenAway(t *testing.T, h *house, log *logbook) {
	h.queue(t, "heap", ":heap:")
	publish(t, h, numbered("heap", 5)...)
	if _, err := h.Queues().Lease(t.Context(), "heap", millrace.LeaseOptions{Max: 2, Consumer: "me"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Queues().Release(t.Context(), "heap", "me"); err != nil {
		t.Fatal(err)
	}
	log.await(t, "queue", "heap", "consumer", "me", "count", "2", "reason", "release")
	if _, _, err := h.Queues().Purge(t.Context(), "heap", ""); err != nil {
		t.Fatal(err)
	}
	log.await(t, "became", "gone", "queue", "heap", "count", "5", "reason", "purge")
	publish(t, h, numbered("heap", 3)...)
	if err := h.Queues().Delete(t.Context(), "heap", false); err != nil {
		t.Fatal(err)
	}
	log.await(t, "became", "gone", "queue", "heap", "count", "3", "reason", "queue_deleted")
	publish(t, h, millrace.Event{ID: "later", Tenant: "acme", Topic: "heap", Type: "x", Delay: time.Hour})
	if err := h.CancelHeld(t.Context(), "acme", "later"); err != nil {
		t.Fatal(err)
	}
	log.await(t, "event", "later", "tenant", "acme", "reason", "cancelled")
}

func TestNoWayOutIsLoggedAboveDebug(t *testing.T) {
	logged(t, slog.LevelInfo, func(t *testing.T, h *house, log *logbook) {
		h.queue(t, "jobs", ":jobs:")
		publish(t, h, numbered("jobs", 3)...)
		ack(t, h, "jobs", leaseAll(t, h, "jobs", 1)...)
		if _, _, err := h.Queues().Purge(t.Context(), "jobs", ""); err != nil {
			t.Fatal(err)
		}
		if n := log.count("queue", "jobs"); n > 0 {
			t.Errorf("got %d lines about the queue, want none: %v", n, log.lines)
		}
	})
}

// numbered are events of one topic; they share no ids with other calls.
func numbered(topic string, n int) []millrace.Event {
	events := make([]millrace.Event, n)
	for i := range events {
		events[i] = millrace.Event{Tenant: "acme", Topic: topic, Type: fmt.Sprint("n", i)}
	}
	return events
}

// count is the number of lines with an attribute.
func (b *logbook) count(key, value string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, line := range b.lines {
		if line[key] == value {
			n++
		}
	}
	return n
}
