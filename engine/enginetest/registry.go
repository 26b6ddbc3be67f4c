package enginetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-dev/millrace"
)

func registryPromises() []promise {
	return []promise{
		{"ADefinitionIsTheNextVersionOfTheRegistry", definitionIsNextVersion},
		{"ADefinitionThatReplacesAnotherThanTheCurrentIsRefused", changedIsRefused},
		{"OfManyWhoDefineANameAtOnceOneSucceeds", oneDefinerSucceeds},
		{"SeveralDefinitionsAreWrittenInOneStepOrNotAtAll", definedTogether},
		{"ADeletedNameCanBeDefinedAnew", deletedCanBeDefined},
		{"KindsDoNotShareNames", kindsDoNotShareNames},
		{"AllDefinitionsAreReturnedSinceZero", allSinceZero},
		{"ChangesSinceAVersionBringAReaderUpToDate", changesSince},
		{"RaisingTheVersionMovesItPastAndNeverBack", raiseMovesPast},
		{"AReaderFromBeforeARaiseGetsEverything", fullAfterRaise},
		{"TheRegistryIsThereAfterAReopen", registryAfterAReopen},
		{"AWatcherHearsThatTheRegistryHasChanged", hintRegistry},
		{"ApplyLiftsALaneAndNeverLowersIt", applyLifts},
		{"ApplyKeepsTheLaterSettings", applyKeepsLater},
		{"ApplyIsIdempotent", applyIsIdempotent},
		{"ARemovedQueueIsNotKnownToTheLane", removedIsUnknown},
		{"ARemovedQueueNeverComesBack", removedNeverComesBack},
	}
}

// definition is a definition of a queue as a broker would write it.
func definition(name string, uid int) millrace.Definition {
	return millrace.Definition{
		Kind: millrace.KindQueue, Name: name, UID: fmt.Sprintf("%016x", uid), Spec: []byte(`{"match":"` + name + `"}`),
	}
}

// define writes a definition and returns it as it was written.
func (r *rig) define(d millrace.Definition, replaces uint64) millrace.Definition {
	r.Helper()
	done, err := r.Define(r.ctx(), d, replaces)
	r.ok(err)
	return done
}

func (r *rig) definitions(since uint64) millrace.Changes {
	r.Helper()
	changes, err := r.Definitions(r.ctx(), since)
	r.ok(err)
	return changes
}

func definitionIsNextVersion(t *testing.T, c Config) {
	r := open(t, c)
	before := r.definitions(0).Version
	d := definition("a", 1)
	first := r.define(d, 0)
	d.Version = before + 1
	r.same("first", first, d)
	d.Spec = []byte(`{"match":"other"}`)
	second := r.define(d, first.Version)
	d.Version = before + 2
	r.same("second", second, d)
	r.same("registry", r.definitions(0), millrace.Changes{Version: before + 2, Full: true, Definitions: []millrace.Definition{d}})
}

func changedIsRefused(t *testing.T, c Config) {
	r := open(t, c)
	_, err := r.Define(r.ctx(), definition("a", 1), 7)
	r.refused(err, millrace.CodeChanged)
	first := r.define(definition("a", 1), 0)
	second := r.define(definition("a", 1), first.Version)
	before := r.definitions(0)
	for _, replaces := range []uint64{0, first.Version, second.Version + 1} {
		_, err := r.Define(r.ctx(), definition("a", 2), replaces)
		r.refused(err, millrace.CodeChanged)
	}
	r.same("registry", r.definitions(0), before)
}

func oneDefinerSucceeds(t *testing.T, c Config) {
	r := open(t, c)
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := r.Define(r.ctx(), definition("a", i), 0)
			if err == nil {
				won.Add(1)
				return
			}
			r.refused(err, millrace.CodeChanged)
		})
	}
	wg.Wait()
	r.same("winners", won.Load(), int64(1))
	r.same("definitions", len(r.definitions(0).Definitions), 1)
}

func definedTogether(t *testing.T, c Config) {
	r := open(t, c)
	a, b := r.define(definition("a", 1), 0), r.define(definition("b", 2), 0)
	before := r.definitions(0)
	again := func(d millrace.Definition, replaces uint64) millrace.Redefinition {
		return millrace.Redefinition{Definition: d, Replaces: replaces}
	}
	gone := b
	gone.Deleted = true
	list := []millrace.Redefinition{again(definition("c", 3), 0), again(definition("a", 1), a.Version), again(gone, a.Version)}
	_, err := r.DefineAll(r.ctx(), list)
	r.refused(err, millrace.CodeChanged)
	r.same("registry after a refusal", r.definitions(0), before)

	list[2].Replaces = b.Version
	done, err := r.DefineAll(r.ctx(), list)
	r.ok(err)
	var want []millrace.Definition
	for i, d := range list {
		d.Version = before.Version + uint64(i) + 1
		want = append(want, d.Definition)
	}
	r.same("definitions", done, want)
	r.same("registry", r.definitions(0), millrace.Changes{Version: before.Version + 3, Full: true, Definitions: want})
	r.same("changes", r.definitions(before.Version), millrace.Changes{Version: before.Version + 3, Definitions: want})
}

