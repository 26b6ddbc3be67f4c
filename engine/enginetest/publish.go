package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func publishPromises() []promise {
	return []promise{
		{"AnEventIsInAllOfItsQueues", inAllOfItsQueues},
		{"TheEventsOfACommitAreStoredInTheirOrder", storedInOrder},
		{"SeqIsAHybridClock", seqIsAHybridClock},
		{"SeqNamesItsLane", seqNamesItsLane},
		{"PrevIsTheKeysLastSeq", prevIsLast},
		{"KeysAreTheTenantsOwn", keysAreTheTenantsOwn},
		{"AKnownIdIsAnsweredWithTheFirstStamp", knownIDIsDuplicate},
		{"TheSecondOfOneIdInACommitIsTheDuplicate", duplicateInACommit},
		{"AnIdIsRememberedForTheWindow", rememberedForTheWindow},
		{"AnIdIsForgottenAfterThreeWindows", forgottenAfterThreeWindows},
		{"AnIdThatNobodyGaveIsNotRemembered", unrememberedID},
		{"ADuplicateIsKnownAfterItsMessageIsGone", duplicateAfterAck},
		{"ADuplicateGivesItsTenantNoPlaceInTheRing", duplicateTakesNoPlace},
		{"ACommitWithAnOlderRegistryIsStaleAndStoresNothing", olderIsStale},
		{"ACommitWithANewerRegistryLiftsTheLane", newerLifts},
		{"ACommitToAnUnknownQueueIsStaleAndStoresNothing", unknownQueueIsStale},
		{"AnEventThatNobodyWantsIsStampedAndStoredNowhere", unroutedIsStamped},
		{"ABodyComesBackByteForByte", bodyComesBack},
		{"AnyTextCanBeAKey", anyTextIsAKey},
		{"ACommitMayHoldManyEventsForManyQueues", manyEventsManyQueues},
		{"CallsOfManyGoroutinesKeepTheirOwnOutcome", ownOutcome},
		{"OfManyWhoPublishOneIdAtOnceOneStoresIt", oneStores},
		{"ASpanOfConcurrentCommitsChainsWithoutAGap", chainsWithoutAGap},
	}
}

func inAllOfItsQueues(t *testing.T, c Config) {
	r := open(t, c)
	one, two, three := r.queue(0), r.queue(0), r.queue(0)
	r.each(func(lane int) {
		s := r.publish(lane, event("a", "both", one, two), event("b", "one", one))
		r.same("sinks", []int{s[0].Sinks, s[1].Sinks}, []int{2, 1})
		r.counts(lane, one, 2, 0, 0, 0)
		r.counts(lane, two, 1, 0, 0, 0)
		r.counts(lane, three, 0, 0, 0, 0)
		h := r.leased(lane, two, 1)
		r.same("message", h.Messages[0], millrace.LeasedMessage{
			Name: s[0].Seq, Seq: s[0].Seq, RecordedAt: r.now, Tenant: "a", Attempt: 1, Body: []byte("both"),
		})
		r.settled(lane, two, millrace.Ack, h.items()...)
		r.same("the other queue", r.lease(lane, one, 5).names(), []string{"both", "one"})
	})
}

func storedInOrder(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	var events []millrace.CommitEvent
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprint(i))
		events = append(events, event("a", want[i], q))
	}
	stamps := r.publish(0, events...)
	for i := 1; i < len(stamps); i++ {
		if stamps[i].Seq <= stamps[i-1].Seq {
			t.Fatalf("seq %d follows %d", stamps[i].Seq, stamps[i-1].Seq)
		}
	}
	r.same("order", r.lease(0, q, 300).names(), want)
}

