package client

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// storedSubscription is a subscription as it is shown: of its secrets only the ends.
func storedSubscription() millrace.Subscription {
	s := millrace.Subscription{
		Name: "shop", Version: 3, State: millrace.StateFailing, Reason: "status 500", Spec: millrace.DefaultSubscriptionSpec("https://shop.example/hook"),
		Queued: 12, Sent: 1024, Failed: 3, Dead: 2, Dropped: 1, Skipped: 7, Oldest: moment, NextAttemptAt: moment.Add(time.Minute),
	}
	s.Spec.Topics, s.Spec.Ordered, s.Spec.Format = []string{"orders", "b.ills"}, true, millrace.FormatCloudEvents
	s.Spec.Secrets = []millrace.Secret{{Text: "NTY3"}, {Text: "abcd", ExpiresAt: moment}}
	return s
}

// shownSpec is the definition without its secrets, as documents have it.
func shownSpec() millrace.SubscriptionSpec {
	spec := storedSubscription().Spec
	spec.Secrets = nil
	return spec
}

var (
	storedBatch = millrace.SubscriptionBatch{ID: "01K0B", Batch: millrace.Batch{
		State: millrace.BatchPending, Count: 1, Bytes: 256, Attempts: 2, CreatedAt: moment, DueAt: moment.Add(time.Minute), Node: "01K0N", Error: "status 500",
	}}
	storedAttempt = millrace.Attempt{
		Batch: "01K0B", Attempt: 2, At: moment, Status: 500, Error: millrace.AttemptStatus, Duration: 12 * time.Millisecond, Count: 1, Answer: "oops\n", Node: "01K0N",
	}
)

type scriptedSubscriptions struct{ *scripted }

func (s scriptedSubscriptions) Put(_ context.Context, name string, spec millrace.SubscriptionSpec) (millrace.Subscription, bool, error) {
	sub := storedSubscription()
	sub.MadeSecret = "whsec_made"
	return sub, true, s.note("put %q %+v", name, spec)
}

func (s scriptedSubscriptions) Get(_ context.Context, name string) (millrace.Subscription, error) {
	return storedSubscription(), s.note("get %q", name)
}

func (s scriptedSubscriptions) List(_ context.Context, page millrace.Page) ([]millrace.Subscription, string, error) {
	return []millrace.Subscription{storedSubscription()}, "", s.note("list %+v", page)
}

func (s scriptedSubscriptions) Delete(_ context.Context, name string, ifEmpty bool) error {
	return s.note("delete %q %v", name, ifEmpty)
}

func (s scriptedSubscriptions) Pause(_ context.Context, name string) error {
	return s.note("pause %q", name)
}

func (s scriptedSubscriptions) Resume(_ context.Context, name string) error {
	return s.note("resume %q", name)
}

func (s scriptedSubscriptions) Test(_ context.Context, name string) (millrace.Attempt, error) {
	return millrace.Attempt{Attempt: 1, At: moment, OK: true, Status: 204, Count: 1, Node: "01K0N"}, s.note("test %q", name)
}

func (s scriptedSubscriptions) Rotate(_ context.Context, name, secret string, overlap time.Duration) (string, time.Time, error) {
	return "whsec_new", moment, s.note("rotate %q %q %s", name, secret, overlap)
}

func (s scriptedSubscriptions) Batches(_ context.Context, name string, q millrace.BatchQuery) ([]millrace.SubscriptionBatch, string, error) {
	return []millrace.SubscriptionBatch{storedBatch, storedBatch}, "", s.note("batches %q %+v", name, q)
}

func (s scriptedSubscriptions) GetBatch(_ context.Context, name, id string) (millrace.SubscriptionBatch, error) {
	b := storedBatch
	b.Events = []millrace.Event{storedEvent}
	return b, s.note("batch %q %q", name, id)
}

func (s scriptedSubscriptions) DropBatch(_ context.Context, name, id string) error {
	return s.note("drop %q %q", name, id)
}

func (s scriptedSubscriptions) RetryBatch(_ context.Context, name, id string) (int, error) {
	return 1, s.note("retry %q %q", name, id)
}

func (s scriptedSubscriptions) RetryDead(_ context.Context, name string) (int, error) {
	return 31, s.note("retry dead %q", name)
}

func (s scriptedSubscriptions) Attempts(_ context.Context, name, batch, event string) ([]millrace.Attempt, error) {
	return []millrace.Attempt{storedAttempt}, s.note("attempts %q %q %q", name, batch, event)
}

func (s scriptedSubscriptions) Inject(_ context.Context, name string, events ...millrace.Event) (int, error) {
	return len(events), s.note("inject %q %d %+v", name, len(events), events[0])
}

