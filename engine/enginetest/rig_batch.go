package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace"
)

// sub makes a subscription known to every lane and returns its uid. Unless it is
// edited it collects for a second, up to 100 events, and retries after 5 and 10 seconds.
func (r *rig) sub(edits ...func(*millrace.SubscriptionSettings)) string {
	r.Helper()
	r.uids++
	s := millrace.SubscriptionSettings{
		UID: fmt.Sprintf("%016x", r.uids), Timeout: time.Second, MaxEvents: 100, MaxBytes: 1 << 20,
		Concurrency: 8, Schedule: []time.Duration{5 * time.Second, 10 * time.Second}, Format: "events",
	}
	if r.subs == nil {
		r.subs = map[string]millrace.SubscriptionSettings{}
	}
	r.subs[s.UID] = s
	r.changeSub(s.UID, func(s *millrace.SubscriptionSettings) {
		for _, edit := range edits {
			edit(s)
		}
	})
	return s.UID
}

// single makes every event a batch of its own, ready at once.
func single(s *millrace.SubscriptionSettings) { s.MaxEvents = 1 }

// inOrder makes a subscription an ordered one.
func inOrder(s *millrace.SubscriptionSettings) { s.Ordered = true }

// waits gives a subscription a schedule.
func waits(schedule ...time.Duration) func(*millrace.SubscriptionSettings) {
	return func(s *millrace.SubscriptionSettings) { s.Schedule = schedule }
}

// atOnce limits the batches that are pending.
func atOnce(n int) func(*millrace.SubscriptionSettings) {
	return func(s *millrace.SubscriptionSettings) { s.Concurrency = n }
}

// changeSub changes a subscription's settings in every lane.
func (r *rig) changeSub(uid string, edit func(*millrace.SubscriptionSettings)) {
	r.Helper()
	s := r.subs[uid]
	edit(&s)
	r.version++
	s.Version = r.version
	r.subs[uid] = s
	r.apply(millrace.Apply{Version: r.version, Subscriptions: []millrace.SubscriptionSettings{s}})
}

// pushed is an event for some subscriptions, with the name as its body.
func pushed(name string, subs ...string) millrace.CommitEvent {
	e := event("a", name)
	e.Batches = subs
	return e
}

// push publishes one event per name to one subscription and returns their seqs.
func (r *rig) push(lane int, uid string, names ...string) []uint64 {
	r.Helper()
	var seqs []uint64
	for _, name := range names {
		seqs = append(seqs, r.publish(lane, pushed(name, uid))[0].Seq)
	}
	return seqs
}

// taken is what one take gave.
type taken struct {
	millrace.Taken
	token millrace.Token
}

// names are the bodies of each batch, in the order they were given.
func (k taken) names() []string {
	names := []string{}
	for _, b := range k.Batches {
		names = append(names, bodies(b.Events))
	}
	return names
}

// bodies are the bodies of events, as one text.
func bodies(events []millrace.BatchEvent) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.Body))
	}
	return strings.Join(all, " ")
}

// sent says that the sending of the i-th batch went well.
func (k taken) sent(i int) millrace.Outcome {
	return millrace.Outcome{Subscription: k.Batches[i].Subscription, Name: k.Batches[i].Name, Token: k.token, OK: true}
}

// failed says that the sending of the i-th batch failed.
func (k taken) failed(i int) millrace.Outcome {
	o := k.sent(i)
	o.OK, o.Error, o.Jitter = false, "refused", millrace.NoJitter
	return o
}

// each is an outcome for every batch.
func (k taken) each(outcome func(taken, int) millrace.Outcome) []millrace.Outcome {
	var all []millrace.Outcome
	for i := range k.Batches {
		all = append(all, outcome(k, i))
	}
	return all
}

// take takes up to n batches for a minute.
func (r *rig) take(lane, n int) taken {
	r.Helper()
	return r.takeBy(lane, millrace.Take{Max: n, For: minute, Node: "node"})
}

func (r *rig) takeBy(lane int, o millrace.Take) taken {
	r.Helper()
	k := taken{token: r.token()}
	o.Now, o.Token = r.now, k.token
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	var err error
	k.Taken, err = r.Take(r.ctx(), lane, o)
	r.ok(err)
	return k
}

// took takes n batches and fails unless there are that many.
func (r *rig) took(lane, n int) taken {
	r.Helper()
	k := r.take(lane, n)
	if len(k.Batches) != n {
		r.Fatalf("took %d batches, want %d", len(k.Batches), n)
	}
	return k
}

