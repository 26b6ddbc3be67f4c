package redis_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

const testSub = "00000000000000bb"

// subscribed makes subscriptions known to the first lane; each event is a batch of its own
// unless it is edited.
func subscribed(t *testing.T, e *redis.Engine, uids []string, edits ...func(*millrace.SubscriptionSettings)) {
	t.Helper()
	a := millrace.Apply{Version: 1}
	for _, uid := range uids {
		s := millrace.SubscriptionSettings{
			UID: uid, Version: 1, Timeout: time.Hour, MaxEvents: 1, MaxBytes: 1 << 20, Concurrency: 64, Schedule: []time.Duration{time.Hour}, Format: "events",
		}
		for _, edit := range edits {
			edit(&s)
		}
		a.Subscriptions = append(a.Subscriptions, s)
	}
	if _, err := e.Apply(t.Context(), 0, a); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// push publishes so many events to subscriptions, and to the test's queue if it is named.
func push(t *testing.T, e *redis.Engine, n int, subs []string, queues ...string) millrace.Committed {
	t.Helper()
	return pushAt(t, e, time.Time{}, n, subs, queues...)
}

func pushAt(t *testing.T, e *redis.Engine, now time.Time, n int, subs []string, queues ...string) millrace.Committed {
	t.Helper()
	c := millrace.Commit{Version: 1, Now: now}
	for i := range n {
		c.Events = append(c.Events, millrace.CommitEvent{Tenant: "acme", Topic: "orders", Body: fmt.Append(nil, "body ", i), Queues: queues, Batches: subs})
	}
	done, err := e.Publish(t.Context(), 0, c)
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return done
}

func take(t *testing.T, e *redis.Engine, most int, seed byte) millrace.Taken {
	t.Helper()
	got, err := e.Take(t.Context(), 0, millrace.Take{Max: most, MaxBytes: 1 << 30, For: time.Hour, Token: millrace.Token{seed}})
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return got
}

func settled(t *testing.T, e *redis.Engine, taken millrace.Taken, seed byte, ok bool) {
	t.Helper()
	var o millrace.Outcomes
	for _, b := range taken.Batches {
		o.Items = append(o.Items, millrace.Outcome{Subscription: b.Subscription, Name: b.Name, Token: millrace.Token{seed}, OK: ok, Error: "refused", Jitter: millrace.NoJitter})
	}
	done, err := e.SettleBatches(t.Context(), 0, o)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	for i := range done.Items {
		if done.Items[i].Lost {
			t.Errorf("batch %d is lost", i)
		}
	}
}

// commands counts what the server was asked to do meanwhile, by command.
func commands(s *redistest.Server, do func()) map[string]int {
	s.Do("CONFIG", "RESETSTAT")
	do()
	counts := map[string]int{}
	for line := range strings.SplitSeq(s.Do("INFO", "commandstats"), "\r\n") {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if number, _, _ := strings.Cut(stats, ","); ok && name != "config|resetstat" && name != "info" {
			counts[name], _ = strconv.Atoi(number)
		}
	}
	return counts
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// The time is given where commands are counted: at another one more things fall due.

func TestSubscriptionsCostACommitNothingThatGoesToNone(t *testing.T) {
	s, now := redistest.Single(t), time.Now()
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Lanes: 1}))
	publish := func() { pushAt(t, e, now, 10, nil, testQueue) }
	for range 3 { // then the script is known, and the tenant has more waiting than it has at hand
		publish()
	}
	before := commands(s, publish)
	subscribed(t, e, []string{testSub})
	pushAt(t, e, now, 10, []string{testSub})
	after := commands(s, publish)
	if len(before) < 3 || !maps.Equal(before, after) {
		t.Errorf("a commit ran %v before there were subscriptions, then %v", before, after)
	}
}

func TestWhatACommitCostsDoesNotGrowWithTheEventsThatJoinABatch(t *testing.T) {
	s, now := redistest.Single(t), time.Now()
	e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
	subs := []string{testSub, "00000000000000bc", "00000000000000bd"}
	subscribed(t, e, subs, func(s *millrace.SubscriptionSettings) { s.MaxEvents = 1000 })
	pushAt(t, e, now, 1, subs)
	one := commands(s, func() { pushAt(t, e, now, 1, subs) })
	many := commands(s, func() { pushAt(t, e, now, 200, subs) })
	if !maps.Equal(one, many) {
		t.Errorf("one event took %v, 200 events %v", one, many)
	}
	fewer := commands(s, func() { pushAt(t, e, now, 1, subs[:2]) })
	if more := total(one) - total(fewer); more != 3 {
		t.Errorf("a further subscription took %d commands: %v, then %v", more, fewer, one)
	}
	sound(t, e)
}

