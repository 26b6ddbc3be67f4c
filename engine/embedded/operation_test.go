package embedded_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
)

// trackedQueue opens a store in a directory with one tracked queue.
func trackedQueue(t *testing.T, dir string) *embedded.Engine {
	t.Helper()
	e := openAt(t, dir)
	defineAs(t, e, millrace.QueueSettings{UID: benchTracked, Version: 1, MaxAttempts: 3, Tracked: true, Retention: time.Hour, ErrorRetention: 2 * time.Hour})
	return e
}

func TestOperationsThatHaveFinishedCostNoMemory(t *testing.T) {
	dir := t.TempDir()
	e := trackedQueue(t, dir)
	for range 30 {
		if err := trackingTrip(e, 0, benchTracked, 100, true); err != nil {
			t.Fatal(err)
		}
	}
	most := 8 // the minutes in which they expire, of which some have just been written
	if n := e.OperationsInMemory(); n > most {
		t.Errorf("the index holds %d entries for 3,000 finished operations, want %d at most", n, most)
	}
	closed(t, e)
	e = trackedQueue(t, dir)
	defer closed(t, e)
	if n := e.OperationsInMemory(); n > 1 {
		t.Errorf("after opening the index holds %d entries for 3,000 finished operations, want 1", n)
	}
	if err := e.Check(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestThePagesOfASubjectHoldEachOperationOnce(t *testing.T) {
	e := trackedQueue(t, t.TempDir())
	defer closed(t, e)
	const all = 20_000
	for from := 0; from < all; from += 1000 {
		c := millrace.Commit{Version: 1}
		for i := range 1000 {
			o := millrace.Opening{Queue: benchTracked, Name: "q", Type: "job", Subject: "busy", Event: fmt.Sprint(from + i)}
			c.Events = append(c.Events, millrace.CommitEvent{
				Tenant: "t", Topic: "x", Body: []byte("b"), Queues: []string{benchTracked}, Operations: []millrace.Opening{o},
			})
		}
		if _, err := e.Publish(context.Background(), 0, c); err != nil {
			t.Fatal(err)
		}
	}
	seen, before, pages := 0, uint64(0), 0
	for ; pages == 0 || before != 0; pages++ {
		list, next, err := e.ListOperations(context.Background(), 0, millrace.OperationPage{Subject: "busy", Before: before, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range list {
			if want := fmt.Sprint(all - 1 - seen - i); o.Event != want {
				t.Fatalf("operation %d of page %d is of event %s, want %s", i, pages, o.Event, want)
			}
		}
		seen, before = seen+len(list), next
	}
	if seen != all || pages != all/100 {
		t.Errorf("%d operations on %d pages, want %d on %d", seen, pages, all, all/100)
	}
}
