package redis_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// applied gives the test's queue other settings.
func applied(t *testing.T, e *redis.Engine, version uint64, s millrace.QueueSettings) {
	t.Helper()
	s.UID, s.Version = testQueue, version
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: version, Queues: []millrace.QueueSettings{s}}); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// oneEach publishes one event of each of so many tenants.
func oneEach(t *testing.T, e *redis.Engine, version uint64, tenants int) {
	t.Helper()
	c := millrace.Commit{Version: version}
	for i := range tenants {
		c.Events = append(c.Events, commitOf("t"+strconv.Itoa(i), "x").Events...)
	}
	if _, err := e.Publish(t.Context(), 0, c); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func leased(t *testing.T, e *redis.Engine, most int, seed byte) millrace.Leased {
	t.Helper()
	got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: most, MaxBytes: 1 << 20, For: time.Hour, Token: millrace.Token{seed}})
	if err != nil {
		t.Fatalf("lease: %v", err)
	}
	return got
}

func sound(t *testing.T, e *redis.Engine) {
	t.Helper()
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// More tenants than one step looks at wait for a higher limit: all of them are served.
func TestAHigherLimitRousesMoreTenantsThanOneStepLooksAt(t *testing.T) {
	const tenants = 2_500
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	applied(t, e, 1, millrace.QueueSettings{TenantLimit: 1})
	oneEach(t, e, 1, tenants)
	for i := range 3 {
		leased(t, e, 1000, byte(i+1))
	}
	oneEach(t, e, 1, tenants)
	if got := leased(t, e, 1000, 9); len(got.Messages) != 0 {
		t.Fatalf("leased %d past the limit", len(got.Messages))
	}
	sound(t, e)

	applied(t, e, 2, millrace.QueueSettings{TenantLimit: 2})
	served := map[string]bool{}
	for i := range 10 {
		got := leased(t, e, 1000, byte(20+i))
		for _, m := range got.Messages {
			served[m.Tenant] = true
		}
		sound(t, e)
		if len(served) == tenants {
			return
		}
	}
	t.Errorf("%d of %d tenants were served", len(served), tenants)
}

// A thousand tenants are paused before the one that is not: waiting consumers are woken
// until it is found.
func TestTheOneTenantThatMayBeServedIsFoundBehindAThousandThatMayNot(t *testing.T) {
	const tenants = 2_200
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	applied(t, e, 1, millrace.QueueSettings{TenantLimit: 1})
	for i := range tenants {
		if err := e.SetTenant(t.Context(), 0, testQueue, "t"+strconv.Itoa(i), &millrace.TenantSettings{Weight: 0, Limit: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Publish(t.Context(), 0, commitOf("zz", "first", "second")); err != nil {
		t.Fatal(err)
	}
	oneEach(t, e, 1, tenants)
	if got := leased(t, e, 10, 1); len(got.Messages) != 1 || got.Tenants != 0 {
		t.Fatalf("leased %d, %d tenants left", len(got.Messages), got.Tenants)
	}
	applied(t, e, 2, millrace.QueueSettings{TenantLimit: 5})
	for i := range 5 {
		if got := leased(t, e, 10, byte(2+i)); len(got.Messages) == 1 && string(got.Messages[0].Body) == "second" {
			sound(t, e)
			return
		}
	}
	t.Error("the second message was never served")
}

func TestAPurgeOfManyTenantsGetsThroughInSteps(t *testing.T) {
	const tenants = 2_300
	e := opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1})
	applied(t, e, 1, millrace.QueueSettings{MaxAttempts: 1})
	oneEach(t, e, 1, tenants) // these become dead letters, which a purge passes by
	for i := range 3 {
		got := leased(t, e, 1000, byte(i+1))
		s := millrace.Settle{Queue: testQueue, Verb: millrace.Bury}
		for _, m := range got.Messages {
			s.Items = append(s.Items, millrace.SettleItem{Name: m.Name, Token: millrace.Token{byte(i + 1)}})
		}
		if _, err := e.Settle(t.Context(), 0, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Publish(t.Context(), 0, commitOf("zz", "1", "2", "3")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, left, err := e.Purge(t.Context(), 0, millrace.Purge{Queue: testQueue, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, e)
		if left == 0 {
			if stats, err := e.Stats(t.Context(), 0, testQueue); err != nil || stats.Ready != 0 || stats.Dead != tenants || stats.Dropped != 3 {
				t.Errorf("stats %+v: %v", stats, err)
			}
			return
		}
	}
	t.Error("the purge did not come to an end")
}

func TestEventsThatAreDueTogetherAreHandedOutInBoundedSteps(t *testing.T) {
	e := withQueue(t, opened(t, redistest.Single(t).URL(), millrace.EngineOptions{Lanes: 1}))
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	body := strings.Repeat("x", 250<<10)
	for i := range 40 {
		c := commitOf("t", body)
		c.Now = now
		c.Events[0].Delay, c.Events[0].ID, c.Events[0].Queues = time.Second, strconv.Itoa(i), nil
		if _, err := e.Publish(t.Context(), 0, c); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	for more := true; more; {
		got, err := e.Step(t.Context(), 0, now.Add(time.Second), 1000)
		if err != nil || len(got.Events) == 0 || len(got.Events)*len(body) > millrace.MaxLeaseBytes {
			t.Fatalf("handed out %d: %v", len(got.Events), err)
		}
		for _, h := range got.Events {
			seen[h.Name] = true
		}
		more = got.More
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 events were handed out", len(seen))
	}
	sound(t, e)
}

// Everything that a removed queue may hold is freed: order, limits, names, ends.
func TestASweepFreesAllThatAnOrderedQueueHolds(t *testing.T) {
	s := redistest.Single(t)
	e := opened(t, s.URL(), millrace.EngineOptions{Lanes: 1})
	applied(t, e, 1, millrace.QueueSettings{Ordered: true, TenantLimit: 4, MaxAttempts: 1, DeadRetention: time.Hour})
	c := millrace.Commit{Version: 1}
	for i := range 60 {
		events := commitOf("t"+strconv.Itoa(i%3), "x").Events
		events[0].Key = []string{"", "a", "b"}[i/3%3]
		c.Events = append(c.Events, events...)
	}
	if _, err := e.Publish(t.Context(), 0, c); err != nil {
		t.Fatal(err)
	}
	if err := e.SetTenant(t.Context(), 0, testQueue, "t9", &millrace.TenantSettings{Weight: 2}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 9, MaxBytes: 1 << 20, For: time.Hour, Token: millrace.Token{1}, Consumer: "c"})
	if err != nil || len(got.Messages) != 9 {
		t.Fatalf("leased %d: %v", len(got.Messages), err)
	}
	for i, verb := range []millrace.Verb{millrace.Bury, millrace.Bury, millrace.Ack} {
		item := millrace.SettleItem{Name: got.Messages[i].Name, Token: millrace.Token{1}}
		if _, err := e.Settle(t.Context(), 0, millrace.Settle{Queue: testQueue, Verb: verb, Items: []millrace.SettleItem{item}}); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, e)
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 2, Removed: []string{testQueue}}); err != nil {
		t.Fatal(err)
	}
	freed := 0
	for {
		n, err := e.Sweep(t.Context(), 0, 7)
		if err != nil {
			t.Fatal(err)
		}
		freed += n
		sound(t, e)
		if n < 7 {
			break
		}
	}
	if left := s.Do("KEYS", "*:q:*"); freed != 59 || strings.Trim(left, "[] ") != "" {
		t.Errorf("freed %d of 59; left: %s", freed, left)
	}
}
