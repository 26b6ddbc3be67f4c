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
