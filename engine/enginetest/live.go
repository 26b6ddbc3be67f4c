package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func livePromises() []promise {
	return []promise{
		{"EveryEventIsShownOnceInTheOrderOfItsLane", shownInOrder},
		{"AnEventThatNobodyWantsIsShownToo", unroutedIsShown},
		{"ADuplicateIsNotShown", duplicateIsNotShown},
		{"WhatIsRefusedIsNotShown", refusedIsNotShown},
		{"ADelayedEventIsShownWhenItIsStamped", heldIsShownWhenStamped},
		{"WhatIsInjectedOrComesBackIsNotShown", injectedIsNotShown},
		{"AfterTheStopNothingIsShown", nothingAfterStop},
		{"AWatchCanBeginAgain", watchAgain},
		{"ALargeCommitIsShownWhole", largeIsShown},
		{"WhatManyPublishAtOnceIsShownInOrder", manyAreShown},
		{"ALiveWatchEndsWithItsEngine", watchEndsWithEngine},
	}
}

// screen is what a watch has shown.
type screen struct {
	mu    sync.Mutex
	lanes [][]millrace.LiveEvent
	lost  int
	stop  func()
}

// view begins to watch; the watch ends with the test at the latest.
func (r *rig) view(e millrace.Engine) *screen {
	r.Helper()
	s := &screen{lanes: make([][]millrace.LiveEvent, r.config.Lanes)}
	var err error
	s.stop, err = e.Live(r.ctx(), s.show)
	r.ok(err)
	return s
}

func (s *screen) show(e millrace.LiveEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Lost {
		s.lost++
		return
	}
	s.lanes[e.Lane] = append(s.lanes[e.Lane], e)
}

// count is how many events were shown.
func (s *screen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range s.lanes {
		n += len(l)
	}
	return n
}

// shown is what was shown of a lane.
func (s *screen) shown(lane int) []millrace.LiveEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lanes[lane])
}

// names are the bodies that were shown of a lane.
func (s *screen) names(lane int) []string {
	names := []string{}
	for _, e := range s.shown(lane) {
		names = append(names, string(e.Body))
	}
	return names
}

// shows fails unless a lane has shown these bodies, and nothing else. A last event
// says when all before it must have been shown.
func (r *rig) shows(s *screen, lane int, want ...string) {
	r.Helper()
	r.publish(lane, event("last", "last"))
	want = append(want, "last")
	r.waitFor("the last event of a lane", func() bool {
		names := s.names(lane)
		return len(names) > 0 && names[len(names)-1] == "last"
	})
	r.same("shown", s.names(lane), want)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[lane] = nil
	r.same("lost", s.lost, 0)
}

func shownInOrder(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), r.queue(0)
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		var want []millrace.LiveEvent
		prev := uint64(0)
		for i := range 20 {
			body := fmt.Sprint(lane, " ", i)
			stamps := r.publish(lane, keyed(event("a", body, q, other), "k"), event("b", "\x00\xff"+body, q))
			want = append(want,
				millrace.LiveEvent{Lane: lane, Seq: stamps[0].Seq, Prev: prev, RecordedAt: r.now, Body: []byte(body)},
				millrace.LiveEvent{Lane: lane, Seq: stamps[1].Seq, RecordedAt: r.now, Body: []byte("\x00\xff" + body)})
			prev = stamps[0].Seq
			r.pass(time.Millisecond)
		}
		r.waitFor("events", func() bool { return len(s.shown(lane)) >= len(want) })
		r.same("shown", s.shown(lane), want)
	})
}

func unroutedIsShown(t *testing.T, c Config) {
	r := open(t, c)
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		r.publish(lane, event("a", "nowhere"), event("b", ""))
		r.shows(s, lane, "nowhere", "")
	})
}

func duplicateIsNotShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		r.publish(lane, known(event("a", "first", q), "1"), known(event("a", "second", q), "1"), known(event("a", "other", q), "2"))
		r.publish(lane, known(event("a", "third", q), "1"), known(event("a", "fourth"), "2"))
		r.shows(s, lane, "first", "other")
	})
}

