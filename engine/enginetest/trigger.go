package enginetest

import (
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func triggerPromises() []promise {
	return []promise{
		{"FiringsAreCounted", firingsCounted},
		{"NoMoreThanTheLimitFireInAMinute", firingsLimited},
		{"FiringsWithoutALimitCountForALaterOne", firingsCountForALimit},
		{"OfManyWhoFireAtOnceTheLimitDo", firingsAtOnce},
		{"ARemovedTriggerDoesNotFire", firingsOfRemoved},
		{"FiringsAreThereAfterAReopen", firingsReopened},
	}
}

const triggerUID = "00000000000000f1"

func (r *rig) fire(lane int, uid string, perMinute int) millrace.Fired {
	r.Helper()
	done, err := r.Fire(r.ctx(), lane, millrace.Fire{Now: r.now, UID: uid, PerMinute: perMinute})
	r.ok(err)
	return done
}

func (r *rig) firings(lane int, uid string) millrace.Fired {
	r.Helper()
	done, err := r.Fired(r.ctx(), lane, uid)
	r.ok(err)
	return done
}

func firingsCounted(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		r.same("never fired", r.firings(lane, triggerUID), millrace.Fired{})
		for n := range int64(3) {
			r.pass(time.Second)
			want := millrace.Fired{Count: n + 1, LastAt: r.now}
			r.same("fired", r.fire(lane, triggerUID, 0), want)
			r.same("read", r.firings(lane, triggerUID), want)
		}
		r.same("another", r.firings(lane, "00000000000000f2"), millrace.Fired{})
		r.same("another fires", r.fire(lane, "00000000000000f2", 1).Count, int64(1))
		r.same("still", r.firings(lane, triggerUID).Count, int64(3))
	})
}

func firingsLimited(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		r.wholeMinute()
		for range 2 {
			r.pass(time.Second)
			r.same("within the limit", r.fire(lane, triggerUID, 2).Refused, false)
		}
		last := millrace.Fired{Count: 2, LastAt: r.now}
		refused := last
		refused.Refused = true
		for _, left := range []time.Duration{58 * time.Second, 20 * time.Second, time.Millisecond} {
			r.now = r.now.Truncate(time.Minute).Add(time.Minute - left)
			refused.Retry = left
			r.same("refused", r.fire(lane, triggerUID, 2), refused)
			r.same("read", r.firings(lane, triggerUID), last)
		}
		r.same("a higher limit", r.fire(lane, triggerUID, 3).Refused, false)
		r.same("a lower limit", r.fire(lane, triggerUID, 1).Refused, true)
		r.pass(time.Millisecond)
		r.same("in the next minute", r.fire(lane, triggerUID, 1), millrace.Fired{Count: 4, LastAt: r.now})
		r.same("and no more", r.fire(lane, triggerUID, 1).Refused, true)
		r.pass(time.Hour)
		r.same("an hour later", r.fire(lane, triggerUID, 1).Refused, false)
	})
}

func firingsCountForALimit(t *testing.T, c Config) {
	r := open(t, c)
	r.wholeMinute()
	for range 3 {
		r.fire(0, triggerUID, 0)
	}
	r.same("refused", r.fire(0, triggerUID, 3).Refused, true)
	r.same("one more", r.fire(0, triggerUID, 4).Refused, false)
}

func firingsAtOnce(t *testing.T, c Config) {
	r := open(t, c)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fired := 0
	for range 20 {
		wg.Go(func() {
			done, err := r.Fire(r.ctx(), 0, millrace.Fire{Now: r.now, UID: triggerUID, PerMinute: 7})
			if err != nil {
				r.Errorf("fire: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !done.Refused {
				fired++
			}
		})
	}
	wg.Wait()
	r.same("fired", fired, 7)
	r.same("counted", r.firings(0, triggerUID).Count, int64(7))
}

func firingsOfRemoved(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) { r.fire(lane, triggerUID, 0) })
	r.remove(triggerUID)
	r.each(func(lane int) {
		for range 2 {
			_, err := r.Fire(r.ctx(), lane, millrace.Fire{Now: r.now, UID: triggerUID})
			r.refused(err, millrace.CodeNotFound)
			r.same("read", r.firings(lane, triggerUID), millrace.Fired{})
			r.sweepAll(lane)
		}
		r.same("another", r.fire(lane, "00000000000000f2", 1).Count, int64(1))
	})
}

func firingsReopened(t *testing.T, c Config) {
	r := open(t, c)
	r.wholeMinute()
	r.each(func(lane int) { r.fire(lane, triggerUID, 2) })
	r.reopen()
	r.each(func(lane int) {
		r.same("read", r.firings(lane, triggerUID), millrace.Fired{Count: 1, LastAt: r.now})
		r.same("the second", r.fire(lane, triggerUID, 2).Refused, false)
		r.same("the third", r.fire(lane, triggerUID, 2).Refused, true)
	})
}
