package api

import "github.com/millrace-dev/millrace"

// publishSchemas are what a publisher sends and is told.
func publishSchemas() map[string]Schema {
	return map[string]Schema{
		"PublishEvent": publishEventSchema(),
		"Publish":      {"oneOf": []Schema{SchemaRef("PublishEvent"), list(SchemaRef("PublishEvent"), 1, millrace.MaxEvents)}},
		"CloudEvent":   cloudEventSchema(),
		"CloudEvents":  list(SchemaRef("CloudEvent"), 1, millrace.MaxEvents),
		"PublishedEvent": answerOf(
			has("id", filled(text(millrace.MaxIDLen))),
			may("seq", integer(1, maxInteger)), may("prev", about(count(), "Only with a key.")),
			may("due_at", about(utcTime(), "Only of an event that is delayed; it has no seq, prev and sinks yet.")),
			may("duplicate", about(boolean(), "The id was known: this is the first answer again, and nothing was stored.")),
			may("sinks", about(count(), "How many sinks hold it.")),
			may("error", about(choice(allCodes()...), "Why the event is not stored; only in an answer with the code partly_committed.")),
		),
		"Published": answerOf(has("events", list(SchemaRef("PublishedEvent"), 1, millrace.MaxEvents)), has("durability", durabilitySchema())),
	}
}

func publishEventSchema() Schema {
	return notBoth(requestOf(
		may("id", about(filled(text(millrace.MaxIDLen)), "Compared within tenant, topic, source and key; made if it is left out.")),
		has("type", nameSchema()), may("tenant", with(nameSchema(), "default", millrace.DefaultTenant)),
		may("key", about(filled(text(millrace.MaxKeyLen)), "The object it is about: events of one key keep their order.")),
		may("time", anyTime()), may("content_type", with(contentTypeSchema(), "default", millrace.JSONContentType)),
		may("data", dataSchema()), may("data_base64", about(base64Text(), "In place of data, if the content type is not JSON.")),
		may("attributes", attributesSchema()),
		may("delay", about(duration(), "At most "+FormatDuration(millrace.MaxEventDelay)+".")), may("deliver_at", anyTime()),
	), [2]string{"data", "data_base64"}, [2]string{"delay", "deliver_at"})
}

// cloudEventSchema is an event of CloudEvents 1.0. A member that is null counts as left out.
func cloudEventSchema() Schema {
	extension := text(millrace.MaxAttrValue)
	extension["type"] = []string{"string", "boolean", "integer", "null"}
	return with(with(answerOf(
		has("specversion", Schema{"const": "1.0"}),
		has("id", filled(text(millrace.MaxIDLen))), has("source", about(filled(text(millrace.MaxAttrValue)), "A URI reference.")), has("type", nameSchema()),
		may("time", orNull(anyTime())), may("datacontenttype", orNull(contentTypeSchema())),
		may("dataschema", about(orNull(filled(text(millrace.MaxAttrValue))), "A URI.")),
		may("subject", about(orNull(filled(text(millrace.MaxKeyLen))), "The event's key.")),
		may("partitionkey", about(with(filled(text(millrace.MaxKeyLen)), "type", extension["type"]), "The event's key, if there is no subject.")),
		may("tenant", about(with(nameSchema(), "type", extension["type"]), "The event's tenant.")),
		may("data", dataSchema()), may("data_base64", orNull(base64Text())),
	), "additionalProperties", extension), "propertyNames", Schema{"pattern": "^[a-z0-9_]{1,64}$"})
}

func durabilitySchema() Schema {
	return choice(millrace.Durable, millrace.Buffered, millrace.InMemory, millrace.EverySec, millrace.Fsync, millrace.Replicated, millrace.Unknown)
}