func TestAFullRedisRefusesPublishToSubscriptionsAndStillDelivers(t *testing.T) {
	s := redistest.Single(t, "--maxmemory-policy", "noeviction")
	e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub})
	push(t, e, 5, []string{testSub})
	s.Do("CONFIG", "SET", "maxmemory", "1mb")
	_, err := e.Publish(t.Context(), 0, millrace.Commit{Version: 1, Events: []millrace.CommitEvent{{Tenant: "a", Topic: "b", Body: []byte("x"), Batches: []string{testSub}}}})
	wantCode(t, err, millrace.CodeStoreFull)
	wantCode(t, e.Inject(t.Context(), 0, millrace.Inject{Subscription: testSub, Events: []millrace.InjectEvent{{Tenant: "a", Seq: 1, Body: []byte("x")}}}), millrace.CodeStoreFull)

	settled(t, e, take(t, e, 1, 1), 1, true)
	failed := take(t, e, 1, 2)
	settled(t, e, failed, 2, false)
	if done, _, err := e.RetryBatches(t.Context(), 0, millrace.BatchesOf{Subscription: testSub, Names: []uint64{failed.Batches[0].Name}}); done != 1 || err != nil {
		t.Errorf("retried %d: %v", done, err)
	}
	if gone, err := e.DropOldest(t.Context(), 0, 1); len(gone) != 1 || err != nil {
		t.Errorf("dropped %v: %v", gone, err)
	}
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 2, Removed: []string{testSub}}); err != nil {
		t.Error(err)
	}
	if n, err := e.Sweep(t.Context(), 0, 100); n != 3 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	sound(t, e)
}

func TestABatchOfManyEventsIsTakenInOneCall(t *testing.T) {
	s := redistest.Single(t)
	e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub}, func(s *millrace.SubscriptionSettings) { s.MaxEvents = millrace.MaxBatchEvents })
	stamps := push(t, e, 1200, []string{testSub}).Stamps
	var got millrace.Taken
	counts := commands(s, func() { got = take(t, e, 5, 1) })
	if counts["evalsha"] > 1 || len(got.Batches) != 1 || len(got.Batches[0].Events) != millrace.MaxBatchEvents {
		t.Fatalf("%v gave %d batches", counts, len(got.Batches))
	}
	for i, ev := range got.Batches[0].Events {
		if want := fmt.Sprint("body ", i); string(ev.Body) != want || ev.Seq != stamps[i].Seq {
			t.Fatalf("event %d is %q with seq %d, want %q with %d", i, ev.Body, ev.Seq, want, stamps[i].Seq)
		}
	}
	settled(t, e, got, 1, true)
	sound(t, e)
}

// So many subscriptions are found paused at their turns that a take stops looking: the
// next one goes on, and serves the one that is not.
func TestTheOneSubscriptionThatCanBeServedIsFoundBehindManyThatCannot(t *testing.T) {
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	var paused []string
	for i := range 1500 {
		paused = append(paused, fmt.Sprintf("a%015x", i))
	}
	subscribed(t, e, paused)
	subscribed(t, e, []string{testSub})
	push(t, e, 1, append(paused, testSub))
	subscribed(t, e, paused, func(s *millrace.SubscriptionSettings) { s.Paused = true })
	if got := take(t, e, 1, 1); len(got.Batches) != 0 || !got.More {
		t.Fatalf("took %d, more: %t", len(got.Batches), got.More)
	}
	sound(t, e)
	if got := take(t, e, 1, 2); len(got.Batches) != 1 || got.Batches[0].Subscription != testSub || got.More {
		t.Fatalf("took %+v", got)
	}
	sound(t, e)
}

func TestNothingDroppedMeansThatThereIsNothingWhateverRemovedOnesLeft(t *testing.T) {
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub, "00000000000000bc"})
	push(t, e, 2500, []string{testSub})
	push(t, e, 1, []string{"00000000000000bc"})
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 2, Removed: []string{testSub}}); err != nil {
		t.Fatal(err)
	}
	if gone, err := e.DropOldest(t.Context(), 0, 1); len(gone) != 1 || gone[0].Subscription != "00000000000000bc" || err != nil {
		t.Errorf("dropped %v: %v", gone, err)
	}
	if gone, err := e.DropOldest(t.Context(), 0, 10); len(gone) != 0 || err != nil {
		t.Errorf("dropped %v: %v", gone, err)
	}
	swept := 0
	for range 10 {
		n, err := e.Sweep(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		swept += n
		sound(t, e)
	}
	if swept != 2500 {
		t.Errorf("swept %d", swept)
	}
}

// A step frees no more than about 10,000 events of dead batches; the next one goes on.
func TestManyDeadBatchesAreForgottenInSteps(t *testing.T) {
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub}, func(s *millrace.SubscriptionSettings) {
		s.MaxEvents, s.Schedule, s.Retention = 1000, nil, time.Minute
	})
	for range 15 {
		push(t, e, 1000, []string{testSub})
	}
	settled(t, e, take(t, e, 15, 1), 1, false)
	later := time.Now().Add(time.Hour)
	first, err := e.Step(t.Context(), 0, later, 1000)
	if err != nil || first.Forgotten != 10 || !first.More {
		t.Errorf("stepped %+v: %v", first, err)
	}
	sound(t, e)
	if second, err := e.Step(t.Context(), 0, later, 1000); err != nil || second.Forgotten != 5 || second.More {
		t.Errorf("stepped %+v: %v", second, err)
	}
	sound(t, e)
}

