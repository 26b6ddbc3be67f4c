package client

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

var ctx = context.Background()

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.UnixMilli() == b.UnixMilli() })); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestAMessageIsTheSameThroughTheClientAsInProcess(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{Token: "secret"}, nil)
	spec := millrace.DefaultQueueSpec(":orders:")
	queue, created, err := c.Queues().Put(ctx, "emails", spec)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	equal(t, queue, must[millrace.Queue](t)(b.Queues().Get(ctx, "emails")))
	if _, created, err = c.Queues().Put(ctx, "emails", spec); err != nil || created {
		t.Fatal(created, err)
	}

	sent := millrace.Event{
		ID: "a-1", Topic: "orders", Type: "created", Tenant: "acme", Key: "order:7/ü", Time: time.Now().UTC().Truncate(time.Millisecond),
		ContentType: "text/plain", Data: []byte("\x00\xff"), Attributes: map[string]string{"source": "/shop \"x\""},
	}
	plain := millrace.Event{Topic: "orders", Type: "paid", Data: []byte(`{ "n" : 1.0 }`)}
	results := must[[]millrace.Published](t)(c.Publish(ctx, sent, plain))
	if len(results) != 2 || results[0].ID != "a-1" || !results[0].HasKey || results[1].HasKey || results[1].Sinks != 1 || len(results[1].ID) != 26 {
		t.Fatalf("published %+v", results)
	}

	messages := must[[]millrace.Message](t)(c.Queues().Lease(ctx, "emails", millrace.LeaseOptions{Max: 10, Lease: time.Minute}))
	if len(messages) != 2 {
		t.Fatalf("leased %d", len(messages))
	}
	got := messages[0].Event
	sent.RecordedAt, sent.Seq = got.RecordedAt, results[0].Seq
	equal(t, got, sent)
	if string(messages[1].Event.Data) != `{ "n" : 1.0 }` || messages[1].Event.Tenant != millrace.DefaultTenant || messages[1].Attempt != 1 {
		t.Errorf("leased %+v", messages[1])
	}
}

