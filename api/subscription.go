package api

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// DecodeSubscriptionSpec reads a subscription's definition. What it leaves out has its
// default; a secret that it names is the first and only one.
func DecodeSubscriptionSpec(body []byte) (millrace.SubscriptionSpec, error) {
	d := newDecoder(body)
	spec := d.subscriptionSpec()
	return spec, d.finish()
}

func (d *decoder) subscriptionSpec() millrace.SubscriptionSpec {
	spec := millrace.DefaultSubscriptionSpec("")
	if !d.object() {
		return spec
	}
	found := false
	for d.next() {
		found = found || string(d.name) == "callback"
		if !d.subscriptionMember(&spec) && !d.subscriptionSecret(&spec) {
			d.skip()
		}
	}
	if len(spec.Topics) == 0 {
		spec.Topics = nil // an empty list beside a match says nothing
	}
	if d.broken == nil && d.strict {
		if !found {
			d.missing("callback")
		}
		d.merge(0, spec.Faults(d.root))
	}
	return spec
}

// subscriptionSecret reads what is told but never shown.
func (d *decoder) subscriptionSecret(s *millrace.SubscriptionSpec) bool {
	switch string(d.name) {
	case "uuid":
		s.UUID, _ = d.given("")
	case "secret":
		if text, ok := d.given(""); ok {
			s.Secrets = []millrace.Secret{{Text: text}}
		}
	default:
		return false
	}
	return true
}

// subscriptionMember reads a member of a subscription's definition, if it is one.
func (d *decoder) subscriptionMember(s *millrace.SubscriptionSpec) bool {
	switch string(d.name) {
	case "callback":
		s.Callback, _ = d.string("")
	case "topics":
		if d.strict || !d.null() {
			s.Topics = d.strings()
		}
	case "match":
		if d.strict || !d.null() {
			s.Match, _ = d.string("")
		}
	case "max_events":
		d.limit(&s.MaxEvents)
	case "max_bytes":
		d.limit(&s.MaxBytes)
	case "concurrency":
		d.limit(&s.Concurrency)
	case "format":
		d.oneOf((*string)(&s.Format), string(millrace.FormatEvents), string(millrace.FormatCloudEvents))
	case "ordered":
		s.Ordered = d.bool()
	case "retry_schedule":
		s.RetrySchedule = d.durations()
	default:
		return d.subscriptionDuration(s)
	}
	return true
}

func (d *decoder) subscriptionDuration(s *millrace.SubscriptionSpec) bool {
	to := map[string]*time.Duration{
		"timeout": &s.Timeout, "request_timeout": &s.RequestTimeout,
		"dead_retention": &s.DeadRetention, "disable_after": &s.DisableAfter,
	}[string(d.name)]
	if to == nil {
		return false
	}
	if v, ok := d.duration(0, forever); ok {
		*to = v
	}
	return true
}

// durations reads an array of durations.
func (d *decoder) durations() []time.Duration {
	list := []time.Duration{}
	if !d.array() {
		return list
	}
	for d.more() {
		if v, ok := d.duration(0, forever); ok {
			list = append(list, v)
		}
	}
	return list
}

// AppendSubscriptionSpec writes a subscription's definition as a request has it.
func AppendSubscriptionSpec(b []byte, s *millrace.SubscriptionSpec) []byte {
	b = appendTextField(append(b, '{'), "callback", s.Callback)
	if len(s.Topics) > 0 {
		b = appendStrings(appendName(b, "topics"), s.Topics)
	}
	if s.Match != "" {
		b = appendTextField(b, "match", s.Match)
	}
	b = appendSubscriptionWays(b, s)
	if s.UUID != "" {
		b = appendTextField(b, "uuid", s.UUID)
	}
	if len(s.Secrets) > 0 {
		b = appendTextField(b, "secret", s.Secrets[0].Text)
	}
	return append(b, '}')
}

func appendSubscriptionWays(b []byte, s *millrace.SubscriptionSpec) []byte {
	b = appendDurationField(b, "timeout", s.Timeout)
	b = appendIntField(b, "max_events", int64(s.MaxEvents))
	b = appendIntField(b, "max_bytes", int64(s.MaxBytes))
	b = appendTextField(b, "format", string(s.Format))
	b = appendBoolField(b, "ordered", s.Ordered)
	b = appendIntField(b, "concurrency", int64(s.Concurrency))
	b = appendDurationField(b, "request_timeout", s.RequestTimeout)
	b = appendList(appendName(b, "retry_schedule"), s.RetrySchedule, func(b []byte, d *time.Duration) []byte {
		return append(appendDuration(append(b, '"'), *d), '"')
	})
	b = appendDurationField(b, "dead_retention", s.DeadRetention)
	return appendDurationField(b, "disable_after", s.DisableAfter)
}

