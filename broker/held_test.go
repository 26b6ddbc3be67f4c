package broker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/enginetest"
)

// picky is an engine that counts commits and refuses those that its rule refuses.
type picky struct {
	millrace.Engine
	commits int
	refuses func(c *millrace.Commit) error
}

func (e *picky) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	e.commits++
	if err := e.refuses(&c); err != nil {
		return millrace.Committed{}, err
	}
	return e.Engine.Publish(ctx, lane, c)
}

// dueEvents holds events in a lane and returns them as a step hands them out.
func dueEvents(t *testing.T, b *Broker, e *picky, bodies ...[]byte) []millrace.HeldEvent {
	t.Helper()
	c := millrace.Commit{Version: b.registry.now().version}
	for i, body := range bodies {
		c.Events = append(c.Events, millrace.CommitEvent{
			Tenant: "acme", Topic: "orders", ID: fmt.Sprint(i), Body: body, Delay: time.Millisecond,
		})
	}
	if _, err := e.Engine.Publish(t.Context(), 0, c); err != nil {
		t.Fatal(err)
	}
	stepped, err := e.Step(t.Context(), 0, time.Now().Add(time.Second), 100)
	if err != nil || len(stepped.Events) != len(bodies) {
		t.Fatalf("%d are due, %v", len(stepped.Events), err)
	}
	return stepped.Events
}

func heldBody(id string) []byte {
	return millrace.AppendEvent(nil, &millrace.Event{ID: id, Tenant: "acme", Topic: "orders", Type: "created", Time: time.Now()})
}

// webOnly starts a broker without a reaper that would interfere.
func webOnly(t *testing.T, e millrace.Engine) *Broker {
	t.Helper()
	b, err := New(t.Context(), e, Options{Roles: []string{RoleWeb}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func stillHeld(t *testing.T, e millrace.Engine) int64 {
	t.Helper()
	s, err := e.LaneStats(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Held
}

func TestADelayedEventThatCannotBeReadStaysHeld(t *testing.T) {
	e := &picky{Engine: enginetest.NewModel(1, time.Now), refuses: func(*millrace.Commit) error { return nil }}
	b := webOnly(t, e)
	define(t, b, "all", ".")
	b.deliverHeld(t.Context(), 0, dueEvents(t, b, e, heldBody("good"), []byte("\xff\xffspoiled")))
	if n := stillHeld(t, e); n != 1 {
		t.Errorf("%d are held, want the one that cannot be read", n)
	}
	q, err := b.Queues().Get(t.Context(), "all")
	if err != nil || q.Ready != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestOneFullQueueDoesNotHoldUpOtherDelayedEvents(t *testing.T) {
	e := &picky{Engine: enginetest.NewModel(1, time.Now)}
	b := webOnly(t, e)
	due := dueEvents(t, b, e, heldBody("a"), heldBody("b"), heldBody("c"))
	e.refuses = func(c *millrace.Commit) error {
		for _, event := range c.Events {
			if event.From == due[1].Name {
				return millrace.Errorf(millrace.CodeFull, "no room")
			}
		}
		return nil
	}
	b.deliverHeld(t.Context(), 0, due)
	if n := stillHeld(t, e); n != 1 || b.refused.Load() != 1 {
		t.Errorf("%d are held and %d refused, want 1", n, b.refused.Load())
	}
}

func TestAStoreThatIsDownIsNotAskedForEachDelayedEvent(t *testing.T) {
	e := &picky{Engine: enginetest.NewModel(1, time.Now)}
	b := webOnly(t, e)
	due := dueEvents(t, b, e, heldBody("a"), heldBody("b"), heldBody("c"))
	e.refuses = func(*millrace.Commit) error { return millrace.Errorf(millrace.CodeUnavailable, "down") }
	b.deliverHeld(t.Context(), 0, due)
	if e.commits != 1 || stillHeld(t, e) != 3 || b.refused.Load() != 3 {
		t.Errorf("%d commits, %d held, %d refused; want 1, 3 and 3", e.commits, stillHeld(t, e), b.refused.Load())
	}
}
