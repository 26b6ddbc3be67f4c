package redis_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/redis"
	"github.com/millrace-dev/millrace/internal/redistest"
)

const testQueue = "00000000000000aa"

// opened opens a store and closes it with the test.
func opened(t *testing.T, url string, o millrace.EngineOptions) *redis.Engine {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	e, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// withQueue makes the test's queue known to every lane.
func withQueue(t *testing.T, e *redis.Engine) *redis.Engine {
	t.Helper()
	for lane := range e.Identity().Lanes {
		a := millrace.Apply{Version: 1, Queues: []millrace.QueueSettings{{UID: testQueue, Version: 1, MaxAttempts: 3}}}
		if _, err := e.Apply(t.Context(), lane, a); err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
	return e
}

func commitOf(tenant string, bodies ...string) millrace.Commit {
	c := millrace.Commit{Version: 1}
	for _, body := range bodies {
		c.Events = append(c.Events, millrace.CommitEvent{Tenant: tenant, Topic: "orders", Body: []byte(body), Queues: []string{testQueue}})
	}
	return c
}

func wantCode(t *testing.T, err error, want millrace.Code) {
	t.Helper()
	if got := millrace.CodeOf(err); got != want {
		t.Fatalf("got %v, want %q", err, want)
	}
}

func TestAStoreOfOtherSettingsIsRefused(t *testing.T) {
	s := redistest.Single(t)
	first := opened(t, s.URL(), millrace.EngineOptions{Lanes: 4})
	if !first.Identity().Created {
		t.Error("the first opening did not create the store")
	}
	_, err := redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Lanes: 2, Logger: quiet})
	wantCode(t, err, millrace.CodeMismatch)

	again := opened(t, s.URL(), millrace.EngineOptions{}).Identity()
	if again.Created || again.Lanes != 4 || again.StoreID != first.Identity().StoreID {
		t.Errorf("found %+v, want the store of %+v", again, first.Identity())
	}
	s.Do("HSET", "millrace:{control}", "format", "99")
	_, err = redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Logger: quiet})
	wantCode(t, err, millrace.CodeMismatch)
}

func TestNamespacesAreStoresOfTheirOwn(t *testing.T) {
	s := redistest.Single(t)
	a := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Namespace: "a"}))
	b := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Namespace: "b"}))
	if _, err := a.Publish(t.Context(), 0, commitOf("acme", "x")); err != nil {
		t.Fatal(err)
	}
	got, err := b.Stats(t.Context(), 0, testQueue)
	if err != nil || got.Ready != 0 || a.Identity().StoreID == b.Identity().StoreID {
		t.Errorf("b has %+v of a: %v", got, err)
	}
	for _, namespace := range []string{"a{b", "a b", "a:b", "..", strings.Repeat("n", 200)} {
		_, err := redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Namespace: namespace, Logger: quiet})
		wantCode(t, err, millrace.CodeInvalid)
	}
}

func TestALaneThatVanishedIsNotMadeAnew(t *testing.T) {
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Lanes: 2}))
	for i, key := range strings.Fields(strings.Trim(s.Do("KEYS", "millrace:{*}"), "[]")) {
		if !strings.Contains(key, "control") && i >= 0 {
			s.Do("DEL", key)
		}
	}
	_, err := e.Publish(t.Context(), 0, commitOf("acme", "x"))
	wantCode(t, err, millrace.CodeLaneMissing)
	_, err = redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Logger: quiet})
	wantCode(t, err, millrace.CodeLaneMissing)

	s.Do("FLUSHALL")
	_, err = e.Definitions(t.Context(), 0)
	wantCode(t, err, millrace.CodeLaneMissing)
}

