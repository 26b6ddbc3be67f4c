package api

import "github.com/millrace-dev/millrace"

// eventSchemas are events as readers see them.
func eventSchemas() map[string]Schema {
	stamped := append(eventHead(), has("recorded_at", utcTime()))
	stamped = append(append(stamped, eventBody()...),
		has("seq", integer(1, maxInteger)),
		may("prev", about(count(), "The seq of the key's event before, 0 for the first; only with a key, and not of an operation's event.")))
	delayed := append(eventHead(), has("recorded_at", Schema{"type": "null"}))
	delayed = append(append(delayed, eventBody()...),
		has("seq", Schema{"type": "null"}), may("prev", Schema{"type": "null"}), has("due_at", utcTime()))
	return map[string]Schema{
		"Event":        oneData(answerOf(stamped...)),
		"DelayedEvent": oneData(answerOf(delayed...)),
		"StoredEvent":  storedEventSchema(),
		"Inject":       requestOf(has("events", list(SchemaRef("StoredEvent"), 1, millrace.MaxEvents))),
		"Injected":     answerOf(has("injected", count())),
		"Route": answerOf(has("address", about(Schema{"type": "string"}, "tenant:topic:type, the text that patterns match.")),
			has("sinks", listOf(SchemaRef("Sink")))),
		"Sink": answerOf(has("kind", choice(millrace.KindQueue, millrace.KindSubscription)), has("name", nameSchema()), has("match", Schema{"type": "string"}),
			has("state", choice(millrace.StateActive, millrace.StatePaused, millrace.StateFailing, millrace.StateDisabled))),
	}
}

// eventHead is what an event is about.
func eventHead() []member {
	return []member{
		has("id", filled(text(millrace.MaxIDLen))), has("topic", nameSchema()), has("type", nameSchema()), has("tenant", nameSchema()),
		may("key", filled(text(millrace.MaxKeyLen))), has("time", utcTime()),
	}
}

// eventBody is what an event says.
func eventBody() []member {
	return []member{
		has("content_type", contentTypeSchema()), may("data", dataSchema()), may("data_base64", base64Text()), has("attributes", attributesSchema()),
	}
}

// oneData is an event that has exactly one of data and data_base64.
func oneData(s Schema) Schema {
	return with(s, "oneOf", []Schema{{"required": []string{"data"}}, {"required": []string{"data_base64"}}})
}

// storedEventSchema is an event of a request that has its stamps already.
func storedEventSchema() Schema {
	return notBoth(requestOf(
		has("id", filled(text(millrace.MaxIDLen))), has("topic", nameSchema()), has("type", nameSchema()),
		may("tenant", with(nameSchema(), "default", millrace.DefaultTenant)), may("key", filled(text(millrace.MaxKeyLen))),
		has("time", anyTime()), may("recorded_at", about(anyTime(), "The event's time if it is left out.")),
		may("content_type", with(contentTypeSchema(), "default", millrace.JSONContentType)),
		may("data", dataSchema()), may("data_base64", base64Text()), may("attributes", attributesSchema()),
		has("seq", integer(1, maxInteger)), may("prev", about(count(), "Only with a key; an event that has a key and no prev is in no key's chain.")),
	), [2]string{"data", "data_base64"})
}

func dataSchema() Schema {
	return Schema{"description": "Any JSON, if the content type is JSON; it is kept as it is written."}
}

func contentTypeSchema() Schema { return filled(text(256)) }

func attributesSchema() Schema {
	return Schema{
		"type": "object", "maxProperties": millrace.MaxAttributes, "additionalProperties": text(millrace.MaxAttrValue),
		"propertyNames": Schema{"pattern": "^[a-z0-9_]{1,64}$"},
	}
}
