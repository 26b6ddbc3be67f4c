package broker

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

// secrets are those that sign now, as texts.
func (s *subscription) secrets(now time.Time) (texts []string) {
	for _, secret := range unexpired(s.spec.Secrets, now) {
		texts = append(texts, secret.Text)
	}
	return texts
}

// unexpired are the secrets that have not ended.
func unexpired(secrets []millrace.Secret, now time.Time) []millrace.Secret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s millrace.Secret) bool {
		return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)
	})
}

// secretFaults says what is wrong with the secrets of a put. It gives one at most, which does not
// end; those that the subscription has already may be put again as they were shown.
func (s Subscriptions) secretFaults(name string, given []millrace.Secret) (messages []string) {
	if old := s.b.registry.now().subs[name]; old != nil && len(given) > 0 && len(old.spec.Secrets) > 0 && given[0].Text == old.spec.Secrets[0].Text {
		return nil
	}
	if len(given) > 1 {
		return []string{"must be one; rotate it to have several for a time"}
	}
	for _, secret := range given {
		if m := webhook.SecretFault(secret.Text); m != "" {
			messages = append(messages, m)
		}
		if !secret.ExpiresAt.IsZero() {
			messages = append(messages, "must not end; rotate it, and the old one ends")
		}
	}
	return messages
}

// Rotate gives a subscription a new secret; see millrace.SubscriptionService.
func (s Subscriptions) Rotate(ctx context.Context, name, secret string, overlap time.Duration) (string, time.Time, error) {
	if err := s.b.gate.enter(); err != nil {
		return "", time.Time{}, err
	}
	defer s.b.gate.leave()
	if secret == "" {
		secret = webhook.NewSecret()
	}
	if err := rotateFaults(secret, overlap); err != nil {
		return "", time.Time{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	var tooMany error
	err := s.change(ctx, name, func(_ *subscription, r *subscriptionRecord) {
		secrets := rotated(r.Secrets, secret, now, overlap)
		if tooMany = countFault(secrets); tooMany == nil {
			r.Secrets = secrets
			r.Version++
		}
	})
	if err == nil {
		err = tooMany
	}
	if err != nil {
		return "", time.Time{}, err
	}
	return secret, now.Add(overlap), nil
}

func rotateFaults(secret string, overlap time.Duration) error {
	var faults []millrace.Fault
	if m := webhook.SecretFault(secret); m != "" {
		faults = append(faults, millrace.Fault{Location: "secret", Message: m})
	}
	if overlap < 0 || overlap > millrace.MaxDelay {
		faults = append(faults, millrace.Fault{Location: "overlap", Message: "must be between 0s and " + millrace.MaxDelay.String()})
	}
	return millrace.Invalid(faults)
}

// countFault refuses more secrets than may sign at a time.
func countFault(secrets []millrace.Secret) error {
	if len(secrets) <= millrace.MaxSecrets {
		return nil
	}
	return millrace.Invalid([]millrace.Fault{{
		Location: "overlap",
		Message:  "must be 0s: " + strconv.Itoa(millrace.MaxSecrets) + " secrets sign already; or wait until one of them ends",
	}})
}

// rotated is the secrets after a new one has come; the old ones sign on for the overlap.
func rotated(old []millrace.Secret, secret string, now time.Time, overlap time.Duration) []millrace.Secret {
	until := now.Add(overlap)
	secrets := []millrace.Secret{{Text: secret}}
	for _, o := range unexpired(old, now) {
		if o.Text == secret || overlap == 0 {
			continue
		}
		if o.ExpiresAt.IsZero() || o.ExpiresAt.After(until) {
			o.ExpiresAt = until
		}
		secrets = append(secrets, o)
	}
	return secrets
}
