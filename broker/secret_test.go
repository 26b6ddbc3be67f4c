package broker

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

func TestAPutGivesOneSecretThatDoesNotEnd(t *testing.T) {
	_, s := startPushing(t, model())
	sub := subscribe(t, s, newReceiver(t))
	first, second := millrace.Secret{Text: webhook.NewSecret()}, millrace.Secret{Text: webhook.NewSecret()}
	ending := millrace.Secret{Text: webhook.NewSecret(), ExpiresAt: time.Now().Add(time.Hour)}
	for _, secrets := range [][]millrace.Secret{{first, second}, {ending}, {{Text: "whsec_short"}}} {
		spec := sub.Spec
		spec.Secrets = secrets
		if _, _, err := s.Put(t.Context(), "shop", spec); millrace.CodeOf(err) != millrace.CodeInvalid {
			t.Errorf("%d secrets: %v", len(secrets), err)
		}
	}
	if _, _, err := s.Rotate(t.Context(), "shop", "", time.Hour); err != nil {
		t.Fatal(err)
	}
	shown, err := s.Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	shown.Spec.Timeout = time.Second
	again, _, err := s.Put(t.Context(), "shop", shown.Spec)
	if err != nil || len(again.Spec.Secrets) != 2 || again.Spec.Timeout != time.Second {
		t.Errorf("what was shown, put again: %+v, %v", again.Spec, err)
	}
}

func TestNoMoreSecretsSignThanAllowed(t *testing.T) {
	_, s := startPushing(t, model())
	subscribe(t, s, newReceiver(t))
	for range millrace.MaxSecrets - 1 {
		if _, _, err := s.Rotate(t.Context(), "shop", "", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	before, err := s.Get(t.Context(), "shop")
	if err != nil || len(before.Spec.Secrets) != millrace.MaxSecrets {
		t.Fatalf("%d secrets, %v", len(before.Spec.Secrets), err)
	}
	if made, _, err := s.Rotate(t.Context(), "shop", "", time.Hour); millrace.CodeOf(err) != millrace.CodeInvalid || made != "" {
		t.Errorf("one more: got %v", err)
	}
	after, err := s.Get(t.Context(), "shop")
	if err != nil || after.Version != before.Version || after.Spec.Secrets[0] != before.Spec.Secrets[0] {
		t.Errorf("a refused one has changed something: %+v, %v", after, err)
	}
	if _, _, err := s.Rotate(t.Context(), "shop", "", 0); err != nil {
		t.Errorf("without an overlap: %v", err)
	}
	if last, err := s.Get(t.Context(), "shop"); err != nil || len(last.Spec.Secrets) != 1 {
		t.Errorf("%+v, %v", last.Spec.Secrets, err)
	}
}