// AppendSubscription writes a subscription: its definition without what is secret, and
// what it holds. A secret that was just made is shown.
func AppendSubscription(b []byte, s *millrace.Subscription) []byte {
	b = appendTextField(append(b, '{'), "name", s.Name)
	b = appendIntField(b, "version", int64(s.Version))
	b = appendTextField(b, "state", s.State)
	b = appendStringOrNull(appendName(b, "reason"), s.Reason)
	b = appendTextField(b, "callback", s.Spec.Callback)
	b = appendName(b, "topics")
	if len(s.Spec.Topics) > 0 {
		b = appendStrings(b, s.Spec.Topics)
	} else {
		b = append(b, "null"...)
	}
	b = appendStringOrNull(appendName(b, "match"), s.Spec.Match)
	b = appendSubscriptionWays(b, &s.Spec)
	b = appendSubscriptionCounts(b, s)
	b = appendList(appendName(b, "secrets"), s.Spec.Secrets, appendSecret)
	if s.MadeSecret != "" {
		b = appendTextField(b, "secret", s.MadeSecret)
	}
	return append(b, '}')
}

func appendSubscriptionCounts(b []byte, s *millrace.Subscription) []byte {
	b = appendIntField(b, "queued", s.Queued)
	b = appendTimeOrNull(appendName(b, "oldest"), s.Oldest)
	b = appendIntField(b, "sent", s.Sent)
	b = appendIntField(b, "failed", s.Failed)
	b = appendIntField(b, "dead", s.Dead)
	b = appendIntField(b, "dropped", s.Dropped)
	b = appendIntField(b, "skipped", s.Skipped)
	return appendTimeOrNull(appendName(b, "next_attempt_at"), s.NextAttemptAt)
}

// appendSecret writes the end of a secret, by which a person knows it.
func appendSecret(b []byte, s *millrace.Secret) []byte {
	b = appendTextField(append(b, '{'), "last4", s.Text[max(0, len(s.Text)-4):])
	b = appendTimeOrNull(appendName(b, "expires_at"), s.ExpiresAt)
	return append(b, '}')
}

// DecodeSubscription reads a subscription; of its secrets only the ends are there.
func DecodeSubscription(text []byte) (millrace.Subscription, error) {
	d := newAnswerDecoder(text)
	s := d.subscription()
	return s, d.finish()
}

// AppendSubscriptions writes a page of subscriptions.
func AppendSubscriptions(b []byte, list []millrace.Subscription, next string) []byte {
	return appendPage(b, "subscriptions", list, next, AppendSubscription)
}

// DecodeSubscriptions reads a page of subscriptions.
func DecodeSubscriptions(text []byte) ([]millrace.Subscription, string, error) {
	return decodePage(text, "subscriptions", (*decoder).subscription)
}

func (d *decoder) subscription() (s millrace.Subscription) {
	if !d.object() {
		return s
	}
	for d.next() {
		switch string(d.name) {
		case "name":
			s.Name, _ = d.string("")
		case "version":
			s.Version = d.unsigned()
		case "state":
			s.State, _ = d.string("active")
		case "reason":
			s.Reason = d.stringOrNull()
		case "secrets":
			s.Spec.Secrets = readList(d, (*decoder).secret)
		case "secret":
			s.MadeSecret, _ = d.string("")
		case "oldest":
			s.Oldest = d.timeOrNull()
		case "next_attempt_at":
			s.NextAttemptAt = d.timeOrNull()
		default:
			if !d.subscriptionMember(&s.Spec) && !d.subscriptionCount(&s) {
				d.skip()
			}
		}
	}
	return s
}

func (d *decoder) subscriptionCount(s *millrace.Subscription) bool {
	to := map[string]*int64{
		"queued": &s.Queued, "sent": &s.Sent, "failed": &s.Failed, "dead": &s.Dead, "dropped": &s.Dropped, "skipped": &s.Skipped,
	}[string(d.name)]
	if to == nil {
		return false
	}
	*to, _ = d.integer(0, maxInteger)
	return true
}

func (d *decoder) secret() (s millrace.Secret) {
	if !d.object() {
		return s
	}
	for d.next() {
		switch string(d.name) {
		case "last4":
			s.Text, _ = d.string("")
		case "expires_at":
			s.ExpiresAt = d.timeOrNull()
		default:
			d.skip()
		}
	}
	return s
}
