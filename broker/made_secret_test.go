package broker

import (
	"context"
	"testing"

	"github.com/millrace-dev/millrace"
)

// blind is an engine that cannot say what a subscription holds.
type blind struct{ millrace.Engine }

func (blind) SubscriptionStats(context.Context, int, string) (millrace.SubscriptionStats, error) {
	return millrace.SubscriptionStats{}, millrace.Errorf(millrace.CodeUnavailable, "not now")
}

func TestAMadeSecretIsToldAlsoIfTheSubscriptionCannotBeLookedUp(t *testing.T) {
	b := start(t, blind{openMemory(t, 2)})
	spec := millrace.DefaultSubscriptionSpec("https://shop.example/hook")
	spec.Topics = []string{"orders"}
	sub, created, err := b.Subscriptions().Put(t.Context(), "shop", spec)
	if err != nil || !created || sub.MadeSecret == "" || sub.Name != "shop" || sub.State != millrace.StateActive || len(sub.Spec.Secrets) != 1 {
		t.Errorf("got %+v, %v, %v", sub, created, err)
	}
	spec.MaxEvents = 7
	if _, _, err := b.Subscriptions().Put(t.Context(), "shop", spec); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("a change of what is there: got %v", err)
	}
}
