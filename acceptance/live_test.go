package acceptance

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

// watch begins to watch, until the test ends, and returns what goes by, one by one.
func watch(t *testing.T, b millrace.Backbone, f millrace.LiveFilter) func() millrace.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	seq, err := b.Live(ctx, f)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	next, stop := iter.Pull2(seq)
	t.Cleanup(func() { cancel(); stop() })
	return func() millrace.Event {
		t.Helper()
		item, err, ok := next()
		if err != nil || !ok || item.Missed > 0 {
			t.Fatalf("got %+v %v %v", item, err, ok)
		}
		return item.Event
	}
}

func TestAWatcherSeesEveryEventOnceAndInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		h.queue(t, "some", "^acme:")
		publish(t, h, order("acme", "a", 0))
		next := watch(t, h, millrace.LiveFilter{})
		var events []millrace.Event
		for n := 1; n <= 20; n++ {
			events = append(events, order("acme", "a", n), order("nobody", "a", n))
		}
		done := publish(t, h, events...)
		publish(t, h, events...) // duplicates: nothing goes by
		seen := map[string]millrace.Event{}
		last := map[string]uint64{}
		for range events {
			e := next()
			if e.Prev != last[e.Tenant] && last[e.Tenant] != 0 || seen[e.ID].ID != "" {
				t.Fatalf("got %+v after %d", e, last[e.Tenant])
			}
			seen[e.ID], last[e.Tenant] = e, e.Seq
		}
		for i, want := range events {
			got := seen[want.ID]
			want.Seq, want.Prev, want.ContentType, want.Time, want.RecordedAt = done[i].Seq, done[i].Prev, millrace.JSONContentType, got.Time, got.RecordedAt
			if diff := cmp.Diff(want, got); diff != "" || got.RecordedAt.IsZero() {
				t.Errorf("an event differs (-want +got):\n%s", diff)
			}
		}
		publish(t, h, order("last", "k", 1))
		if e := next(); e.Tenant != "last" {
			t.Errorf("got %+v, want nothing more", e)
		}
	})
}

func TestAWatcherSeesADelayedEventWhenItIsDue(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		next := watch(t, h, millrace.LiveFilter{Match: ":orders:", Tenant: "acme"})
		late := order("acme", "a", 1)
		late.Delay = 50 * time.Millisecond
		publish(t, h, order("other", "a", 1), late)
		if e := next(); e.ID != late.ID || e.Seq == 0 || e.RecordedAt.IsZero() {
			t.Errorf("got %+v", e)
		}
	})
}

func TestAWatcherSeesWhatAnotherNodePublishes(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		if h.store[:5] != "redis" {
			t.Skip("an embedded store has one node")
		}
		next := watch(t, h, millrace.LiveFilter{Key: "mine"})
		other := h.open(t)
		publish(t, other, order("acme", "theirs", 1), order("acme", "mine", 1))
		if e := next(); e.Key != "mine" {
			t.Errorf("got %+v", e)
		}
	})
}