// outcomes tells how sendings went and returns what became of them.
func (r *rig) outcomes(lane int, items ...millrace.Outcome) millrace.SettledBatches {
	r.Helper()
	done, err := r.SettleBatches(r.ctx(), lane, millrace.Outcomes{Now: r.now, Items: items})
	r.ok(err)
	if len(done.Items) != len(items) {
		r.Fatalf("got %d items for %d outcomes", len(done.Items), len(items))
	}
	return done
}

// told tells how sendings went and fails if one is lost.
func (r *rig) told(lane int, items ...millrace.Outcome) millrace.SettledBatches {
	r.Helper()
	done := r.outcomes(lane, items...)
	if i := slices.IndexFunc(done.Items, func(s millrace.SettledBatch) bool { return s.Lost }); i >= 0 {
		r.Fatalf("outcome %d of %d is lost", i, len(items))
	}
	return done
}

// batches are all batches of a subscription.
func (r *rig) batches(lane int, uid string) []millrace.Batch {
	r.Helper()
	all, err := r.ListBatches(r.ctx(), lane, millrace.BatchPage{Subscription: uid, Limit: 1000})
	r.ok(err)
	return all
}

// batchAt is the i-th batch of a subscription.
func (r *rig) batchAt(lane int, uid string, i int) millrace.Batch {
	r.Helper()
	all := r.batches(lane, uid)
	if i >= len(all) {
		r.Fatalf("there are %d batches, want more than %d", len(all), i)
	}
	return all[i]
}

// states are the states and lengths of a subscription's batches; a star marks the one that collects.
func (r *rig) states(lane int, uid string) []string {
	r.Helper()
	states := []string{}
	for _, b := range r.batches(lane, uid) {
		star := ""
		if b.Current {
			star = "*"
		}
		states = append(states, fmt.Sprintf("%s%s %d", b.State, star, b.Count))
	}
	return states
}

func (r *rig) subStats(lane int, uid string) millrace.SubscriptionStats {
	r.Helper()
	s, err := r.SubscriptionStats(r.ctx(), lane, uid)
	r.ok(err)
	return s
}

// log is what was logged for a subscription.
func (r *rig) log(lane int, uid string) []string {
	r.Helper()
	log, err := r.AttemptLog(r.ctx(), lane, uid)
	r.ok(err)
	texts := []string{}
	for _, entry := range log {
		texts = append(texts, string(entry))
	}
	return texts
}

// lostBatch fails unless outcomes are lost, whatever they say, and change nothing.
func (r *rig) lostBatch(lane int, items ...millrace.Outcome) {
	r.Helper()
	for _, ok := range []bool{true, false} {
		for _, item := range items {
			item.OK = ok
			uid := item.Subscription
			stats, states := r.subStats(lane, uid), r.batchesIfAny(lane, uid)
			done := r.outcomes(lane, item)
			r.same("lost", []bool{done.Items[0].Lost, done.Items[0].Dead}, []bool{true, false})
			r.same("stats after a lost outcome", r.subStats(lane, uid), stats)
			r.same("batches after a lost outcome", r.batchesIfAny(lane, uid), states)
		}
	}
}

// batchesIfAny are the batches of a subscription, or none if there is no such subscription.
func (r *rig) batchesIfAny(lane int, uid string) []millrace.Batch {
	r.Helper()
	all, err := r.ListBatches(r.ctx(), lane, millrace.BatchPage{Subscription: uid, Limit: 1000})
	if err != nil {
		r.refused(err, millrace.CodeNotFound)
	}
	return all
}

// allStates makes a subscription that has one batch in every state, and returns
// it with what is pending: dead, failed and early, pending, ready, current. Two failures are on record.
func (r *rig) allStates(lane int, edits ...func(*millrace.SubscriptionSettings)) (string, taken) {
	r.Helper()
	uid := r.sub(append([]func(*millrace.SubscriptionSettings){waits(time.Hour), func(s *millrace.SubscriptionSettings) {
		s.MaxEvents, s.Retention = 2, 48*time.Hour
	}}, edits...)...)
	r.push(lane, uid, "d1", "d2")
	r.told(lane, r.took(lane, 1).failed(0))
	r.pass(time.Hour)
	r.step(lane)
	r.told(lane, r.took(lane, 1).failed(0))
	r.push(lane, uid, "x1", "x2")
	r.told(lane, r.took(lane, 1).sent(0))
	r.push(lane, uid, "f1", "f2")
	r.told(lane, r.took(lane, 1).failed(0))
	r.push(lane, uid, "p1", "p2")
	k := r.took(lane, 1)
	r.push(lane, uid, "r1", "r2", "c1")
	r.same("states", r.states(lane, uid), []string{"dead 2", "early 2", "pending 2", "ready 2", "early* 1"})
	return uid, k
}