func deletedCanBeDefined(t *testing.T, c Config) {
	r := open(t, c)
	first := r.define(definition("a", 1), 0)
	gone := first
	gone.Deleted = true
	gone = r.define(gone, first.Version)
	for _, since := range []uint64{0, first.Version} {
		r.same("definitions", r.definitions(since).Definitions, []millrace.Definition{gone})
	}
	again := r.define(definition("a", 2), 0)
	r.same("both uids", r.definitions(0).Definitions, []millrace.Definition{gone, again})
	if again.Version <= gone.Version {
		t.Errorf("version %d after %d", again.Version, gone.Version)
	}
}

func kindsDoNotShareNames(t *testing.T, c Config) {
	r := open(t, c)
	r.define(definition("a", 1), 0)
	topic := definition("a", 2)
	topic.Kind = millrace.KindTopic
	r.define(topic, 0)
	r.same("definitions", len(r.definitions(0).Definitions), 2)
}

func allSinceZero(t *testing.T, c Config) {
	r := open(t, c)
	empty := r.definitions(0)
	r.same("full", empty.Full, true)
	r.same("definitions of a new store", len(empty.Definitions), 0)
	var want []millrace.Definition
	for i := range 30 {
		want = append(want, r.define(definition(fmt.Sprintf("queue-%d", i), i), 0))
	}
	r.same("definitions", r.definitions(0).Definitions, want)
}

func changesSince(t *testing.T, c Config) {
	r := open(t, c)
	reader := map[string]millrace.Definition{}
	version := uint64(0)
	current := map[string]millrace.Definition{}
	for i := range 25 {
		name := fmt.Sprintf("queue-%d", i*7%10)
		d := definition(name, i)
		d.Deleted = i%4 == 3 && current[name].Version > 0
		if current[name].UID != "" {
			d.UID = current[name].UID
		}
		d = r.define(d, current[name].Version)
		if current[name] = d; d.Deleted {
			delete(current, name)
		}
		if i%3 == 0 {
			version = r.catchUp(reader, version)
			r.same("what the reader knows", reader, current)
		}
	}
	r.catchUp(reader, version)
	r.same("what the reader knows in the end", reader, current)
	r.same("nothing new", len(r.definitions(r.definitions(0).Version).Definitions), 0)
}

// catchUp applies the changes since a version to what a reader knows.
func (r *rig) catchUp(reader map[string]millrace.Definition, since uint64) uint64 {
	r.Helper()
	changes := r.definitions(since)
	if changes.Full {
		clear(reader)
	}
	last := uint64(0)
	for _, d := range changes.Definitions {
		if d.Version <= last {
			r.Errorf("versions %d, %d are not in order", last, d.Version)
		}
		last = d.Version
		if !d.Deleted {
			reader[d.Name] = d
		} else if reader[d.Name].UID == d.UID {
			delete(reader, d.Name)
		}
	}
	return changes.Version
}

func raiseMovesPast(t *testing.T, c Config) {
	r := open(t, c)
	d := r.define(definition("a", 1), 0)
	for _, step := range []struct{ to, want uint64 }{
		{d.Version, d.Version + 1}, {d.Version, d.Version + 1}, {d.Version + 10, d.Version + 11}, {0, d.Version + 11},
	} {
		v, err := r.RaiseVersion(r.ctx(), step.to)
		r.ok(err)
		r.same("version", v, step.want)
	}
	r.same("registry", r.definitions(0).Version, d.Version+11)
	r.same("definition", r.definitions(0).Definitions, []millrace.Definition{d})
	r.same("next", r.define(definition("b", 2), 0).Version, d.Version+12)
}

func fullAfterRaise(t *testing.T, c Config) {
	r := open(t, c)
	d := r.define(definition("a", 1), 0)
	raised, err := r.RaiseVersion(r.ctx(), d.Version+5)
	r.ok(err)
	for _, since := range []uint64{0, d.Version, raised - 1, raised + 1} {
		changes := r.definitions(since)
		r.same("full", changes.Full, true)
		r.same("definitions", changes.Definitions, []millrace.Definition{d})
	}
	changes := r.definitions(raised)
	r.same("full for one who is up to date", changes.Full, false)
	r.same("changes for one who is up to date", len(changes.Definitions), 0)
}

