package redis_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// onlyTag is the hash tag of the lane of a store that has one.
const onlyTag = "712"

// follow watches a store and returns what it shows.
func follow(t *testing.T, e *redis.Engine) <-chan millrace.LiveEvent {
	t.Helper()
	shown := make(chan millrace.LiveEvent, 1000)
	stop, err := e.Live(t.Context(), func(e millrace.LiveEvent) { shown <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return shown
}

// next is what is shown next.
func next(t *testing.T, shown <-chan millrace.LiveEvent) millrace.LiveEvent {
	t.Helper()
	select {
	case e := <-shown:
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is shown")
		return millrace.LiveEvent{}
	}
}

func publishOne(t *testing.T, e *redis.Engine, lane int, body string) {
	t.Helper()
	if _, err := e.Publish(t.Context(), lane, commitOf("acme", body)); err != nil {
		t.Fatal(err)
	}
}

func TestANodeIsShownWhatAnotherPublishes(t *testing.T) {
	for name, url := range map[string]string{"one": redistest.Single(t).URL(), "cluster": redistest.Cluster(t, 3).URL()} {
		t.Run(name, func(t *testing.T) {
			doer := withQueue(t, opened(t, url, millrace.EngineOptions{Lanes: 4}))
			first, second := follow(t, opened(t, url, millrace.EngineOptions{})), follow(t, opened(t, url, millrace.EngineOptions{}))
			for lane := range 4 {
				publishOne(t, doer, lane, "x")
				for _, shown := range []<-chan millrace.LiveEvent{first, second} {
					if e := next(t, shown); e.Lane != lane || string(e.Body) != "x" {
						t.Errorf("got %+v", e)
					}
				}
			}
		})
	}
}

func TestAWatchWhoseConnectionBreaksSaysThatItLostSomething(t *testing.T) {
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	shown := follow(t, e)
	publishOne(t, e, 0, "before")
	if got := next(t, shown); string(got.Body) != "before" {
		t.Fatalf("got %+v", got)
	}
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	if got := next(t, shown); !got.Lost || got.Lane != 0 {
		t.Fatalf("got %+v, want a loss", got)
	}
	publishOne(t, e, 0, "after")
	if got := next(t, shown); string(got.Body) != "after" {
		t.Errorf("got %+v", got)
	}
}

func TestALaneThatMovedIsShownAgain(t *testing.T) {
	c := redistest.Cluster(t, 3)
	e := withQueue(t, opened(t, c.URL(), millrace.EngineOptions{Lanes: 1}))
	shown := follow(t, e)
	const slot = 32*256 + 128
	c.MoveSlot(slot, (c.Owner(slot)+1)%3)
	if got := next(t, shown); !got.Lost {
		t.Fatalf("got %+v, want a loss", got)
	}
	publishOne(t, e, 0, "after")
	if got := next(t, shown); string(got.Body) != "after" {
		t.Errorf("got %+v", got)
	}
}

func TestALaneThatNobodyWatchesAnyMoreIsNotShown(t *testing.T) {
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	marked := func() bool { return s.Do("HEXISTS", "millrace:{"+onlyTag+"}", "live") == "1" }
	stop, err := e.Live(t.Context(), func(millrace.LiveEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	publishOne(t, e, 0, "x")
	if !marked() {
		t.Fatal("the lane is not marked as watched")
	}
	stop()
	for until := time.Now().Add(20 * time.Second); marked(); { // until the server has noticed that the connection is closed
		publishOne(t, e, 0, "x")
		if time.Now().After(until) {
			t.Fatal("the lane stays marked as watched")
		}
	}
}

func TestAUserWithoutTheChannelsCannotWatchAndIsTold(t *testing.T) {
	s := redistest.Single(t)
	s.Do("ACL", "SETUSER", "app", "on", ">pw", "~millrace:*", "resetchannels", "+@all")
	url := strings.Replace(s.URL(), "redis://", "redis://app:pw@", 1)
	var log bytes.Buffer
	e := withQueue(t, opened(t, url, millrace.EngineOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	if !strings.Contains(log.String(), "PUBLISH") {
		t.Errorf("the log does not say that events are not published: %s", &log)
	}
	if stop, err := e.Live(t.Context(), func(millrace.LiveEvent) {}); err == nil {
		stop()
		t.Error("the watch stands")
	}
	publishOne(t, e, 0, "x")
}
