package client

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

// question is one thing to ask of a backbone, and what came of it.
type question func(millrace.Backbone) []any

func results(list ...any) []any { return list }

// everything asks every method that the engines' tests do not reach through a client.
func everything() map[string]question {
	all := everythingOfQueues()
	maps.Copy(all, everythingOfSubscriptions())
	return all
}

func everythingOfQueues() map[string]question {
	spec := millrace.DefaultQueueSpec(":orders:")
	spec.Ordered, spec.OnExhausted, spec.TenantLimit, spec.MaxLength, spec.DeadRetention = true, millrace.ExhaustedBlock, 5, 7, 48*time.Hour
	page := millrace.Page{Limit: 3}
	return map[string]question{
		"publish with a delay": func(b millrace.Backbone) []any {
			r, err := b.Publish(ctx, millrace.Event{ID: "a-1", Topic: "orders", Type: "created", Delay: 90 * time.Minute})
			return results(r, err)
		},
		"publish for a time": func(b millrace.Backbone) []any {
			r, err := b.Publish(ctx, millrace.Event{ID: "a-1", Topic: "orders", Type: "created", DeliverAt: moment})
			return results(r, err)
		},
		"held":   func(b millrace.Backbone) []any { e, err := b.Held(ctx, "acme", "a:1/ü"); return results(e, err) },
		"dots":   func(b millrace.Backbone) []any { e, err := b.Held(ctx, "acme", ".."); return results(e, err) },
		"odd":    func(b millrace.Backbone) []any { e, err := b.Held(ctx, "acme", "%2F a?b#c;d"); return results(e, err) },
		"cancel": func(b millrace.Backbone) []any { return results(b.CancelHeld(ctx, "acme", "a:1/ü")) },
		"route": func(b millrace.Backbone) []any {
			r, err := b.Route(ctx, "acme", "orders", "created")
			return results(r, err)
		},
		"stats": func(b millrace.Backbone) []any { s, err := b.Stats(ctx); return results(s.Held, err) },

		"definitions": func(b millrace.Backbone) []any { d, err := b.Definitions(ctx); return results(d, err) },
		"apply": func(b millrace.Backbone) []any {
			a, err := b.Apply(ctx, storedDocument, millrace.ApplyOptions{})
			return results(a, err)
		},
		"prune, dry": func(b millrace.Backbone) []any {
			a, err := b.Apply(ctx, storedDocument, millrace.ApplyOptions{Prune: true, DryRun: true})
			return results(a, err)
		},
		"put": func(b millrace.Backbone) []any {
			q, created, err := b.Queues().Put(ctx, "emails", spec)
			return results(q, created, err)
		},
		"lease": func(b millrace.Backbone) []any {
			m, err := b.Queues().Lease(ctx, "emails", millrace.LeaseOptions{Max: 2, Wait: time.Second, Lease: time.Minute, Consumer: "w-1"})
			return results(m, err)
		},
		"at most once": func(b millrace.Backbone) []any {
			m, err := b.Queues().Lease(ctx, "emails", millrace.LeaseOptions{AtMostOnce: true})
			return results(m, err)
		},
		"lease any": func(b millrace.Backbone) []any {
			m, err := b.Queues().LeaseAny(ctx, map[string]int{"emails": 10, "sms": 1}, millrace.LeaseOptions{Max: 2, Consumer: "w-1"})
			return results(m, err)
		},
		"release": func(b millrace.Backbone) []any {
			n, err := b.Queues().Release(ctx, "emails", "w-1")
			return results(n, err)
		},
		"pause":  func(b millrace.Backbone) []any { return results(b.Queues().Pause(ctx, "emails")) },
		"resume": func(b millrace.Backbone) []any { return results(b.Queues().Resume(ctx, "emails")) },
		"peek": func(b millrace.Backbone) []any {
			m, err := b.Queues().Peek(ctx, "emails", "acme", 3)
			return results(m, err)
		},
		"peek all": func(b millrace.Backbone) []any {
			m, err := b.Queues().Peek(ctx, "emails", "", 100)
			return results(m, err)
		},
		"dead": func(b millrace.Backbone) []any {
			m, next, err := b.Queues().Dead(ctx, "emails", "acme", page)
			return results(m, next, err)
		},
		"redrive some": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().Redrive(ctx, "emails", millrace.DeadSelection{IDs: []string{"01K0C", "01K0D"}})
			return results(n, left, err)
		},
		"redrive all": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().Redrive(ctx, "emails", millrace.DeadSelection{All: true, Tenant: "acme"})
			return results(n, left, err)
		},
		"drop one": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().DropDead(ctx, "emails", millrace.DeadSelection{IDs: []string{"01K0C"}})
			return results(n, left, err)
		},
		"drop all": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().DropDead(ctx, "emails", millrace.DeadSelection{All: true})
			return results(n, left, err)
		},
		"drop a tenant's": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().DropDead(ctx, "emails", millrace.DeadSelection{All: true, Tenant: "acme"})
			return results(n, left, err)
		},
		"purge": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().Purge(ctx, "emails", "acme")
			return results(n, left, err)
		},
		"purge all": func(b millrace.Backbone) []any {
			n, left, err := b.Queues().Purge(ctx, "emails", "")
			return results(n, left, err)
		},
		"tenants": func(b millrace.Backbone) []any {
			list, next, err := b.Queues().Tenants(ctx, "emails", page)
			return results(list, next, err)
		},
		"tenant": func(b millrace.Backbone) []any {
			x, err := b.Queues().Tenant(ctx, "emails", "acme")
			return results(x, err)
		},
		"put tenant": func(b millrace.Backbone) []any {
			x, err := b.Queues().PutTenant(ctx, "emails", "acme", millrace.TenantSettings{Weight: 0, Limit: 0})
			return results(x, err)
		},
		"put tenant's weight": func(b millrace.Backbone) []any {
			x, err := b.Queues().PutTenant(ctx, "emails", "acme", millrace.TenantSettings{Weight: 5, Limit: -1})
			return results(x, err)
		},
		"delete tenant": func(b millrace.Backbone) []any { return results(b.Queues().DeleteTenant(ctx, "emails", "acme")) },
		"inject": func(b millrace.Backbone) []any {
			n, err := b.Queues().Inject(ctx, "emails", storedEvent, storedEvent)
			return results(n, err)
		},
	}
}