// A body that somebody removed by hand takes its event along, and no other.
func TestAnEventWithoutABodyDoesNotStopItsBatch(t *testing.T) {
	s := redistest.Single(t)
	e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub}, func(s *millrace.SubscriptionSettings) { s.MaxEvents = 3 })
	stamps := push(t, e, 3, []string{testSub}).Stamps
	s.Do("HDEL", "millrace:{712}:body", strconv.FormatUint(stamps[1].Seq, 10))
	got := take(t, e, 1, 1)
	if len(got.Batches) != 1 || len(got.Batches[0].Events) != 2 || string(got.Batches[0].Events[1].Body) != "body 2" {
		t.Fatalf("took %+v", got.Batches)
	}
	settled(t, e, got, 1, true)
	sound(t, e)
}

func TestAnUnknownStateOfBatchesIsRefused(t *testing.T) {
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	subscribed(t, e, []string{testSub})
	_, err := e.ListBatches(t.Context(), 0, millrace.BatchPage{Subscription: testSub, State: "late", Limit: 1})
	wantCode(t, err, millrace.CodeInvalid)
}

func TestCheckNamesWhatIsBrokenOfSubscriptions(t *testing.T) {
	const lane = "millrace:{712}"
	const sub = lane + ":b:" + testSub
	for name, breakIt := range map[string]func(s *redistest.Server, ready, pending string){
		"a subscription twice in the ring": func(s *redistest.Server, _, _ string) { s.Do("RPUSH", lane+":turns", testSub) },
		"a subscription not in the ring":   func(s *redistest.Server, _, _ string) { s.Do("DEL", lane+":turns") },
		"a stranger in the ring":           func(s *redistest.Server, _, _ string) { s.Do("RPUSH", lane+":turns", "ff") },
		"a wait for what is there":         func(s *redistest.Server, _, _ string) { s.Do("HSET", lane, "wanted", "1") },
		"wrong numbers":                    func(s *redistest.Server, _, _ string) { s.Do("HDEL", sub, "numbers") },
		"a batch in two states":            func(s *redistest.Server, ready, _ string) { s.Do("ZADD", sub+":dead", ready, ready) },
		"a batch in no state":              func(s *redistest.Server, ready, _ string) { s.Do("ZREM", sub+":ready", ready) },
		"a batch without a record":         func(s *redistest.Server, ready, _ string) { s.Do("HDEL", sub+":batch", ready) },
		"a record that cannot be read":     func(s *redistest.Server, ready, _ string) { s.Do("HSET", sub+":batch", ready, "R") },
		"a batch without its events":       func(s *redistest.Server, ready, _ string) { s.Do("DEL", sub+":events:"+ready) },
		"an event too many":                func(s *redistest.Server, ready, _ string) { s.Do("RPUSH", sub+":events:"+ready, ready) },
		"events of no batch":               func(s *redistest.Server, _, _ string) { s.Do("RPUSH", sub+":events:5", "5") },
		"a pending batch that is not due":  func(s *redistest.Server, _, _ string) { s.Do("DEL", lane+":due") },
		"a due entry for nothing":          func(s *redistest.Server, _, _ string) { s.Do("ZADD", lane+":due", "1", "K"+testSub+"!") },
		"a batch that is not listed":       func(s *redistest.Server, ready, _ string) { s.Do("ZREM", lane+":batches", testSub+"!"+ready) },
		"a pending batch that is listed": func(s *redistest.Server, _, pending string) {
			s.Do("ZADD", lane+":batches", pending, testSub+"!"+pending)
		},
		"a failure of nobody":              func(s *redistest.Server, _, _ string) { s.Do("HSET", sub, "reason", "x") },
		"an event without a body":          func(s *redistest.Server, ready, _ string) { s.Do("HDEL", lane+":body", ready) },
		"a subscription that nobody knows": func(s *redistest.Server, _, _ string) { s.Do("RPUSH", lane+":b:ff:log", "x") },
		"a key that is none of ours":       func(s *redistest.Server, _, _ string) { s.Do("SET", sub+":stray", "x") },
		"a subscription that was removed":  func(s *redistest.Server, _, _ string) { s.Do("SADD", lane+":removed", testSub) },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Single(t)
			e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
			subscribed(t, e, []string{testSub}, func(s *millrace.SubscriptionSettings) { s.MaxEvents = 2 })
			stamps := push(t, e, 5, []string{testSub}).Stamps
			take(t, e, 1, 1)
			if err := e.Check(t.Context()); err != nil {
				t.Fatalf("broken before: %v", err)
			}
			breakIt(s, strconv.FormatUint(stamps[2].Seq, 10), strconv.FormatUint(stamps[0].Seq, 10))
			if err := e.Check(t.Context()); err == nil {
				t.Error("Check saw nothing")
			}
		})
	}
}