func TestEverySettlementGoesThrough(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{}, nil)
	q := c.Queues()
	if _, _, err := q.Put(ctx, "emails", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		must[[]millrace.Published](t)(c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"}))
	}
	m := must[[]millrace.Message](t)(q.Lease(ctx, "emails", millrace.LeaseOptions{Max: 4}))
	if len(m) != 4 {
		t.Fatalf("leased %d", len(m))
	}
	extended := must[millrace.SettleResult](t)(q.Extend(ctx, "emails", time.Hour, m[0].Receipt, "nothing"))
	if extended.Settled != 1 || !reflect.DeepEqual(extended.Lost, []string{"nothing"}) || time.Until(extended.LeasedUntil) < 59*time.Minute {
		t.Errorf("extended %+v", extended)
	}
	delay := time.Hour
	for name, settle := range map[string]func() (millrace.SettleResult, error){
		"ack": func() (millrace.SettleResult, error) {
			return q.Ack(ctx, "emails", millrace.Settlement{Receipt: m[0].Receipt, Error: "does not count"})
		},
		"retry": func() (millrace.SettleResult, error) {
			return q.Retry(ctx, "emails", millrace.Settlement{Receipt: m[1].Receipt, Delay: &delay, Error: "boom"})
		},
		"bury": func() (millrace.SettleResult, error) {
			return q.Bury(ctx, "emails", millrace.Settlement{Receipt: m[2].Receipt, Error: "bang", Delay: &delay})
		},
	} {
		if r := must[millrace.SettleResult](t)(settle()); r.Settled != 1 || len(r.Lost) != 0 || r.Dead != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	queue := must[millrace.Queue](t)(q.Get(ctx, "emails"))
	equal(t, queue.QueueCounts, millrace.QueueCounts{Leased: 1, Delayed: 1, Dead: 1})
	equal(t, queue, must[millrace.Queue](t)(b.Queues().Get(ctx, "emails")))
	if r := must[millrace.SettleResult](t)(q.Ack(ctx, "emails")); r.Settled != 0 {
		t.Errorf("nothing became %+v", r)
	}
}

func TestListsTopicsAndTheHouseAreTheSameThroughTheClient(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{}, nil)
	for _, name := range []string{"a", "b", "c"} {
		if _, _, err := c.Queues().Put(ctx, name, millrace.DefaultQueueSpec(":"+name+":")); err != nil {
			t.Fatal(err)
		}
		must[[]millrace.Published](t)(c.Publish(ctx, millrace.Event{Topic: name, Type: "x"}))
	}
	all, _, err := b.Queues().List(ctx, millrace.Page{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, pages(t, c.Queues().List), all)
	topics, _, err := b.Topics().List(ctx, millrace.Page{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, pages(t, c.Topics().List), topics)

	handed := must[millrace.Topic](t)(c.Topics().Put(ctx, "a", "shop"))
	equal(t, handed, must[millrace.Topic](t)(b.Topics().Get(ctx, "a")))
	if freed := must[millrace.Topic](t)(c.Topics().Put(ctx, "a", "")); freed.Publisher != "" || handed.Publisher != "shop" {
		t.Errorf("handed %+v, freed %+v", handed, freed)
	}
	if err := c.Topics().Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topics().Get(ctx, "a"); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("got %v", err)
	}

	stats, want := must[millrace.Stats](t)(c.Stats(ctx)), must[millrace.Stats](t)(b.Stats(ctx))
	if stats.Published != 3 || stats.Queues != want.Queues || stats.Engine != want.Engine || stats.Durability != want.Durability || stats.Lanes != want.Lanes {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
	equal(t, must[[]millrace.Node](t)(c.Nodes(ctx)), must[[]millrace.Node](t)(b.Nodes(ctx)))

	if err := c.Queues().Delete(ctx, "a", true); millrace.CodeOf(err) != millrace.CodeNotEmpty {
		t.Errorf("got %v", err)
	}
	if err := c.Queues().Delete(ctx, "a", false); err != nil {
		t.Error(err)
	}
	if err := c.Queues().Delete(ctx, "a", false); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// pages reads a list two at a time.
func pages[T any](t *testing.T, list func(context.Context, millrace.Page) ([]T, string, error)) (all []T) {
	t.Helper()
	page := millrace.Page{Limit: 2}
	for range 10 {
		part, next, err := list(ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
		if next == "" {
			return all
		}
		page.Cursor = next
	}
	t.Fatal("the list does not end")
	return nil
}

func TestErrorsAreTheSameThroughTheClient(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{}, nil)
	long := strings.Repeat("x", 129)
	for name, do := range map[string]func(millrace.Backbone) error{
		"no queue": func(m millrace.Backbone) error { _, err := m.Queues().Get(ctx, "none"); return err },
		"no lease": func(m millrace.Backbone) error {
			_, err := m.Queues().Lease(ctx, "none", millrace.LeaseOptions{})
			return err
		},
		"no settle": func(m millrace.Backbone) error {
			_, err := m.Queues().Ack(ctx, "none", millrace.Settlement{Receipt: "x"})
			return err
		},
		"no delete": func(m millrace.Backbone) error { return m.Queues().Delete(ctx, "none", false) },
		"no topic":  func(m millrace.Backbone) error { _, err := m.Topics().Get(ctx, "none"); return err },
		"bad name":  func(m millrace.Backbone) error { _, err := m.Queues().Get(ctx, ".."); return err },
		"bad topic": func(m millrace.Backbone) error { _, err := m.Topics().Get(ctx, "a/b"); return err },
		"no events": func(m millrace.Backbone) error { _, err := m.Publish(ctx); return err },
		"bad event": func(m millrace.Backbone) error {
			_, err := m.Publish(ctx, millrace.Event{Topic: "a:b", ID: long, Data: []byte("{")})
			return err
		},
		"bad cursor": func(m millrace.Backbone) error {
			_, _, err := m.Queues().List(ctx, millrace.Page{Cursor: "\x00"})
			return err
		},
		"bad limit": func(m millrace.Backbone) error {
			_, _, err := m.Queues().List(ctx, millrace.Page{Limit: 1001})
			return err
		},
		"bad pattern": func(m millrace.Backbone) error {
			_, _, err := m.Queues().Put(ctx, "q", millrace.DefaultQueueSpec("("))
			return err
		},
	} {
		inProcess, remote := do(b), do(c)
		if inProcess == nil || millrace.CodeOf(inProcess) != millrace.CodeOf(remote) {
			t.Errorf("%s: in-process %v, remote %v", name, inProcess, remote)
		}
	}
	_, inProcess := b.Publish(ctx, millrace.Event{Topic: "a:b", ID: long})
	_, remote := c.Publish(ctx, millrace.Event{Topic: "a:b", ID: long})
	if inProcess.Error() != remote.Error() {
		t.Errorf("in-process %v, remote %v", inProcess, remote)
	}
}

func TestAWrongTokenIsUnauthenticated(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{Token: "right"}, nil)
	if _, err := c.Stats(ctx); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "wrong"} {
		wrong := dial(t, c.base, Options{Token: token})
		if _, err := wrong.Stats(ctx); millrace.CodeOf(err) != millrace.CodeUnauthenticated {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestManyGoroutinesShareOneClient(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{}, nil)
	if _, _, err := c.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 16 {
		wg.Go(func() {
			for range 20 {
				r, err := c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[r[0].ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n := must[millrace.Queue](t)(c.Queues().Get(ctx, "emails")).Ready; n != 320 || len(ids) != 320 {
		t.Errorf("%d messages, %d ids", n, len(ids))
	}
}

func TestIDsSortInTheOrderTheyWereMade(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1", Options{})
	last := ""
	for range 10000 {
		id := must[string](t)(c.newID())
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestABadServerURLIsRefused(t *testing.T) {
	for _, url := range []string{"", "localhost:7070", "ftp://x", "http://", "http://token@host", "http://host?x=1", "http://host#x", "http://[::1"} {
		if _, err := New(url, Options{}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