func seqIsAHybridClock(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		ms := uint64(r.now.UnixMilli()-millrace.SeqEpoch) * millrace.SeqPerMilli
		want := func(n uint64) uint64 { return (ms+n)*uint64(c.Lanes) + uint64(lane) }
		s := r.publish(lane, event("a", "1", q), event("a", "2", q))
		r.same("seqs", []uint64{s[0].Seq, s[1].Seq}, []uint64{want(0), want(1)})
		r.pass(-time.Second)
		r.same("seq when the clock goes back", r.publish(lane, event("a", "3", q))[0].Seq, want(2))
		r.pass(3 * time.Second)
		r.same("seq later", r.publish(lane, event("a", "4", q))[0].Seq, want(2000*millrace.SeqPerMilli))
	})
}

func seqNamesItsLane(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		for range 5 {
			seq := r.publish(lane, event("a", "1", q))[0].Seq
			r.same("lane", millrace.LaneOfSeq(seq, c.Lanes), lane)
		}
	})
}

func prevIsLast(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		k := func(key string) millrace.CommitEvent { return keyed(event("a", "x", q), key) }
		s := r.publish(lane, k("x"), k("y"), k("x"), k(""), k(""))
		r.same("prevs", prevs(s), []uint64{0, 0, s[0].Seq, 0, 0})
		next := r.publish(lane, k("y"), k("x"))
		r.same("prevs of the next", prevs(next), []uint64{s[1].Seq, s[2].Seq})
		h := r.leased(lane, q, 7)
		r.same("prev of a message", h.Messages[6].Prev, s[2].Seq)
	})
}

func prevs(stamps []millrace.Stamp) []uint64 {
	var p []uint64
	for _, s := range stamps {
		p = append(p, s.Prev)
	}
	return p
}

func keysAreTheTenantsOwn(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.publish(0,
		keyed(event("a", "1", q), "b"), keyed(event("ab", "2", q), "b"), keyed(event("a", "3", q), "bb"),
		keyed(event("a", "4", q), "b:b"), keyed(event("a.b", "5", q), "b"))
	r.same("prevs", prevs(s), make([]uint64, len(s)))
}

func knownIDIsDuplicate(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	r.each(func(lane int) {
		e := known(keyed(event("a", "1", one, two), "k"), "id")
		r.publish(lane, keyed(event("a", "0", one), "k"))
		first := r.publish(lane, e)[0]
		r.publish(lane, keyed(event("a", "2", one), "k"))
		r.pass(time.Second)
		again := r.publish(lane, event("b", "3", one), e)[1]
		want := first
		want.Duplicate = true
		r.same("stamp", again, want)
		r.counts(lane, one, 4, 0, 0, 0)
		r.counts(lane, two, 1, 0, 0, 0)
	})
}

func duplicateInACommit(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	s := r.publish(0, known(event("a", "1", q), "id"), event("b", "2", q), known(event("a", "1", q), "id"))
	r.same("duplicates", []bool{s[0].Duplicate, s[1].Duplicate, s[2].Duplicate}, []bool{false, false, true})
	r.same("seq", s[2].Seq, s[0].Seq)
	r.counts(0, q, 2, 0, 0, 0)
}

func rememberedForTheWindow(t *testing.T, c Config) {
	r := openWith(t, c, millrace.EngineOptions{DedupeWindow: minute})
	q := r.queue(0)
	for i := range 20 {
		// A window may begin at any moment before the event, and end at any after it.
		r.publish(0, known(event("c", "z", q), fmt.Sprint(i)))
		r.pass(time.Duration(3*i) * time.Second)
		e := known(event("a", "x", q), fmt.Sprint(i))
		first := r.publish(0, e)[0]
		r.pass(17 * time.Second)
		r.publish(0, known(event("b", "y", q), fmt.Sprint(i)))
		r.pass(43*time.Second - time.Millisecond)
		if i%5 == 0 {
			r.reopen()
		}
		again := r.publish(0, e)[0]
		r.same("duplicate", again.Duplicate, true)
		r.same("seq", again.Seq, first.Seq)
		r.pass(7 * time.Second)
	}
}

