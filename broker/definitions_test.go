package broker

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/millrace-dev/millrace"
)

// faltering is an engine that fails some calls of a document's application.
type faltering struct {
	*spoiled
	tenantLane int // whose SetTenant fails; none if negative
	applyLane  int // whose Apply fails; none if negative
	changed    int // how many DefineAll find that somebody was faster
}

func (f *faltering) SetTenant(ctx context.Context, lane int, queue, tenant string, s *millrace.TenantSettings) error {
	if lane == f.tenantLane {
		return millrace.Errorf(millrace.CodeUnavailable, "this lane is away")
	}
	return f.spoiled.SetTenant(ctx, lane, queue, tenant, s)
}

func (f *faltering) Apply(ctx context.Context, lane int, a millrace.Apply) ([]string, error) {
	if lane == f.applyLane {
		return nil, millrace.Errorf(millrace.CodeUnavailable, "this lane is away")
	}
	return f.spoiled.Apply(ctx, lane, a)
}

func (f *faltering) DefineAll(ctx context.Context, list []millrace.Redefinition) ([]millrace.Definition, error) {
	if f.changed > 0 {
		f.changed--
		return nil, &millrace.Error{Code: millrace.CodeChanged}
	}
	return f.spoiled.DefineAll(ctx, list)
}

func falter(t *testing.T) (*faltering, *Broker) {
	t.Helper()
	f := &faltering{spoiled: openMemory(t, 4), tenantLane: -1, applyLane: -1}
	return f, start(t, f)
}

func oneQueue() millrace.Document {
	return millrace.Document{
		Queues:  map[string]millrace.QueueSpec{"emails": millrace.DefaultQueueSpec(":emails:")},
		Tenants: map[string]map[string]millrace.TenantSettings{"emails": {"acme": {Weight: 2, Limit: -1}}},
	}
}

func TestADocumentThatWasCutShortAtATenantIsCompletedByARepeat(t *testing.T) {
	f, b := falter(t)
	f.tenantLane = 2
	if _, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{}); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Fatalf("got %v", err)
	}
	f.tenantLane = -1
	got, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{})
	if err != nil || got.Same != 1 || !slices.Equal(got.Changed, []string{"tenant/emails/acme"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	q := b.registry.now().queues["emails"]
	for lane := range 4 {
		if s, err := f.Tenant(t.Context(), lane, q.uid, "acme"); err != nil || s.Settings == nil || s.Settings.Weight != 2 {
			t.Errorf("lane %d has %+v, %v", lane, s.Settings, err)
		}
	}
	if got, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{Prune: true}); err != nil || got.Same != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestADocumentThatWasCutShortAtALaneIsCompletedByARepeat(t *testing.T) {
	f, b := falter(t)
	f.applyLane = 3
	if _, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{}); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Fatalf("got %v", err)
	}
	f.applyLane = -1
	if got, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{}); err != nil || got.Same != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	q := b.registry.now().queues["emails"]
	for lane := range 4 {
		if err := f.spoiled.SetTenant(t.Context(), lane, q.uid, "other", &millrace.TenantSettings{Weight: 1}); err != nil {
			t.Errorf("lane %d does not know the queue: %v", lane, err)
		}
	}
}