func refusedIsNotShown(t *testing.T, c Config) {
	r := open(t, c)
	q, short := r.queue(0), r.queueOf(millrace.QueueSettings{MaxLength: 1})
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		_, err := r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version - 1, Events: []millrace.CommitEvent{event("a", "stale", q)}})
		r.refused(err, millrace.CodeStale)
		_, err = r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{event("a", "unknown", "ffffffffffffffff")}})
		r.refused(err, millrace.CodeStale)
		r.full(lane, short, event("a", "one", short), event("a", "too many", short))
		r.shows(s, lane)
	})
}

func heldIsShownWhenStamped(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		r.publish(lane, delayedEvent("a", "late", time.Minute), delayedEvent("a", "taken back", time.Minute))
		r.shows(s, lane)
		h := r.heldEvent(lane, "a", "late")
		r.ok(r.CancelHeld(r.ctx(), lane, "a", "taken back"))
		r.pass(time.Minute)
		r.same("due", len(r.step(lane).Events), 1)
		r.shows(s, lane)
		r.publish(lane, from(h, "a", q), from(h, "a", q))
		r.shows(s, lane, "late")
	})
}

func injectedIsNotShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(1)
	s := r.view(r)
	defer s.stop()
	r.each(func(lane int) {
		r.inject(lane, q, injected("a", "x", 7))
		h := r.leased(lane, q, 1)
		r.settled(lane, q, millrace.Retry, h.items()...)
		_, _, err := r.Redrive(r.ctx(), lane, millrace.DeadOf{Queue: q, All: true, Max: 9})
		r.ok(err)
		r.shows(s, lane)
	})
}

func nothingAfterStop(t *testing.T, c Config) {
	r := open(t, c)
	s := r.view(r)
	r.each(func(lane int) { r.shows(s, lane) })
	s.stop()
	s.stop()
	r.each(func(lane int) { r.publish(lane, event("a", "unseen")) })
	again := r.view(r)
	defer again.stop()
	r.each(func(lane int) { r.shows(again, lane) })
	r.same("shown after the stop", s.count(), 0)
}

func watchAgain(t *testing.T, c Config) {
	r := open(t, c)
	for i := range 3 {
		s := r.view(r)
		r.each(func(lane int) {
			r.publish(lane, event("a", fmt.Sprint(i)))
			r.shows(s, lane, fmt.Sprint(i))
		})
		s.stop()
		r.each(func(lane int) { r.publish(lane, event("a", "between")) })
	}
}

func largeIsShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.view(r)
	defer s.stop()
	var events []millrace.CommitEvent
	var want []string
	for i := range 1000 {
		body := fmt.Sprint(i, strings.Repeat("x", 500*(i%3)))
		if i == 700 {
			body = strings.Repeat("y", millrace.MaxEventSize)
		}
		events, want = append(events, event("a", body, q)), append(want, body)
	}
	r.publish(0, events...)
	r.shows(s, 0, want...)
}

func manyAreShown(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.view(r)
	defer s.stop()
	const publishers, commits = 8, 40
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range commits {
				lane := (p + i) % c.Lanes
				_, err := r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{event("a", "x", q), event("b", "y")}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.waitFor("all events", func() bool { return s.count() >= 2*publishers*commits })
	r.same("count", s.count(), 2*publishers*commits)
	r.each(func(lane int) {
		for i, e := range s.shown(lane)[1:] {
			if before := s.shown(lane)[i]; e.Seq <= before.Seq {
				t.Fatalf("lane %d shows %d after %d", lane, e.Seq, before.Seq)
			}
		}
	})
}

func watchEndsWithEngine(t *testing.T, c Config) {
	r := open(t, c)
	s := r.view(r)
	r.reopen()
	again := r.view(r)
	defer again.stop()
	r.each(func(lane int) { r.shows(again, lane) })
	s.stop()
	r.same("shown after the end", s.count(), 0)
	r.each(func(lane int) { r.shows(again, lane) })
	r.ok(r.Close())
	_, err := r.Live(r.ctx(), func(millrace.LiveEvent) {})
	r.refused(err, millrace.CodeUnavailable)
	r.Engine = r.opened()
}