func forgottenAfterThreeWindows(t *testing.T, c Config) {
	r := openWith(t, c, millrace.EngineOptions{DedupeWindow: minute})
	q := r.queue(0)
	first := r.publish(0, known(event("a", "x", q), "id"))[0]
	for i := range 3 {
		r.pass(minute + time.Second)
		r.publish(0, known(event("a", "y", q), fmt.Sprint(i)))
	}
	again := r.publish(0, known(event("a", "x", q), "id"))[0]
	if again.Duplicate || again.Seq == first.Seq {
		t.Error("an id is still remembered after three windows")
	}
}

func unrememberedID(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	e := known(event("a", "1", q), "id")
	e.Remembered = false
	s := r.publish(0, e, e)
	r.same("duplicates", []bool{s[0].Duplicate, s[1].Duplicate}, []bool{false, false})
	r.same("duplicate of a later commit", r.publish(0, e)[0].Duplicate, false)
	e.Remembered = true
	r.same("duplicate of one that counts", r.publish(0, e)[0].Duplicate, false)
	r.counts(0, q, 4, 0, 0, 0)
}

func duplicateAfterAck(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	e := known(event("a", "1", q), "id")
	first := r.publish(0, e)[0]
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	again := r.publish(0, e)[0]
	r.same("duplicate", again.Duplicate, true)
	r.same("seq", again.Seq, first.Seq)
	r.counts(0, q, 0, 0, 0, 0)
}

func duplicateTakesNoPlace(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	gone := known(event("b", "b0", q), "id")
	r.publish(0, gone)
	r.settled(0, q, millrace.Ack, r.leased(0, q, 1).items()...)
	r.publish(0, gone, event("e", "e1", q), event("b", "b1", q))
	r.same("order", r.lease(0, q, 5).names(), []string{"e1", "b1"})
}

// refusedAsStale fails unless a commit is stale, names the version, and stores nothing.
func (r *rig) refusedAsStale(lane int, commit millrace.Commit, queue string, version uint64) {
	r.Helper()
	stats, lanes := r.stats(lane, queue), r.laneStats(lane)
	commit.Now = r.now
	_, err := r.Publish(r.ctx(), lane, commit)
	r.refused(err, millrace.CodeStale)
	var e *millrace.Error
	if errors.As(err, &e) {
		r.same("current version", e.CurrentVersion, version)
	}
	r.same("stats after a stale commit", r.stats(lane, queue), stats)
	r.same("lane stats after a stale commit", r.laneStats(lane), lanes)
}

func olderIsStale(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		e := known(event("a", "1", q), "id")
		r.refusedAsStale(lane, millrace.Commit{Version: r.version - 1, Events: []millrace.CommitEvent{e, event("b", "2")}}, q, r.version)
		r.same("the refused id", r.publish(lane, e)[0].Duplicate, false)
	})
}

func newerLifts(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.version += 3
	r.publish(0, event("a", "1", q))
	r.same("version", r.laneStats(0).Version, r.version)
	r.refusedAsStale(0, millrace.Commit{Version: r.version - 1, Events: []millrace.CommitEvent{event("a", "2", q)}}, q, r.version)
}

func unknownQueueIsStale(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	r.each(func(lane int) {
		e := known(event("a", "1", q), "id")
		half := event("a", "2", q, "00000000000000aa")
		r.refusedAsStale(lane, millrace.Commit{Version: r.version, Events: []millrace.CommitEvent{e, half}}, q, r.version)
		r.refusedAsStale(lane, millrace.Commit{Version: r.version + 2, Events: []millrace.CommitEvent{e, half}}, q, r.version)
		r.same("the refused id", r.publish(lane, e)[0].Duplicate, false)
	})
}

func unroutedIsStamped(t *testing.T, c Config) {
	r := open(t, c)
	first := r.publish(0, known(keyed(event("a", "1"), "k"), "id"))[0]
	r.same("sinks", first.Sinks, 0)
	s := r.publish(0, keyed(event("a", "2"), "k"), known(keyed(event("a", "1"), "k"), "id"))
	r.same("prev", s[0].Prev, first.Seq)
	r.same("duplicate", s[1].Duplicate, true)
}

