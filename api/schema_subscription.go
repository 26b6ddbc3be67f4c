package api

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// subscriptionSchemas are subscriptions, their batches and their attempts.
func subscriptionSchemas() map[string]Schema {
	all := map[string]Schema{
		"SubscriptionSpec": oneSource(requestOf(append(subscriptionMembers(),
			may("uuid", about(filled(Schema{"type": "string", "maxLength": millrace.MaxIDLen, "pattern": `^[^:\x00-\x1f\x7f-\x9f]*$`}), "The user name of Basic auth; it is never shown.")),
			may("secret", about(secretSchema(), "What batches are signed with, as whsec_ and base64. One that is left out stays; a new subscription gets one made.")))...)),
		"Subscription":  answerOf(shownSubscription()...),
		"Subscriptions": page("subscriptions", SchemaRef("Subscription")),
		"Secret":        answerOf(has("last4", Schema{"type": "string", "maxLength": 4}), has("expires_at", orNull(utcTime()))),
		"Rotate": requestOf(
			may("secret", about(secretSchema(), "Made if it is left out.")),
			may("overlap", about(with(duration(), "default", FormatDuration(rotateOverlap)), "How long the old ones sign on; at most "+FormatDuration(millrace.MaxDelay)+"."))),
		"Rotated": answerOf(has("secret", secretSchema()), has("old_until", utcTime())),
	}
	for name, s := range batchSchemas() {
		all[name] = s
	}
	return all
}

func secretSchema() Schema { return filled(Schema{"type": "string"}) }

// oneSource is a definition that names topics or has a pattern, but not both.
func oneSource(s Schema) Schema {
	return with(s, "oneOf", []Schema{
		{"required": []string{"topics"}, "properties": Schema{"topics": Schema{"minItems": 1}}},
		{"required": []string{"match"}, "properties": Schema{"match": Schema{"minLength": 1}}},
	})
}

// subscriptionMembers is what a subscription's definition shows, with the defaults.
func subscriptionMembers() []member {
	d := millrace.DefaultSubscriptionSpec("")
	limit := func(least, most, def int, description string) Schema {
		return about(with(integer(int64(least), int64(most)), "default", def), description)
	}
	length := func(def time.Duration, description string) Schema {
		return about(with(duration(), "default", FormatDuration(def)), description)
	}
	return []member{
		has("callback", about(callbackSchema(), "Where batches are posted. http: and closed addresses must be allowed by the server.")),
		may("topics", about(list(nameSchema(), 0, millrace.MaxTopics), "These topics' events; or match, not both.")),
		may("match", about(Schema{"type": "string", "maxLength": millrace.MaxPatternLen}, "A regular expression (RE2) that is looked for in tenant:topic:type.")),
		may("timeout", length(d.Timeout, "How long a batch collects; at most "+FormatDuration(millrace.MaxBatchTimeout)+".")),
		may("max_events", limit(1, millrace.MaxBatchEvents, d.MaxEvents, "Of a batch.")),
		may("max_bytes", limit(millrace.MaxEventSize, millrace.MaxBatchBytes, d.MaxBytes, "Of a batch's events, as stored.")),
		may("format", about(with(choice(millrace.FormatEvents, millrace.FormatCloudEvents), "default", d.Format), "How a batch's body is written.")),
		may("ordered", about(with(boolean(), "default", false), "One batch at a time, and none overtakes another. It cannot change.")),
		may("concurrency", limit(1, millrace.MaxConcurrency, d.Concurrency, "Most batches on their way at a time, in each lane.")),
		may("request_timeout", length(d.RequestTimeout, between(100*time.Millisecond, millrace.MaxRequestTimeout)+".")),
		may("retry_schedule", about(with(list(duration(), 0, millrace.MaxScheduleLen), "default", formatted(d.RetrySchedule)), "The waits after failures; then a batch is dead.")),
		may("dead_retention", length(d.DeadRetention, "How long dead batches are kept; 0s for ever.")),
		may("disable_after", length(d.DisableAfter, "Of nothing but failure it is disabled; 0s for never.")),
	}
}