func TestEveryMethodMeansTheSameThroughTheClient(t *testing.T) {
	direct, served := &scripted{}, &scripted{}
	c := connect(t, served, Options{Token: "secret"}, nil)
	for name, ask := range everything() {
		t.Run(name, func(t *testing.T) {
			want, got := ask(direct), ask(c)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("results (-in-process +remote):\n%s", diff)
			}
			if diff := cmp.Diff(direct.taken(), served.taken()); diff != "" {
				t.Errorf("asked (-in-process +remote):\n%s", diff)
			}
		})
	}
}

func TestEveryErrorIsTheSameThroughTheClient(t *testing.T) {
	for _, code := range []millrace.Code{millrace.CodeNotFound, millrace.CodeFull, millrace.CodeImmutable, millrace.CodeStoreFull} {
		failure := &millrace.Error{Code: code, Detail: "so it is"}
		if code == millrace.CodeFull {
			failure.Sink = "emails"
		}
		direct, served := &scripted{err: failure}, &scripted{err: failure}
		c := connect(t, served, Options{RetryFor: -1}, nil)
		for name, ask := range everything() {
			want, got := ask(direct), ask(c)
			in, out := want[len(want)-1].(error), got[len(got)-1].(error)
			if millrace.CodeOf(out) != millrace.CodeOf(in) {
				t.Errorf("%s: in-process %v, remote %v", name, in, out)
			}
		}
	}
}

func TestASinkThatIsFullIsNamed(t *testing.T) {
	c := connect(t, &scripted{err: &millrace.Error{Code: millrace.CodeFull, Detail: "no room", Sink: "emails"}}, Options{}, nil)
	_, err := c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"})
	var e *millrace.Error
	if !errors.As(err, &e) || e.Code != millrace.CodeFull || e.Sink != "emails" {
		t.Errorf("got %v", err)
	}
}

// repeated says, for every call, whether it is asked again when its answer was lost.
var repeated = map[string]bool{
	"publish with a delay": true, "publish for a time": true, "held": true, "dots": true, "odd": true, "cancel": true, "route": true, "stats": true, "put": true,
	"definitions": true, "apply": true, "prune, dry": true,
	"pause": true, "resume": true, "peek": true, "peek all": true, "dead": true, "drop one": true,
	"tenants": true, "tenant": true, "put tenant": true, "put tenant's weight": true, "delete tenant": true,

	"sub put": true, "sub get": true, "sub list": true, "sub delete": true, "sub delete if empty": true, "sub pause": true, "sub resume": true,
	"sub batches": true, "sub batch": true, "sub drop": true, "sub attempts": true, "sub attempts of one": true,
	"sub put, secret to be made": false, "sub test": false, "sub rotate": false, "sub retry": false, "sub retry dead": false, "sub inject": false,

	"lease": false, "at most once": false, "lease any": false, "release": false, "redrive some": false, "redrive all": false,
	"drop all": false, "drop a tenant's": false, "purge": false, "purge all": false, "inject": false,
}

