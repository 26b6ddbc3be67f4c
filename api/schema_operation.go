package api

import "github.com/millrace-dev/millrace"

// operationSchemas are operations and their counts.
func operationSchemas() map[string]Schema {
	id := filled(text(millrace.MaxIDLen))
	word := Schema{"type": "string"}
	tally := []member{has("success", count()), has("error", count()), has("cancelled", count()), has("retried", count())}
	return map[string]Schema{
		"OperationRequest": requestOf(requestMembers()...),
		"StartedOperation": answerOf(has("id", id), has("status", statusSchema()), has("url", filled(word)),
			has("existing", about(boolean(), "One with the same dedupe_key was open: this is it, and nothing was stored."))),
		"Operation": answerOf(
			has("id", id), has("queue", nameSchema()), has("tenant", nameSchema()), has("type", nameSchema()), has("subject", orNull(filled(text(millrace.MaxKeyLen)))),
			has("status", statusSchema()), has("attempts", count()), has("queued_at", utcTime()),
			has("started_at", about(orNull(utcTime()), "Of the latest attempt.")), has("finished_at", orNull(utcTime())),
			has("progress", Schema{"anyOf": []Schema{SchemaRef("Progress"), {"type": "null"}}}),
			has("output", Schema{"description": "What came of it, any JSON; null if there is none."}), has("error", about(orNull(word), "Of the latest attempt that failed.")),
			has("cancel_requested", about(boolean(), "It was running when it was to be cancelled.")),
			has("payload", Schema{"description": "Any JSON; what the queue redacts reads [redacted]. null if there is none."}),
			has("event", about(id, "The id of its message's event.")), has("expires_at", about(orNull(utcTime()), "When it is forgotten."))),
		"Operations": page("operations", SchemaRef("Operation")),
		"Progress":   answerOf(has("percent", integer(0, 100)), has("note", orNull(word))),
		"ReportProgress": requestOf(has("receipt", filled(word)), may("percent", about(with(integer(0, 100), "default", 0), "It never falls within an attempt.")),
			may("note", text(millrace.MaxNoteLen))),
		"OperationCounts": answerOf(has("queue", nameSchema()), has("bucket", choice("1m", "1h", "1d")), has("since", utcTime()), has("until", utcTime()),
			has("counts", Schema{"type": "array", "items": SchemaRef("OperationCount"), "maxItems": millrace.MaxCountBuckets}),
			has("total", about(answerOf(tally...), "Since the queue was made."))),
		"OperationCount": answerOf(append(tally, has("at", utcTime()),
			has("queued_ms", about(SchemaRef("Percentiles"), "How long those were queued that were leased for the first time.")),
			has("running_ms", about(SchemaRef("Percentiles"), "How long the last attempt took of those that succeeded or failed.")))...),
		"Percentiles": answerOf(has("p50", count()), has("p95", count()), has("p99", count())),
	}
}

// requestMembers is what is asked of an operation.
func requestMembers() []member {
	return []member{
		has("queue", about(nameSchema(), "A tracked one.")), has("type", nameSchema()),
		may("subject", about(filled(text(millrace.MaxKeyLen)), "What it is about; operations are listed by it.")),
		may("tenant", with(nameSchema(), "default", millrace.DefaultTenant)), may("payload", Schema{"description": "Any JSON; it is kept as it is written."}),
		may("dedupe_key", about(filled(text(millrace.MaxKeyLen)), "While one of the same tenant, queue and subject is open with it, that one is the answer.")),
		may("delay", about(with(duration(), "default", "0s"), "Before it can run; at most "+FormatDuration(millrace.MaxDelay)+", and 0s in an ordered queue.")),
	}
}

func statusSchema() Schema {
	return choice(millrace.OperationQueued, millrace.OperationRunning, millrace.OperationSuccess, millrace.OperationError, millrace.OperationCancelled)
}

// triggerSchemas are triggers.
func triggerSchemas() map[string]Schema {
	does := []member{may("event", SchemaRef("TriggerEvent")), may("operation", SchemaRef("OperationRequest"))}
	limit := integer(0, millrace.MaxPerMinute)
	return map[string]Schema{
		"TriggerSpec": oneDeed(requestOf(append(does,
			may("per_minute", about(with(limit, "default", millrace.DefaultPerMinute), "Most calls a minute; 0 for no limit.")),
			may("enabled", with(boolean(), "default", true)))...)),
		"TriggerEvent": requestOf(has("topic", nameSchema()), has("type", nameSchema()), may("tenant", with(nameSchema(), "default", millrace.DefaultTenant)),
			may("key", filled(text(millrace.MaxKeyLen))), may("content_type", with(contentTypeSchema(), "default", millrace.JSONContentType)),
			may("data", about(Schema{"type": []string{"object", "null"}}, "An object, of which a call's body becomes the member request; without it the body is the data.")),
			may("attributes", attributesSchema()), may("delay", about(duration(), "At most "+FormatDuration(millrace.MaxEventDelay)+"."))),
		"Trigger": oneDeed(answerOf(append(does, has("name", nameSchema()), has("version", integer(1, maxInteger)), has("enabled", boolean()), has("per_minute", limit),
			has("fired", count()), has("last_at", orNull(utcTime())),
			may("url", about(filled(Schema{"type": "string"}), "Where it is called; only in the answer 201 and after a rotation.")))...)),
		"Triggers":      page("triggers", SchemaRef("Trigger")),
		"TriggerCall":   {"description": "Any JSON, or nothing. It becomes the data or the payload, or their member request where the trigger fixes them."},
		"TriggerResult": oneDeed(answerOf(may("event", SchemaRef("PublishedEvent")), may("operation", SchemaRef("StartedOperation")))),
	}
}

// oneDeed is what has an event or an operation, but not both.
func oneDeed(s Schema) Schema {
	return with(s, "oneOf", []Schema{{"required": []string{"event"}}, {"required": []string{"operation"}}})
}