func TestALostRegistryIsNotReplacedByAnEmptyOne(t *testing.T) {
	s := redistest.Single(t)
	opened(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	saved := s.Do("HGET", "millrace:{control}", "id")
	s.Do("DEL", "millrace:{control}")
	_, err := redis.Open(t.Context(), s.URL(), millrace.EngineOptions{Lanes: 2, Logger: quiet})
	wantCode(t, err, millrace.CodeMismatch)
	if got := s.Do("EXISTS", "millrace:{control}"); got != "0" {
		t.Error("the refused opening left a registry behind")
	}
	s.Do("HSET", "millrace:{control}", "id", saved, "format", "1", "lanes", "2", "namespace", "millrace", "version", "0", "ready", "1")
	opened(t, s.URL(), millrace.EngineOptions{})
}

func TestACreationThatWasCutShortIsCompleted(t *testing.T) {
	s := redistest.Single(t)
	first := opened(t, s.URL(), millrace.EngineOptions{Lanes: 2})
	s.Do("HDEL", "millrace:{control}", "ready")
	for key := range strings.FieldsSeq(strings.Trim(s.Do("KEYS", "millrace:{*}"), "[]")) {
		if !strings.Contains(key, "control") {
			s.Do("DEL", key)
			break
		}
	}
	second := opened(t, s.URL(), millrace.EngineOptions{})
	if second.Identity().StoreID != first.Identity().StoreID {
		t.Error("another store was made")
	}
	for lane := range 2 {
		if _, err := second.LaneStats(t.Context(), lane); err != nil {
			t.Errorf("lane %d: %v", lane, err)
		}
	}
}

func TestAFullRedisRefusesPublishWholeAndStillSettles(t *testing.T) {
	s := redistest.Single(t, "--maxmemory-policy", "noeviction")
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "one", "two", "three")); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1mb")
	_, err := e.Publish(t.Context(), 0, commitOf("acme", "four", "five"))
	wantCode(t, err, millrace.CodeStoreFull)

	token := millrace.Token{1}
	got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 10, MaxBytes: 1 << 20, For: time.Minute, Token: token})
	if err != nil || len(got.Messages) != 3 {
		t.Fatalf("leased %d: %v", len(got.Messages), err)
	}
	for i, verb := range []millrace.Verb{millrace.Ack, millrace.Retry, millrace.Bury} {
		settled, err := e.Settle(t.Context(), 0, millrace.Settle{Queue: testQueue, Verb: verb, Items: []millrace.SettleItem{{Name: got.Messages[i].Name, Token: token}}})
		if err != nil || len(settled.Lost) > 0 {
			t.Errorf("%c: lost %v: %v", verb, settled.Lost, err)
		}
	}
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 2, Removed: []string{testQueue}}); err != nil {
		t.Error(err)
	}
	if n, err := e.Sweep(t.Context(), 0, 100); n != 2 || err != nil {
		t.Errorf("swept %d: %v", n, err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDurabilityIsWhatTheServerSays(t *testing.T) {
	for _, c := range []struct {
		args []string
		want millrace.Durability
	}{
		{nil, millrace.InMemory},
		{[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, millrace.EverySec},
		{[]string{"--appendonly", "yes", "--appendfsync", "always"}, millrace.Fsync},
		{[]string{"--appendonly", "yes", "--appendfsync", "no"}, millrace.InMemory},
		{[]string{"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"}, millrace.InMemory},
	} {
		e := opened(t, redistest.Single(t, c.args...).URL(), millrace.EngineOptions{})
		if got := e.Durability(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestAUserWithoutConfigWorksWithAnUnknownDurability(t *testing.T) {
	s := redistest.Single(t)
	s.Do("ACL", "SETUSER", "app", "on", ">p@ss:w/rd", "~millrace:*", "&millrace:*", "+@all", "-@dangerous", "-@admin", "-config")
	e := withQueue(t, opened(t, "redis://app:p%40ss%3Aw%2Frd@"+s.Addr(), millrace.EngineOptions{}))
	if got := e.Durability(); got != millrace.Unknown {
		t.Errorf("got %s, want unknown", got)
	}
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "x")); err != nil {
		t.Error(err)
	}
	if err := e.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := redis.Open(t.Context(), "redis://app:wrong@"+s.Addr(), millrace.EngineOptions{Logger: quiet})
	wantCode(t, err, millrace.CodeUnavailable)
	if strings.Contains(err.Error(), "wrong@") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestAUserWhoMayNotRunAllOfAScriptIsRefused(t *testing.T) {
	s := redistest.Single(t)
	for _, forbidden := range []string{"-rename", "-zpopmin", "-hrandfield"} {
		s.Do("ACL", "SETUSER", "app", "reset", "on", ">pw", "~*", "&*", "+@all", forbidden)
		_, err := redis.Open(t.Context(), "redis://app:pw@"+s.Addr(), millrace.EngineOptions{Logger: quiet})
		wantCode(t, err, millrace.CodeForbidden)
	}
}

func TestAUserWithoutChannelsPublishesWholeAndUnheard(t *testing.T) {
	s := redistest.Single(t)
	s.Do("ACL", "SETUSER", "app", "on", ">pw", "~millrace:*", "resetchannels", "+@all")
	var log bytes.Buffer
	e := withQueue(t, opened(t, "redis://app:pw@"+s.Addr(), millrace.EngineOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	l := millrace.Lease{Queue: testQueue, Max: 1, MaxBytes: 1, For: time.Minute}
	if _, err := e.Lease(t.Context(), 0, l); err != nil { // now the queue is wanted, and a publish hints
		t.Fatal(err)
	}
	if _, err := e.Publish(t.Context(), 0, commitOf("acme", "x")); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := e.Lease(t.Context(), 0, l); err != nil || len(got.Messages) != 1 {
		t.Errorf("leased %d: %v", len(got.Messages), err)
	}
	if !strings.Contains(log.String(), "channels") {
		t.Errorf("nothing was said about it: %s", log.String())
	}
}

func TestWhatAnOperatorShouldKnowIsLogged(t *testing.T) {
	s := redistest.Single(t, "--maxmemory-policy", "allkeys-lru")
	var log bytes.Buffer
	opened(t, s.URL(), millrace.EngineOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, want := range []string{"noeviction", "1 lane"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("nothing about %q in %s", want, log.String())
		}
	}
}

func TestCheckNamesWhatIsBroken(t *testing.T) {
	const lane = "millrace:{712}"
	const q = lane + ":q:" + testQueue
	for name, breakIt := range map[string]func(s *redistest.Server, leased string){
		"a tenant twice in the ring":    func(s *redistest.Server, _ string) { s.Do("RPUSH", q+":ring", "acme") },
		"a tenant not in the ring":      func(s *redistest.Server, _ string) { s.Do("DEL", q+":ring") },
		"a wrong count":                 func(s *redistest.Server, _ string) { s.Do("HDEL", q, "counts") },
		"a body without a holder":       func(s *redistest.Server, _ string) { s.Do("HSET", lane+":body", "77", "x") },
		"a message without a body":      func(s *redistest.Server, leased string) { s.Do("HDEL", lane+":body", leased) },
		"a lease that is never due":     func(s *redistest.Server, _ string) { s.Do("DEL", lane+":due") },
		"a due entry for nothing":       func(s *redistest.Server, _ string) { s.Do("ZADD", lane+":due", "1", "D"+testQueue+"!0000000000000001") },
		"a lease that vanished":         func(s *redistest.Server, leased string) { s.Do("HDEL", q+":leased", leased) },
		"a message in two states":       func(s *redistest.Server, leased string) { s.Do("HSET", q+":delayed", leased, "acme") },
		"holders that are miscounted":   func(s *redistest.Server, leased string) { s.Do("HSET", lane+":holders", leased, "2") },
		"an age that is miscounted":     func(s *redistest.Server, _ string) { s.Do("HSET", q+":age", "1", "1") },
		"attempts that are left over":   func(s *redistest.Server, _ string) { s.Do("HSET", q+":tries", "5", "1") },
		"a queue that nobody knows":     func(s *redistest.Server, _ string) { s.Do("RPUSH", lane+":q:ffff:ring", "acme") },
		"a key that is none of ours":    func(s *redistest.Server, _ string) { s.Do("SET", lane+":stray", "x") },
		"a facet out of order":          func(s *redistest.Server, _ string) { s.Do("LPUSH", q+":facet:acme", "99999999999999") },
		"a definition of the future":    func(s *redistest.Server, _ string) { s.Do("ZADD", "millrace:{control}:names", "9", "queue/x") },
		"a deletion without a trace":    func(s *redistest.Server, _ string) { s.Do("ZADD", "millrace:{control}:deleted", "0", "u queue/x") },
		"a dead letter without a cause": func(s *redistest.Server, _ string) { s.Do("ZADD", q+":dead", "5", "5") },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Single(t)
			e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Lanes: 1}))
			if _, err := e.Publish(t.Context(), 0, commitOf("acme", "one", "two", "three")); err != nil {
				t.Fatal(err)
			}
			got, err := e.Lease(t.Context(), 0, millrace.Lease{Queue: testQueue, Max: 1, MaxBytes: 1, For: time.Minute, Token: millrace.Token{1}})
			if err != nil || len(got.Messages) != 1 {
				t.Fatalf("leased %d: %v", len(got.Messages), err)
			}
			if err := e.Check(t.Context()); err != nil {
				t.Fatalf("broken before: %v", err)
			}
			breakIt(s, strconv.FormatUint(got.Messages[0].Name, 10))
			if err := e.Check(t.Context()); err == nil {
				t.Error("Check saw nothing")
			}
		})
	}
}

// A body that somebody removed by hand takes its message along, and no other.
func TestAMessageWithoutABodyDoesNotStopItsQueue(t *testing.T) {
	const lane = "millrace:{712}"
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{Lanes: 1}))
	stamped, err := e.Publish(t.Context(), 0, commitOf("acme", "one", "two", "three"))
	if err != nil {
		t.Fatal(err)
	}
	s.Do("HDEL", lane+":body", strconv.FormatUint(stamped.Stamps[1].Seq, 10))
	if shown, err := e.Peek(t.Context(), 0, millrace.Peek{Queue: testQueue, Limit: 10}); err != nil || len(shown) != 2 {
		t.Errorf("shown %d: %v", len(shown), err)
	}
	token := millrace.Token{1}
	l := millrace.Lease{Queue: testQueue, Max: 10, MaxBytes: 1 << 20, For: time.Minute, Token: token}
	got, err := e.Lease(t.Context(), 0, l)
	if err != nil || len(got.Messages) != 2 || string(got.Messages[1].Body) != "three" {
		t.Fatalf("leased %+v: %v", got.Messages, err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if stats, err := e.Stats(t.Context(), 0, testQueue); err != nil || stats.Dropped != 1 || stats.Leased != 2 {
		t.Errorf("stats %+v: %v", stats, err)
	}
}

func TestAServerThatIsNotThereIsUnavailableNotUnknown(t *testing.T) {
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	s.Kill()
	_, err := e.Step(t.Context(), 0, time.Time{}, 10) // it may be on its way when the connection breaks
	if code := millrace.CodeOf(err); code != millrace.CodeOutcomeUnknown && code != millrace.CodeUnavailable {
		t.Errorf("the first call: %v", err)
	}
	_, err = e.Step(t.Context(), 0, time.Time{}, 10) // it waits for the server as long as it has patience
	wantCode(t, err, millrace.CodeUnavailable)
}

func TestACallThatWaitsForItsServerGoesOnWhenItIsBack(t *testing.T) {
	s := redistest.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	s.Kill()
	if _, err := e.Stats(t.Context(), 0, testQueue); err == nil { // sees that the server is gone
		t.Fatal("a killed server answered")
	}
	done := make(chan error, 1)
	go func() {
		_, err := e.Stats(t.Context(), 0, testQueue)
		done <- err
	}()
	s.Restart()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestACallToAFrozenServerEndsByItself(t *testing.T) {
	t.Parallel() // it mostly waits
	s := redistest.Single(t)
	e := withQueue(t, opened(t, s.URL(), millrace.EngineOptions{}))
	s.Pause()
	defer s.Resume()
	reading := make(chan error, 1)
	go func() {
		_, err := e.Stats(t.Context(), 0, testQueue)
		reading <- err
	}()
	start := time.Now()
	_, err := e.Publish(t.Context(), 0, commitOf("acme", "x"))
	wantCode(t, err, millrace.CodeOutcomeUnknown)
	wantCode(t, <-reading, millrace.CodeUnavailable)
	if waited := time.Since(start); waited > 20*time.Second {
		t.Errorf("it took %s", waited)
	}
}