// everythingOfSubscriptions asks every method of subscriptions.
func everythingOfSubscriptions() map[string]question {
	spec := storedSubscription().Spec
	spec.UUID, spec.Secrets = "u-1", []millrace.Secret{{Text: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"}}
	on := func(ask func(s millrace.SubscriptionService) []any) question {
		return func(b millrace.Backbone) []any { return ask(b.Subscriptions()) }
	}
	return map[string]question{
		"sub put": on(func(s millrace.SubscriptionService) []any {
			sub, created, err := s.Put(ctx, "shop", spec)
			return results(sub, created, err)
		}),
		"sub put, secret to be made": on(func(s millrace.SubscriptionService) []any {
			spec := spec
			spec.Secrets = nil
			sub, created, err := s.Put(ctx, "shop", spec)
			return results(sub, created, err)
		}),
		"sub get": on(func(s millrace.SubscriptionService) []any { sub, err := s.Get(ctx, "shop"); return results(sub, err) }),
		"sub list": on(func(s millrace.SubscriptionService) []any {
			list, next, err := s.List(ctx, millrace.Page{Limit: 3})
			return results(list, next, err)
		}),
		"sub delete":          on(func(s millrace.SubscriptionService) []any { return results(s.Delete(ctx, "shop", false)) }),
		"sub delete if empty": on(func(s millrace.SubscriptionService) []any { return results(s.Delete(ctx, "shop", true)) }),
		"sub pause":           on(func(s millrace.SubscriptionService) []any { return results(s.Pause(ctx, "shop")) }),
		"sub resume":          on(func(s millrace.SubscriptionService) []any { return results(s.Resume(ctx, "shop")) }),
		"sub test":            on(func(s millrace.SubscriptionService) []any { a, err := s.Test(ctx, "shop"); return results(a, err) }),
		"sub rotate": on(func(s millrace.SubscriptionService) []any {
			made, until, err := s.Rotate(ctx, "shop", "whsec_x", time.Hour)
			return results(made, until, err)
		}),
		"sub batches": on(func(s millrace.SubscriptionService) []any {
			list, next, err := s.Batches(ctx, "shop", millrace.BatchQuery{State: millrace.BatchDead, Page: millrace.Page{Limit: 3}})
			return results(list, next, err)
		}),
		"sub batch": on(func(s millrace.SubscriptionService) []any {
			b, err := s.GetBatch(ctx, "shop", "01K0B")
			return results(b, err)
		}),
		"sub drop": on(func(s millrace.SubscriptionService) []any { return results(s.DropBatch(ctx, "shop", "01K0B")) }),
		"sub retry": on(func(s millrace.SubscriptionService) []any {
			n, err := s.RetryBatch(ctx, "shop", "01K0B")
			return results(n, err)
		}),
		"sub retry dead": on(func(s millrace.SubscriptionService) []any { n, err := s.RetryDead(ctx, "shop"); return results(n, err) }),
		"sub attempts": on(func(s millrace.SubscriptionService) []any {
			list, err := s.Attempts(ctx, "shop", "", "")
			return results(list, err)
		}),
		"sub attempts of one": on(func(s millrace.SubscriptionService) []any {
			list, err := s.Attempts(ctx, "shop", "01K0B", "a:1/ü")
			return results(list, err)
		}),
		"sub inject": on(func(s millrace.SubscriptionService) []any {
			n, err := s.Inject(ctx, "shop", storedEvent, storedEvent)
			return results(n, err)
		}),
	}
}

func TestBadArgumentsOfSubscriptionsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	s := &scripted{}
	subs := connect(t, s, Options{}, nil).Subscriptions()
	for name, do := range map[string]func() error{
		"bad name":   func() error { _, err := subs.Get(ctx, "a/b"); return err },
		"dots":       func() error { return subs.Delete(ctx, "..", false) },
		"no name":    func() error { return subs.Pause(ctx, "") },
		"no batch":   func() error { _, err := subs.GetBatch(ctx, "shop", ""); return err },
		"bad batch":  func() error { return subs.DropBatch(ctx, "shop", "a\n") },
		"no retry":   func() error { _, err := subs.RetryBatch(ctx, "shop", ""); return err },
		"no events":  func() error { _, err := subs.Inject(ctx, "shop"); return err },
		"bad rotate": func() error { _, _, err := subs.Rotate(ctx, "a:b", "", time.Hour); return err },
	} {
		if err := do(); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := s.taken(); len(calls) != 0 {
		t.Errorf("sent %v", calls)
	}
}