func TestOnlyWhatIsSafeIsRepeatedAfterALostAnswer(t *testing.T) {
	for name, ask := range everything() {
		safe, known := repeated[name]
		if !known {
			t.Errorf("%s: is it safe to repeat?", name)
		}
		var count atomic.Int64
		c := connect(t, &scripted{}, Options{}, failing(1, &count, cutAfter))
		got := ask(c)
		err, _ := got[len(got)-1].(error)
		switch {
		case safe && (err != nil || count.Load() != 2):
			t.Errorf("%s: %d tries, %v", name, count.Load(), err)
		case !safe && (millrace.CodeOf(err) != millrace.CodeOutcomeUnknown || count.Load() != 1):
			t.Errorf("%s: %d tries, %v", name, count.Load(), err)
		}
	}
}

func TestWhatIsGoneAfterALostAnswerWasRemoved(t *testing.T) {
	gone := func(w http.ResponseWriter, r *http.Request, h http.Handler) { cutAfter(w, r, h) }
	for _, name := range []string{"cancel", "drop one", "delete tenant", "sub delete", "sub drop"} {
		s := &scripted{}
		var count atomic.Int64
		around := func(h http.Handler) http.Handler {
			return failing(1, &count, func(w http.ResponseWriter, r *http.Request, h http.Handler) {
				defer func() { s.err = millrace.ErrNotFound }()
				gone(w, r, h)
			})(h)
		}
		got := everything()[name](connect(t, s, Options{}, around))
		if err := got[len(got)-1]; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALargeInjectionTakesSeveralRequests(t *testing.T) {
	large := storedEvent
	large.Data = []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	events := make([]millrace.Event, 50)
	for i := range events {
		events[i] = large
	}
	s := &scripted{}
	n, err := connect(t, s, Options{}, nil).Queues().Inject(ctx, "emails", events...)
	if calls := len(s.taken()); err != nil || n != 50 || calls != 3 {
		t.Errorf("%d of 50 in %d calls: %v", n, calls, err)
	}
}

func TestAnInjectionOfWhichALaterRequestFailsSaysWhichEventsAreIn(t *testing.T) {
	large := storedEvent
	large.Data = []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
	events := make([]millrace.Event, 50)
	for i := range events {
		events[i] = large
		events[i].ID = strconv.Itoa(i)
	}
	parts := injections(events)
	second := len(parts[0])
	results := make([]millrace.Published, len(parts[1]))
	for i := range results {
		results[i] = millrace.Published{ID: strconv.Itoa(second + i), Err: millrace.ErrUnavailable}
	}
	results[1] = millrace.Published{ID: strconv.Itoa(second + 1), Seq: 41, Sinks: 1}
	s := &scripted{refuse: map[string]error{strconv.Itoa(second): &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "some", Events: results}}}
	n, err := connect(t, s, Options{}, nil).Queues().Inject(ctx, "emails", events...)
	var partly *millrace.Error
	if !errors.As(err, &partly) || partly.Code != millrace.CodePartlyCommitted || len(partly.Events) != 50 || n != second+1 || strings.Contains(partly.Detail, "queue") {
		t.Fatalf("%d are in: %v", n, err)
	}
	for i, e := range partly.Events {
		if in := i < second || i == second+1; in != (e.Err == nil) || e.ID != strconv.Itoa(i) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	s := &scripted{}
	q := connect(t, s, Options{}, nil).Queues()
	for name, do := range map[string]func() error{
		"no selection": func() error { _, _, err := q.Redrive(ctx, "emails", millrace.DeadSelection{}); return err },
		"two": func() error {
			_, _, err := q.DropDead(ctx, "emails", millrace.DeadSelection{IDs: []string{"a"}, All: true})
			return err
		},
		"tenant of ids": func() error {
			_, _, err := q.Redrive(ctx, "emails", millrace.DeadSelection{IDs: []string{"a"}, Tenant: "b"})
			return err
		},
		"empty id": func() error {
			_, _, err := q.DropDead(ctx, "emails", millrace.DeadSelection{IDs: []string{""}})
			return err
		},
		"bad tenant": func() error { _, _, err := q.Purge(ctx, "emails", "a:b"); return err },
		"bad queue":  func() error { _, _, err := q.Purge(ctx, "..", ""); return err },
		"lease of nothing": func() error {
			_, err := q.Lease(ctx, "emails", millrace.LeaseOptions{AtMostOnce: true, Lease: time.Minute})
			return err
		},
		"no consumer":  func() error { _, err := q.Release(ctx, "emails", ""); return err },
		"no events":    func() error { _, err := q.Inject(ctx, "emails"); return err },
		"empty tenant": func() error { _, err := q.Tenant(ctx, "emails", ""); return err },
		"peek tenant":  func() error { _, err := q.Peek(ctx, "emails", "a/b", 1); return err },
	} {
		if err := do(); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := s.taken(); len(calls) != 0 {
		t.Errorf("sent %v", calls)
	}
}