func TestADocumentIsPlannedAgainWhenSomebodyWasFaster(t *testing.T) {
	f, b := falter(t)
	f.changed = 2
	got, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{})
	if err != nil || !slices.Equal(got.Created, []string{"queue/emails", "tenant/emails/acme"}) {
		t.Errorf("%+v, %v", got, err)
	}
	f.changed = maxReroutes
	doc := oneQueue()
	doc.Queues["emails"] = millrace.DefaultQueueSpec(":other:")
	if _, err := b.Apply(t.Context(), doc, millrace.ApplyOptions{}); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	if now, err := b.Definitions(t.Context()); err != nil || now.Queues["emails"].Match != ":emails:" {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestADocumentHoldsTheSettingsOfMoreTenantsThanAPageHas(t *testing.T) {
	_, b := falter(t)
	doc := oneQueue()
	for i := range 2*millrace.MaxPage + 10 {
		doc.Tenants["emails"]["t"+strconv.Itoa(i)] = millrace.TenantSettings{Weight: i % (millrace.MaxWeight + 1), Limit: i%3 - 1}
	}
	n := len(doc.Tenants["emails"])
	if got, err := b.Apply(t.Context(), doc, millrace.ApplyOptions{}); err != nil || len(got.Created) != n+1 {
		t.Fatalf("%d created, %v", len(got.Created), err)
	}
	now, err := b.Definitions(t.Context())
	if err != nil || !reflect.DeepEqual(now, doc) {
		t.Fatalf("%d tenants, %v", len(now.Tenants["emails"]), err)
	}
	for _, prune := range []bool{false, true} {
		if got, err := b.Apply(t.Context(), now, millrace.ApplyOptions{Prune: prune}); err != nil || got.Same != n+1 || len(got.Changed)+len(got.Deleted)+len(got.Created) != 0 {
			t.Errorf("prune %v: %d the same, %v", prune, got.Same, err)
		}
	}
	if got, err := b.Apply(t.Context(), oneQueue(), millrace.ApplyOptions{Prune: true}); err != nil || len(got.Deleted) != n-1 || got.Same != 2 {
		t.Errorf("%d deleted, %v", len(got.Deleted), err)
	}
}

// withShop is a document with one subscription.
func withShop(change func(*millrace.SubscriptionSpec)) millrace.Document {
	doc, spec := oneQueue(), millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics = []string{"orders"}
	if change != nil {
		change(&spec)
	}
	doc.Subscriptions = map[string]millrace.SubscriptionSpec{"shop": spec}
	return doc
}

// doesApply applies a document and checks what became of its subscription alone.
func doesApply(t *testing.T, b *Broker, doc millrace.Document, prune bool, created, changed, deleted []string) {
	t.Helper()
	got, err := b.Apply(t.Context(), doc, millrace.ApplyOptions{Prune: prune})
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string) bool { return name != "subscription/shop" }
	for _, lists := range [][2][]string{{got.Created, created}, {got.Changed, changed}, {got.Deleted, deleted}} {
		if !slices.Equal(slices.DeleteFunc(lists[0], other), lists[1]) {
			t.Errorf("applied %+v", got)
		}
	}
}

func TestASubscriptionOfADocumentKeepsTheSecretThatItHas(t *testing.T) {
	_, b := falter(t)
	shop := []string{"subscription/shop"}
	doesApply(t, b, withShop(nil), false, shop, nil, nil)
	made := b.registry.now().subs["shop"].spec.Secrets
	if len(made) != 1 || made[0].Text == "" {
		t.Fatalf("the secrets are %v", made)
	}
	now, err := b.Definitions(t.Context())
	if err != nil || !reflect.DeepEqual(now, withShop(nil)) {
		t.Errorf("%+v, %v", now, err)
	}
	doesApply(t, b, now, true, nil, nil, nil)
	if err := b.Subscriptions().Pause(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	doesApply(t, b, withShop(func(s *millrace.SubscriptionSpec) { s.MaxEvents = 7 }), false, nil, shop, nil)
	got, err := b.Subscriptions().Get(t.Context(), "shop")
	if err != nil || got.Version != 2 || got.State != millrace.StatePaused || !reflect.DeepEqual(got.Spec.Secrets, made) || got.Spec.MaxEvents != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	doesApply(t, b, oneQueue(), false, nil, nil, nil)
	doesApply(t, b, oneQueue(), true, nil, nil, shop)
	if now, err := b.Definitions(t.Context()); err != nil || now.Subscriptions != nil {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestADocumentWithABadSubscriptionChangesNothing(t *testing.T) {
	_, b := falter(t)
	for code, change := range map[millrace.Code]func(*millrace.SubscriptionSpec){
		millrace.CodeInvalid:   func(s *millrace.SubscriptionSpec) { s.Callback = "https://10.0.0.1/hook" },
		millrace.CodeImmutable: func(s *millrace.SubscriptionSpec) { s.Ordered = true },
	} {
		spec := withShop(nil).Subscriptions["shop"]
		if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Apply(t.Context(), withShop(change), millrace.ApplyOptions{}); millrace.CodeOf(err) != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	if now, err := b.Definitions(t.Context()); err != nil || len(now.Queues) != 0 || now.Subscriptions["shop"].Ordered {
		t.Errorf("%+v, %v", now, err)
	}
}
