package millracetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/client"
	"github.com/millrace-dev/millrace/internal/importguard"
	"github.com/millrace-dev/millrace/millracetest"
	"github.com/millrace-dev/millrace/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItImportsOnlyWhatItMay(t *testing.T) {
	importguard.Check(t, ".", "broker", "httpapi")
}

// consume runs a worker over a queue until everything in it is settled.
func consume(t *testing.T, b millrace.Backbone, handle worker.Handler) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- worker.Consume(ctx, b, "emails", handle, worker.Options{}) }()
	millracetest.WaitSettled(t, b, "emails")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAProgramCanBeTestedOverTheLibraryAndOverHTTP(t *testing.T) {
	library := func(t *testing.T) millrace.Backbone { return millracetest.New(t) }
	overHTTP := func(t *testing.T) millrace.Backbone {
		c, err := client.New(millracetest.Serve(t, millracetest.New(t)), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	for name, open := range map[string]func(*testing.T) millrace.Backbone{"library": library, "HTTP": overHTTP} {
		t.Run(name, func(t *testing.T) {
			backbone := open(t) // one each: a poll whose consumer has just stopped may still take a message
			millracetest.Queue(t, backbone, "emails", ":orders:")
			event := millrace.Event{Topic: "orders", Type: "created", Data: []byte(`{}`)}
			if _, err := backbone.Publish(t.Context(), event, event, event); err != nil {
				t.Fatal(err)
			}
			var handled atomic.Int32
			consume(t, backbone, func(context.Context, millrace.Message) error { handled.Add(1); return nil })
			if n := handled.Load(); n != 3 {
				t.Errorf("handled %d messages, want 3", n)
			}
		})
	}
}

func TestADeadLetterIsSettled(t *testing.T) {
	b := millracetest.New(t)
	millracetest.Queue(t, b, "emails", ":orders:")
	if _, err := b.Publish(t.Context(), millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	consume(t, b, func(context.Context, millrace.Message) error { return worker.Bury(errors.New("boom")) })
	q, err := b.Queues().Get(t.Context(), "emails")
	if err != nil || q.Dead != 1 {
		t.Errorf("queue %+v, error %v; want one dead letter", q.QueueCounts, err)
	}
}

func TestBackbonesDoNotSeeEachOther(t *testing.T) {
	one, other := millracetest.New(t), millracetest.New(t)
	millracetest.Queue(t, one, "emails", ":orders:")
	if _, err := other.Queues().Get(t.Context(), "emails"); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("the other backbone answers %v, want not found", err)
	}
}
