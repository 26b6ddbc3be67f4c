package acceptance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

// document is a house of two queues, one of them with tenants of their own weight, and a subscription.
func document() millrace.Document {
	ordered := millrace.DefaultQueueSpec(":orders:")
	ordered.Ordered, ordered.OnExhausted = true, millrace.ExhaustedBlock
	shop := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	shop.Topics = []string{"bills"}
	return millrace.Document{
		Subscriptions: map[string]millrace.SubscriptionSpec{"shop": shop},

		Queues:  map[string]millrace.QueueSpec{"emails": millrace.DefaultQueueSpec(":emails:"), "orders": ordered},
		Tenants: map[string]map[string]millrace.TenantSettings{"emails": {"acme": {Weight: 2, Limit: 0}, "big.co": {Weight: 0, Limit: -1}}},
	}
}

// applies checks what becomes of a document.
func applies(t *testing.T, b millrace.Backbone, d millrace.Document, o millrace.ApplyOptions, want millrace.Applied) {
	t.Helper()
	got, err := b.Apply(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []*[]string{&want.Created, &want.Changed, &want.Deleted} {
		if *list == nil {
			*list = []string{}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

func defined(t *testing.T, b millrace.Backbone, want millrace.Document) {
	t.Helper()
	got, err := b.Definitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestADocumentOfDefinitionsIsAppliedAndShownAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		all := millrace.Applied{Created: []string{"queue/emails", "queue/orders", "subscription/shop", "tenant/emails/acme", "tenant/emails/big.co"}}
		applies(t, h, document(), millrace.ApplyOptions{DryRun: true}, all)
		defined(t, h, millrace.Document{Queues: map[string]millrace.QueueSpec{}, Tenants: map[string]map[string]millrace.TenantSettings{}})
		applies(t, h, document(), millrace.ApplyOptions{}, all)
		defined(t, h, document())
		applies(t, h, document(), millrace.ApplyOptions{Prune: true}, millrace.Applied{Same: 5})

		// It is not only written: events reach the queue and the weight counts.
		publish(t, h, millrace.Event{Topic: "emails", Type: "x", Tenant: "acme"})
		q, err := h.Queues().Get(t.Context(), "emails")
		if err != nil || q.Ready != 1 || q.Version != 1 {
			t.Errorf("%+v, %v", q, err)
		}
		tenant, err := h.Queues().Tenant(t.Context(), "emails", "acme")
		if err != nil || tenant.Weight != 2 {
			t.Errorf("%+v, %v", tenant, err)
		}
	})
}

func TestADocumentChangesWhatItNamesAndPrunesTheRest(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		b := h.Backbone
		if _, err := b.Apply(t.Context(), document(), millrace.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := b.Queues().Pause(t.Context(), "emails"); err != nil {
			t.Fatal(err)
		}
		spec := millrace.DefaultQueueSpec(":emails:")
		spec.Lease = time.Minute
		next := millrace.Document{
			Queues:  map[string]millrace.QueueSpec{"emails": spec, "sms": millrace.DefaultQueueSpec(":sms:")},
			Tenants: map[string]map[string]millrace.TenantSettings{"emails": {"acme": {Weight: 3, Limit: 0}}, "sms": {"acme": {Weight: 5, Limit: 1}}},
		}
		changed := millrace.Applied{Created: []string{"queue/sms", "tenant/sms/acme"}, Changed: []string{"queue/emails", "tenant/emails/acme"}}
		applies(t, b, next, millrace.ApplyOptions{}, changed)
		if got, err := b.Definitions(t.Context()); err != nil || len(got.Queues) != 3 || len(got.Tenants["emails"]) != 2 {
			t.Errorf("what the document does not name has not stayed: %+v, %v", got, err)
		}
		q, err := b.Queues().Get(t.Context(), "emails")
		if err != nil || q.Version != 2 || q.State != millrace.StatePaused || q.Spec.Lease != time.Minute {
			t.Errorf("%+v, %v", q, err)
		}

		pruned := millrace.Applied{Deleted: []string{"queue/orders", "subscription/shop", "tenant/emails/big.co"}, Same: 4}
		applies(t, b, next, millrace.ApplyOptions{Prune: true, DryRun: true}, pruned)
		applies(t, b, next, millrace.ApplyOptions{Prune: true}, pruned)
		defined(t, b, next)
		if _, err := b.Queues().Get(t.Context(), "orders"); millrace.CodeOf(err) != millrace.CodeNotFound {
			t.Errorf("a pruned queue: %v", err)
		}
		applies(t, b, millrace.Document{}, millrace.ApplyOptions{Prune: true}, millrace.Applied{
			Deleted: []string{"queue/emails", "queue/sms", "tenant/emails/acme", "tenant/sms/acme"},
		})
	})
}

func TestADocumentWithAFaultChangesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, h *house) {
		if _, err := h.Apply(t.Context(), document(), millrace.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			code   millrace.Code
			change func(d *millrace.Document)
			prune  bool
		}{
			"a bad match":         {millrace.CodeInvalid, func(d *millrace.Document) { d.Queues["sms"] = millrace.DefaultQueueSpec("[") }, false},
			"a bad name":          {millrace.CodeInvalid, func(d *millrace.Document) { d.Queues["a:b"] = millrace.DefaultQueueSpec("x") }, false},
			"a bad weight":        {millrace.CodeInvalid, func(d *millrace.Document) { d.Tenants["emails"]["acme"] = millrace.TenantSettings{Weight: 1001} }, false},
			"a tenant of nothing": {millrace.CodeInvalid, func(d *millrace.Document) { d.Tenants["nothing"] = map[string]millrace.TenantSettings{"acme": {}} }, false},
			"a tenant of what it prunes": {millrace.CodeInvalid, func(d *millrace.Document) {
				delete(d.Queues, "emails")
			}, true},
			"a subscription to a closed address": {millrace.CodeInvalid, func(d *millrace.Document) {
				spec := d.Subscriptions["shop"]
				spec.Callback = "https://10.0.0.1/hook"
				d.Subscriptions["shop"] = spec
			}, false},
			"what cannot change": {millrace.CodeImmutable, func(d *millrace.Document) { d.Queues["orders"] = millrace.DefaultQueueSpec(":orders:") }, false},
		} {
			d := document()
			d.Queues["fresh"] = millrace.DefaultQueueSpec(":fresh:")
			c.change(&d)
			for _, dry := range []bool{true, false} {
				if _, err := h.Apply(t.Context(), d, millrace.ApplyOptions{Prune: c.prune, DryRun: dry}); millrace.CodeOf(err) != c.code {
					t.Errorf("%s: got %v, want %s", name, err, c.code)
				}
			}
			defined(t, h, document())
		}
	})
}
