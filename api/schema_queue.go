package api

import (
	"time"

	"github.com/millrace-dev/millrace"
)

// topicSchemas are what topics show and take.
func topicSchemas() map[string]Schema {
	return map[string]Schema{
		"TopicOwner": requestOf(has("publisher", about(orNull(nameSchema()), "The name of a publisher's token; null for nobody."))),
		"Topic": answerOf(has("name", nameSchema()), has("publisher", orNull(nameSchema())), has("events", count()),
			has("last_event_at", orNull(utcTime())), has("subscriptions", listOf(nameSchema()))),
		"Topics": page("topics", SchemaRef("Topic")),
	}
}

// queueSchemas are queues' definitions and what they hold.
func queueSchemas() map[string]Schema {
	shown := []member{has("name", nameSchema()), has("version", integer(1, maxInteger)), has("state", stateSchema())}
	for _, m := range queueMembers() {
		m.optional = false
		m.schema = without(m.schema, "default")
		shown = append(shown, m)
	}
	shown = append(shown,
		has("counts", SchemaRef("QueueCounts")), has("tenants", about(count(), "How many tenants have something waiting.")),
		has("oldest", orNull(utcTime())), has("dropped", count()), has("totals", answerOf(has("success", count()), has("error", count()))))
	return map[string]Schema{
		"QueueSpec":   requestOf(queueMembers()...),
		"Queue":       answerOf(shown...),
		"Queues":      page("queues", SchemaRef("Queue")),
		"QueueCounts": answerOf(countMembers()...),
		"Nothing":     requestOf(),
	}
}

func stateSchema() Schema { return choice(millrace.StateActive, millrace.StatePaused) }

func countMembers() []member {
	return []member{has("ready", count()), has("leased", count()), has("delayed", about(count(), "Waiting for another attempt.")), has("dead", count())}
}

func without(s Schema, word string) Schema {
	s = with(s, word, nil)
	delete(s, word)
	return s
}

// queueMembers is a queue's definition, with the defaults.
func queueMembers() []member {
	d := millrace.DefaultQueueSpec("")
	limit := func(def, most int, description string) Schema {
		return about(with(integer(0, int64(most)), "default", def), description)
	}
	length := func(def time.Duration, description string) Schema {
		return about(with(duration(), "default", FormatDuration(def)), description)
	}
	flag := func(description string) Schema { return about(with(boolean(), "default", false), description) }
	return []member{
		has("match", about(Schema{"type": "string", "minLength": 1, "maxLength": millrace.MaxPatternLen},
			"A regular expression (RE2) that is looked for in tenant:topic:type.")),
		may("lease", length(d.Lease, "How long a consumer may take; "+between(millrace.MinLease, millrace.MaxLease)+".")),
		may("max_attempts", limit(d.MaxAttempts, millrace.MaxAttempts, "0 for no limit.")),
		may("backoff_first", length(d.BackoffFirst, "The wait after the first failure; it doubles up to backoff_max. At most "+FormatDuration(millrace.MaxDelay)+".")),
		may("backoff_max", length(d.BackoffMax, "Not less than backoff_first.")),
		may("on_exhausted", about(choice(millrace.ExhaustedDead, millrace.ExhaustedBlock), "When the attempts are spent: dead is the default, block in an ordered queue.")),
		may("ordered", flag("Of each key one message at a time, in order. It cannot change.")),
		may("tracked", flag("Every message has an operation. It cannot change.")),
		may("tenant_limit", limit(d.TenantLimit, millrace.MaxCount, "Most messages that one tenant has leased; 0 for no limit.")),
		may("max_length", limit(d.MaxLength, millrace.MaxCount, "Most messages that one tenant has waiting; 0 for no limit.")),
		may("overflow", about(with(choice(millrace.OverflowReject, millrace.OverflowDropOldest), "default", d.Overflow), "Past max_length; an ordered queue only rejects.")),
		may("dead_retention", length(d.DeadRetention, "How long dead letters are kept; 0s for ever.")),
		may("retention", length(d.Retention, "How long a tracked queue's operations are kept that succeeded or were cancelled; 0s for the longest.")),
		may("error_retention", length(d.ErrorRetention, "How long those are kept that failed; 0s for the longest.")),
		may("redact", about(with(listOf(Schema{"type": "string"}), "default", []string{}), "JSON Pointers into the data, * for any step, of what only workers are shown.")),
	}
}

func between(least, most time.Duration) string {
	return "between " + FormatDuration(least) + " and " + FormatDuration(most)
}

// tenantSchemas are a queue's tenants.
func tenantSchemas() map[string]Schema {
	weight, limit := integer(0, millrace.MaxWeight), integer(0, millrace.MaxCount)
	shown := append([]member{has("tenant", nameSchema())}, countMembers()...)
	shown = append(shown, has("weight", weight), has("limit", limit), has("oldest", orNull(utcTime())))
	return map[string]Schema{
		"TenantSettings": requestOf(
			may("weight", about(with(weight, "default", 1), "Messages a turn; 0 pauses the tenant.")),
			may("limit", about(limit, "Most messages leased, 0 for no limit; the queue's if it is left out."))),
		"Tenant":  answerOf(shown...),
		"Tenants": page("tenants", SchemaRef("Tenant")),
	}
}