func bodyComesBack(t *testing.T, c Config) {
	r := open(t, c)
	one, two := r.queue(0), r.queue(0)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := [][]byte{all, {}, {0}, []byte("\r\n$5\r\n"), bytes.Repeat(all, 1<<10)}
	for i, body := range bodies {
		e := event(fmt.Sprint(i), "", one, two)
		e.Body = bytes.Clone(body)
		r.publish(0, e)
	}
	for _, q := range []string{one, two} {
		h := r.leased(0, q, len(bodies))
		for i, m := range h.Messages {
			if !bytes.Equal(m.Body, bodies[i]) {
				t.Errorf("body %d came back changed: %d bytes, want %d", i, len(m.Body), len(bodies[i]))
			}
		}
		r.settled(0, q, millrace.Ack, h.items()...)
	}
}

func anyTextIsAKey(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	keys := []string{":", "{}", "a:b", "héllo", "日本", " ", "*", strings.Repeat("k", millrace.MaxKeyLen)}
	for _, key := range keys {
		first := r.publish(0, keyed(event("a", "1", q), key))[0]
		second := r.publish(0, keyed(event("a", "2", q), key))[0]
		r.same("prev", []uint64{first.Prev, second.Prev}, []uint64{0, first.Seq})
	}
}

func manyEventsManyQueues(t *testing.T, c Config) {
	r := open(t, c)
	var queues []string
	for range 10 {
		queues = append(queues, r.queue(0))
	}
	var events []millrace.CommitEvent
	for i := range 1000 {
		events = append(events, known(keyed(event(fmt.Sprint("t", i%50), "x", queues...), fmt.Sprint(i%100)), fmt.Sprint(i)))
	}
	r.publish(0, events...)
	for _, q := range queues {
		r.counts(0, q, 1000, 0, 0, 0)
	}
	for _, s := range r.publish(0, events...) {
		if !s.Duplicate {
			t.Fatal("an event of the commit was not remembered")
		}
	}
}

func ownOutcome(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 10 {
				version := r.version
				if (i+n)%4 == 0 {
					version--
				}
				e := known(event(fmt.Sprint("t", i), "x", q), fmt.Sprint(i, n))
				done, err := r.Publish(r.ctx(), 0, millrace.Commit{Now: r.now, Version: version, Events: []millrace.CommitEvent{e}})
				switch {
				case version < r.version:
					r.refused(err, millrace.CodeStale)
				case err != nil || len(done.Stamps) != 1 || done.Stamps[0].Duplicate:
					r.Errorf("got %+v, %v", done, err)
				}
			}
		})
	}
	wg.Wait()
	r.counts(0, q, 240, 0, 0, 0)
	r.same("tenants", r.stats(0, q).Tenants, int64(32))
}

func oneStores(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	var stored atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := range 20 {
				e := known(event("a", "x", q), fmt.Sprint(n))
				done, err := r.Publish(r.ctx(), 0, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{e}})
				if err != nil {
					r.Errorf("publish: %v", err)
				} else if !done.Stamps[0].Duplicate {
					stored.Add(1)
				}
			}
		})
	}
	wg.Wait()
	r.same("stored", stored.Load(), int64(20))
	r.counts(0, q, 20, 0, 0, 0)
}

func chainsWithoutAGap(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(0)
	var mu sync.Mutex
	next := map[uint64]uint64{} // prev → seq
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				done, err := r.Publish(r.ctx(), 0, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{keyed(event("a", "x", q), "k")}})
				if err != nil {
					r.Errorf("publish: %v", err)
					return
				}
				mu.Lock()
				next[done.Stamps[0].Prev] = done.Stamps[0].Seq
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	length := 0
	for seq, ok := next[0]; ok; seq, ok = next[seq] {
		length++
	}
	r.same("length of the chain", length, 80)
}
