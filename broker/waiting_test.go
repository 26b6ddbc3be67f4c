package broker

import (
	"fmt"
	"testing"
)

func woken(w *waiter) bool {
	select {
	case <-w.woken:
		return true
	default:
		return false
	}
}

func TestAHintWakesOneWaiterInTheOrderTheyCame(t *testing.T) {
	r := newWaitingRoom(1)
	first, second := r.enter("q"), r.enter("q")
	r.hint("q", 0)
	if !woken(first) || woken(second) {
		t.Error("the first one alone should be awake")
	}
	r.leave(first, true)
	if !woken(second) {
		t.Error("a waiter that says there is more wakes the next")
	}
}

func TestAWakeUpThatIsNotUsedGoesToTheNext(t *testing.T) {
	r := newWaitingRoom(1)
	first, second := r.enter("q"), r.enter("q")
	r.hint("q", 0)
	r.leave(first, false) // it gave up without looking
	if !woken(second) {
		t.Error("the wake-up is lost")
	}
}

func TestALaneThatWasFoundEmptyIsNotLookedAtUntilAHint(t *testing.T) {
	r := newWaitingRoom(2)
	for range 2 {
		for _, v := range r.plan("q", 1) {
			r.learn("q", v, 0, 0)
		}
	}
	if got := r.plan("q", 1); len(got) != 0 {
		t.Fatalf("got %v, want no visit", got)
	}
	r.hint("q", 1)
	if got := r.plan("q", 1); len(got) != 1 || got[0].lane != 1 {
		t.Errorf("got %v, want a visit to lane 1", got)
	}
}

func TestAnAnswerOlderThanAHintDoesNotProveALaneEmpty(t *testing.T) {
	r := newWaitingRoom(1)
	v := r.plan("q", 1)[0]
	r.hint("q", 0) // comes while the lease is under way
	r.learn("q", v, 0, 0)
	if got := r.plan("q", 1); len(got) != 1 {
		t.Error("the hint is lost")
	}
}

func TestAScanWakesOnlyWhereNoHintWillTell(t *testing.T) {
	r := newWaitingRoom(1)
	told, missed, unlooked := r.enter("told"), r.enter("missed"), r.enter("unlooked")
	for _, uid := range []string{"told", "missed"} {
		r.learn(uid, r.plan(uid, 1)[0], 0, 0)
	}
	r.makeUp(0, []string{"told", "another"})
	if woken(told) {
		t.Error("a hint will tell of this queue: there is nothing to look at")
	}
	if !woken(missed) || len(r.plan("missed", 1)) != 1 {
		t.Error("the hint of this queue was lost: somebody should look")
	}
	if !woken(unlooked) {
		t.Error("nobody knows whether this queue has messages: somebody should look")
	}
}

func TestAScanThatIsNotAnsweredWakesOneOfEachQueue(t *testing.T) {
	r := newWaitingRoom(1)
	first, second := r.enter("q"), r.enter("q")
	r.learn("q", r.plan("q", 1)[0], 0, 0)
	r.makeUp(0, nil)
	if !woken(first) || woken(second) {
		t.Error("the first one alone should be awake")
	}
}

func TestForgettingAQueueDoesNotLoseAHint(t *testing.T) {
	r := newWaitingRoom(1)
	v := r.plan("q", 1)[0]
	r.hint("q", 0)
	r.forgetIdle()
	r.learn("q", v, 0, 0)
	if got := r.plan("q", 1); len(got) != 1 {
		t.Error("the hint is lost")
	}
}

func TestLanesGetTurnsInProportionToTheirTenants(t *testing.T) {
	tenants := []int{10, 30, 60}
	for _, size := range []int{1, 7, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newWaitingRoom(3)
			turns := make([]int, 3)
			total := 0
			for total < 10000 {
				visits := r.plan("q", size)
				planned := 0
				for _, v := range visits {
					planned += v.max
					turns[v.lane] += v.max
					r.learn("q", v, v.max, tenants[v.lane])
				}
				if planned != size {
					t.Fatalf("planned %d, want %d", planned, size)
				}
				total += planned
			}
			for lane, n := range tenants {
				want := total * n / 100
				if got := turns[lane]; got < want*95/100 || got > want*105/100 {
					t.Errorf("lane %d: got %d turns, want about %d", lane, got, want)
				}
			}
		})
	}
}

func TestALaneThatComesBackDoesNotCatchUp(t *testing.T) {
	r := newWaitingRoom(2)
	for _, v := range r.plan("q", 10) {
		if v.lane == 0 {
			r.learn("q", v, 0, 0)
		} else {
			r.learn("q", v, v.max, 5)
		}
	}
	for range 1000 {
		for _, v := range r.plan("q", 1) {
			r.learn("q", v, v.max, 5)
		}
	}
	r.hint("q", 0)
	turns := map[int]int{}
	for range 100 {
		for _, v := range r.plan("q", 1) {
			turns[v.lane]++
			r.learn("q", v, v.max, 5)
		}
	}
	if turns[1] < 40 {
		t.Errorf("got %v: the lane that was empty takes turns it did not need", turns)
	}
}

func TestClosingWakesEverybody(t *testing.T) {
	r := newWaitingRoom(1)
	a, b := r.enter("q"), r.enter("p")
	r.close()
	if !woken(a) || !woken(b) || !woken(r.enter("q")) {
		t.Error("somebody sleeps on")
	}
}
