package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestAnInjectionOfWhichOneLaneFailsSaysWhichEventsAreIn(t *testing.T) {
	e := openMemory(t, 2)
	b := start(t, e)
	define(t, b, "all", ".")
	keys := keysOf(2)
	var events []millrace.Event
	for i, key := range []string{keys[0], keys[1], keys[0]} {
		event := keyed(key)
		event.Seq, event.Time, event.RecordedAt = uint64(41+i), time.Now(), time.Now()
		events = append(events, event)
	}
	e.refuse[1] = millrace.Errorf(millrace.CodeUnavailable, "down")
	n, err := b.Queues().Inject(t.Context(), "all", events...)
	var partly *millrace.Error
	if !errors.As(err, &partly) || partly.Code != millrace.CodePartlyCommitted || n != 2 {
		t.Fatalf("got %d, %v", n, err)
	}
	for i, in := range []bool{true, false, true} {
		if got := partly.Events[i]; (got.Err == nil) != in || (got.Seq == events[i].Seq) != in {
			t.Errorf("event %d: got %+v", i, got)
		}
	}
	e.refuse[0] = e.refuse[1]
	if n, err := b.Queues().Inject(t.Context(), "all", events...); n != 0 || millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %d, %v; want none and why", n, err)
	}
	if q, err := b.Queues().Get(t.Context(), "all"); err != nil || q.Ready != 2 {
		t.Errorf("got %d messages, %v; want 2", q.Ready, err)
	}
}

func TestAnInjectionIntoASubscriptionSaysThatItIsOne(t *testing.T) {
	e := openMemory(t, 2)
	b := start(t, e)
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics, spec.Timeout = []string{"orders"}, time.Hour
	if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); err != nil {
		t.Fatal(err)
	}
	e.refuse[1] = millrace.Errorf(millrace.CodeUnavailable, "down")
	var events []millrace.Event
	for i, key := range keysOf(2) {
		event := keyed(key)
		event.Seq, event.Time, event.RecordedAt = uint64(41+i), time.Now(), time.Now()
		events = append(events, event)
	}
	n, err := b.Subscriptions().Inject(t.Context(), "shop", events...)
	if n != 1 || millrace.CodeOf(err) != millrace.CodePartlyCommitted || !strings.Contains(err.Error(), "1 of 2 events are in the subscription") {
		t.Errorf("%d, %v", n, err)
	}
}