func callbackSchema() Schema {
	return with(text(millrace.MaxURLLen), "pattern", `^[Hh][Tt][Tt][Pp][Ss]?://[^\x00-\x1f\x7f-\x9f]+$`)
}

func formatted(list []time.Duration) (texts []string) {
	for _, d := range list {
		texts = append(texts, FormatDuration(d))
	}
	return texts
}

// shownSubscription is what a subscription shows.
func shownSubscription() []member {
	shown := []member{
		has("name", nameSchema()), has("version", integer(1, maxInteger)), has("state", subscriptionState()),
		has("reason", about(orNull(Schema{"type": "string"}), "Of the state, or of the last failure.")),
	}
	for _, m := range subscriptionMembers() {
		m.optional, m.schema = false, without(m.schema, "default")
		if m.name == "topics" || m.name == "match" {
			m.schema = orNull(m.schema)
		}
		shown = append(shown, m)
	}
	for name, description := range map[string]string{
		"queued": "Events that wait or are on their way.", "sent": "Events.", "failed": "Attempts.", "dead": "Events in dead batches.",
		"dropped": "Events that were removed or were too old.", "skipped": "Events that came while it was disabled.",
	} {
		shown = append(shown, has(name, about(count(), description)))
	}
	return append(shown, has("oldest", orNull(utcTime())), has("next_attempt_at", orNull(utcTime())),
		has("secrets", listOf(SchemaRef("Secret"))), may("secret", about(secretSchema(), "Only in the answer 201, and only if it was made.")))
}

func subscriptionState() Schema {
	return about(choice(millrace.StateActive, millrace.StatePaused, millrace.StateFailing, millrace.StateDisabled),
		"paused collects and sends nothing; failing backs off; disabled collects no more and keeps what it has.")
}

// batchSchemas are batches, and the attempts to send them.
func batchSchemas() map[string]Schema {
	word := Schema{"type": "string"}
	head := []member{
		has("id", filled(text(millrace.MaxIDLen))), has("state", batchStateSchema()), has("current", about(boolean(), "It still collects.")),
		has("count", about(count(), "Events.")), has("bytes", count()), has("attempts", count()), has("created_at", utcTime()),
		has("due_at", about(orNull(utcTime()), "When it is ready, counts as failed, or goes, by its state.")),
		has("node", about(orNull(word), "Who sends it.")), has("error", about(orNull(word), "Of its last failure.")),
	}
	failures := []any{
		millrace.AttemptStatus, millrace.AttemptTimeout, millrace.AttemptConnect, millrace.AttemptTLS, millrace.AttemptReset, millrace.AttemptRedirect, millrace.AttemptBlocked, nil,
	}
	return map[string]Schema{
		"BatchHead": answerOf(head...),
		"Batches":   page("batches", SchemaRef("BatchHead")),
		"Batch":     answerOf(append(head, has("events", listOf(SchemaRef("Event"))))...),
		"Attempt": answerOf(
			has("batch", about(orNull(word), "null for a test.")), has("attempt", integer(1, maxInteger)), has("at", utcTime()), has("outcome", choice("sent", "failed")),
			has("status", about(integer(0, 999), "0 without an answer.")), has("error", Schema{"enum": failures}), has("duration_ms", count()), has("count", count()),
			has("answer", about(word, "The first KiB of it.")), has("node", orNull(word))),
		"Attempts": answerOf(has("attempts", listOf(SchemaRef("Attempt")))),
		"Tested":   answerOf(has("attempt", SchemaRef("Attempt"))),
		"Retried":  answerOf(has("retried", count())),
	}
}

func batchStateSchema() Schema {
	return choice(millrace.BatchEarly, millrace.BatchReady, millrace.BatchPending, millrace.BatchDead)
}
