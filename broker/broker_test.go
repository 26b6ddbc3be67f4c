package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/engine/embedded"
	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The wire's form of events is what subscriptions are sent.
func TestTheBrokerKnowsTheWordsTheWireAndOpensEngines(t *testing.T) {
	importguard.Check(t, ".", "api", "engine", "internal/tracing", "webhook")
}

// spoiled is an engine that can be made to fail.
type spoiled struct {
	millrace.Engine

	mu     sync.Mutex
	refuse map[int]error // by lane, what Publish and Inject answer
}

func (s *spoiled) Publish(ctx context.Context, lane int, c millrace.Commit) (millrace.Committed, error) {
	s.mu.Lock()
	err := s.refuse[lane]
	s.mu.Unlock()
	if err != nil {
		return millrace.Committed{}, err
	}
	return s.Engine.Publish(ctx, lane, c)
}

func (s *spoiled) Inject(ctx context.Context, lane int, in millrace.Inject) error {
	s.mu.Lock()
	err := s.refuse[lane]
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Engine.Inject(ctx, lane, in)
}

func openMemory(t *testing.T, lanes int) *spoiled {
	t.Helper()
	e, err := embedded.OpenMemory(t.Context(), millrace.EngineOptions{Lanes: lanes})
	if err != nil {
		t.Fatal(err)
	}
	return &spoiled{Engine: e, refuse: map[int]error{}}
}