func registryAfterAReopen(t *testing.T, c Config) {
	r := open(t, c)
	first := r.define(definition("a", 1), 0)
	r.define(definition("b", 2), 0)
	gone := first
	gone.Deleted = true
	r.define(gone, first.Version)
	_, err := r.RaiseVersion(r.ctx(), 99)
	r.ok(err)
	all, since := r.definitions(0), r.definitions(first.Version)
	r.reopen()
	r.same("all", r.definitions(0), all)
	r.same("since", r.definitions(first.Version), since)
}

func hintRegistry(t *testing.T, c Config) {
	r := open(t, c)
	h := r.watch()
	n := 0
	r.waitFor("a hint of the registry", func() bool {
		n++
		r.define(definition(fmt.Sprintf("queue-%d", n), n), 0)
		return h.count(millrace.HintRegistry, 0, "") > 0
	})
}

func applyLifts(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		for _, step := range []struct{ to, want uint64 }{{5, 5}, {9, 9}, {7, 9}, {0, 9}} {
			_, err := r.Apply(r.ctx(), lane, millrace.Apply{Version: step.to})
			r.ok(err)
			r.same("version", r.laneStats(lane).Version, step.want)
		}
	})
	r.reopen()
	r.each(func(lane int) { r.same("version after a reopen", r.laneStats(lane).Version, uint64(9)) })
}

func applyKeepsLater(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(1)
	change := func(version uint64, attempts int) {
		r.apply(millrace.Apply{Version: version, Queues: []millrace.QueueSettings{{UID: q, Version: version, MaxAttempts: attempts}}})
	}
	change(r.version+5, 3)
	change(r.version+2, 1)
	r.version += 5
	r.publish(0, event("a", "1", q))
	for attempt := 1; attempt <= 3; attempt++ {
		s := r.settle(0, q, millrace.Retry, r.leased(0, q, 1).items()...)
		r.same("dead", s.Dead, attempt/3)
	}
}

func applyIsIdempotent(t *testing.T, c Config) {
	r := open(t, c)
	q := r.queue(2)
	r.publish(0, event("a", "1", q), event("b", "2", q))
	r.leased(0, q, 1)
	before := r.stats(0, q)
	again := millrace.Apply{Version: r.version, Queues: []millrace.QueueSettings{{UID: q, Version: r.version, MaxAttempts: 2}}, Removed: []string{"00000000000000ff"}}
	for range 3 {
		r.apply(again)
	}
	r.same("stats", r.stats(0, q), before)
	r.same("left", r.lease(0, q, 5).names(), []string{"2"})
}

func removedIsUnknown(t *testing.T, c Config) {
	r := open(t, c)
	r.each(func(lane int) {
		q := r.queue(0)
		r.publish(lane, event("a", "1", q), event("a", "2", q))
		h := r.leased(lane, q, 1)
		r.remove(q)
		r.remove(q)
		r.unknown(lane, q, h)
		r.sweepAll(lane)
		r.unknown(lane, q, h)
	})
}

func removedNeverComesBack(t *testing.T, c Config) {
	r := open(t, c)
	q, other := r.queue(0), "00000000000000ab"
	r.publish(0, event("a", "1", q))
	r.remove(q)
	r.remove(other)
	late := millrace.Apply{Version: r.version, Queues: []millrace.QueueSettings{{UID: q, Version: 2}, {UID: other, Version: r.version + 9}}}
	for _, reopen := range []bool{false, true} {
		if reopen {
			r.sweepAll(0)
			r.reopen()
		}
		gone, err := r.Apply(r.ctx(), 0, late)
		r.ok(err)
		r.same("gone", gone, []string{q, other})
		r.unknown(0, q, held{})
	}
}

// unknown fails unless a lane does not know a queue.
func (r *rig) unknown(lane int, q string, h held) {
	r.Helper()
	_, err := r.Lease(r.ctx(), lane, millrace.Lease{Now: r.now, Queue: q, Max: 1, MaxBytes: 1, For: minute, Token: r.token()})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Settle(r.ctx(), lane, millrace.Settle{Now: r.now, Queue: q, Verb: millrace.Ack, Items: h.items()})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Extend(r.ctx(), lane, millrace.Extend{Now: r.now, Queue: q, For: minute, Items: h.items()})
	r.refused(err, millrace.CodeNotFound)
	_, err = r.Publish(r.ctx(), lane, millrace.Commit{Now: r.now, Version: r.version, Events: []millrace.CommitEvent{event("a", "x", q)}})
	r.refused(err, millrace.CodeStale)
	r.same("stats", r.stats(lane, q), millrace.QueueStats{})
}