func start(t *testing.T, e millrace.Engine, observers ...Observer) *Broker {
	t.Helper()
	o := Options{Logger: slog.New(slog.DiscardHandler)}
	if len(observers) > 0 {
		o.Observer = observers[0]
	}
	b, err := New(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

func define(t *testing.T, b *Broker, name, match string) {
	t.Helper()
	if _, _, err := b.Queues().Put(t.Context(), name, millrace.DefaultQueueSpec(match)); err != nil {
		t.Fatal(err)
	}
}

func keyed(key string) millrace.Event {
	return millrace.Event{ID: "id-" + key, Topic: "orders", Type: "created", Tenant: "acme", Key: key}
}

// keysOf finds a key for each lane.
func keysOf(lanes int) []string {
	keys := make([]string, lanes)
	for c, found := byte('a'), 0; found < lanes; c++ {
		key := string(c)
		lane := millrace.LaneOf(millrace.Hash("acme", key), lanes)
		if keys[lane] == "" {
			keys[lane] = key
			found++
		}
	}
	return keys
}

func TestARequestOfWhichOneLaneFailsIsPartlyCommittedAndItsRepeatIsSafe(t *testing.T) {
	e := openMemory(t, 2)
	b := start(t, e)
	define(t, b, "all", ".")
	keys := keysOf(2)
	e.refuse[1] = millrace.Errorf(millrace.CodeUnavailable, "down")
	events := []millrace.Event{keyed(keys[0]), keyed(keys[1])}
	_, err := b.Publish(t.Context(), events...)
	var partly *millrace.Error
	if !errors.As(err, &partly) || partly.Code != millrace.CodePartlyCommitted {
		t.Fatalf("got %v", err)
	}
	if partly.Events[0].Err != nil || partly.Events[0].Seq == 0 || millrace.CodeOf(partly.Events[1].Err) != millrace.CodeUnavailable {
		t.Errorf("got %+v", partly.Events)
	}
	e.mu.Lock()
	delete(e.refuse, 1)
	e.mu.Unlock()
	again, err := b.Publish(t.Context(), events...)
	if err != nil || !again[0].Duplicate || again[0].Seq != partly.Events[0].Seq || again[1].Duplicate {
		t.Errorf("got %+v %v", again, err)
	}
	q, err := b.Queues().Get(t.Context(), "all")
	if err != nil || q.Ready != 2 {
		t.Errorf("got %d messages, %v", q.Ready, err)
	}
}

func TestARequestOfWhichAllLanesFailSaysWhy(t *testing.T) {
	e := openMemory(t, 2)
	b := start(t, e)
	keys := keysOf(2)
	e.refuse[0] = millrace.Errorf(millrace.CodeUnavailable, "down")
	e.refuse[1] = millrace.Errorf(millrace.CodeOutcomeUnknown, "perhaps")
	_, err := b.Publish(t.Context(), keyed(keys[0]), keyed(keys[1]))
	if millrace.CodeOf(err) != millrace.CodeOutcomeUnknown {
		t.Errorf("got %v, want the worse of the two", err)
	}
	if s, err := b.Stats(t.Context()); err != nil || s.Refused != 2 {
		t.Errorf("got %d refused, %v", s.Refused, err)
	}
}

func TestALargeFanOutIsSplitBetweenEvents(t *testing.T) {
	b := start(t, openMemory(t, 1))
	for i := range 30 {
		define(t, b, string(rune('a'+i%26))+string(rune('a'+i/26)), ".")
	}
	events := make([]millrace.Event, 1000) // × 30 queues: three commits and more
	for i := range events {
		events[i] = millrace.Event{Topic: "t", Type: "x"}
	}
	got, err := b.Publish(t.Context(), events...)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(got); i++ {
		if got[i].Sinks != 30 || got[i].Seq <= got[i-1].Seq {
			t.Fatalf("event %d: %+v after %+v", i, got[i], got[i-1])
		}
	}
	if s, err := b.Stats(t.Context()); err != nil || s.Queues.Ready != 30000 {
		t.Errorf("got %d messages, %v", s.Queues.Ready, err)
	}
}

func TestALaneAheadOfTheRegistryDoesNotStopPublishing(t *testing.T) {
	e := openMemory(t, 1)
	b := start(t, e)
	define(t, b, "all", ".")
	if _, err := e.Apply(t.Context(), 0, millrace.Apply{Version: 40}); err != nil {
		t.Fatal(err)
	}
	got, err := b.Publish(t.Context(), keyed("a"))
	if err != nil || got[0].Sinks != 1 {
		t.Fatalf("got %+v %v", got, err)
	}
	if v := b.registry.now().version; v <= 40 {
		t.Errorf("the registry is at %d, want it past the lane's 40", v)
	}
}

func TestAQueueThatALaneHasNotHeardOfIsToldToIt(t *testing.T) {
	e := openMemory(t, 1)
	b := start(t, e)
	// A node dies between writing the definition and telling the lanes.
	d := millrace.Definition{Kind: millrace.KindQueue, Name: "half", UID: newUID(), Spec: []byte(`{"match":"."}`)}
	if _, err := e.Define(t.Context(), d, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Queues().Lease(t.Context(), "half", millrace.LeaseOptions{}); err != nil || len(got) != 0 {
		t.Errorf("lease: got %v %v", got, err)
	}
	got, err := b.Publish(t.Context(), keyed("a"))
	if err != nil || got[0].Sinks != 1 {
		t.Fatalf("publish: got %+v %v", got, err)
	}
}

func TestADrainingBrokerRefusesWhatComesAndLetsWaitersGo(t *testing.T) {
	b := start(t, openMemory(t, 1))
	define(t, b, "all", ".")
	answered := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		close(entered)
		got, err := b.Queues().Lease(context.Background(), "all", millrace.LeaseOptions{Wait: time.Minute})
		if err == nil && len(got) != 0 {
			err = errors.New("got messages")
		}
		answered <- err
	}()
	<-entered
	eventually(t, "it waits", func() bool {
		b.waiting.mu.Lock()
		defer b.waiting.mu.Unlock()
		q := b.waiting.queues[b.registry.now().queues["all"].uid]
		return q != nil && len(q.waiters) == 1
	})
	b.Drain()
	if err := <-answered; err != nil {
		t.Errorf("the waiting lease: %v", err)
	}
	if _, err := b.Publish(t.Context(), keyed("a")); !errors.Is(err, millrace.ErrDraining) {
		t.Errorf("publish: got %v", err)
	}
	if err := b.Ready(t.Context()); !errors.Is(err, millrace.ErrDraining) {
		t.Errorf("ready: got %v", err)
	}
}

func TestAPageOfNames(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	first, next, err := pageOf(names, millrace.Page{Limit: 2})
	if err != nil || len(first) != 2 || next != "b" {
		t.Fatalf("got %v %q %v", first, next, err)
	}
	second, next, err := pageOf(names, millrace.Page{Limit: 2, Cursor: next})
	if err != nil || len(second) != 2 || second[0] != "c" || next != "" {
		t.Errorf("got %v %q %v", second, next, err)
	}
	if rest, _, err := pageOf(names, millrace.Page{Cursor: "bb"}); err != nil || len(rest) != 2 {
		t.Errorf("from a name that is gone: got %v %v", rest, err)
	}
	for _, bad := range []millrace.Page{{Limit: -1}, {Limit: 1001}, {Cursor: "a:b"}} {
		if _, _, err := pageOf(names, bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}
