package api

import (
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace"
)

// houseSchemas describe the store and its nodes.
func houseSchemas() map[string]Schema {
	counts := func(names ...string) Schema {
		members := []member{}
		for _, name := range names {
			members = append(members, has(name, count()))
		}
		return answerOf(members...)
	}
	word := Schema{"type": "string"}
	stats := func(durability, lanes Schema) []member {
		members := []member{
			has("engine", word), has("durability", durability), has("lanes", lanes), has("format", count()), has("namespace", word),
			has("queues", SchemaRef("QueueCounts")), has("subscriptions", counts("queued", "dead", "failing", "disabled")),
			has("streams", counts("records", "lag", "quarantined")), has("operations", counts("queued", "running")),
		}
		for _, name := range []string{"bytes", "published", "duplicates", "refused", "dropped", "unrouted", "delayed"} {
			members = append(members, has(name, count()))
		}
		return members
	}
	check := answerOf(has("name", word), has("ok", boolean()), has("detail", word))
	return map[string]Schema{
		"Health": answerOf(has("ok", boolean())),
		"Node": answerOf(has("id", word), has("host", word), has("version", word), has("roles", listOf(word)), has("leader", boolean()),
			has("started_at", utcTime()), has("seen_at", utcTime())),
		"Nodes": answerOf(has("nodes", listOf(SchemaRef("Node")))),
		"Definitions": answerOf(has("queues", byName(SchemaRef("QueueSpec"))), has("tenants", byName(byName(SchemaRef("TenantSettings")))),
			has("subscriptions", about(byName(SchemaRef("SubscriptionSpec")), "Without what is secret.")), has("triggers", about(byName(SchemaRef("TriggerSpec")), "Without their URLs."))),
		"Apply": requestOf(
			may("queues", about(byName(SchemaRef("QueueSpec")), "By name.")),
			may("tenants", about(byName(byName(SchemaRef("TenantSettings"))), "By queue, then by tenant.")),
			may("subscriptions", about(byName(SchemaRef("SubscriptionSpec")), "By name. One without its secret keeps the one that it has; a new one gets one made, which only a rotation can replace by one that you know.")),
			may("triggers", about(byName(SchemaRef("TriggerSpec")), "By name. A new one gets a URL that only a rotation shows."))),
		"Applied": answerOf(has("created", listOf(word)), has("changed", listOf(word)), has("deleted", listOf(word)), has("same", count())),
		"Stats":   answerOf(stats(durabilitySchema(), integer(1, millrace.MaxLanes))...),
		// What a store that does not answer cannot tell is zero.
		"Readiness": {"anyOf": []Schema{SchemaRef("Health"), answerOf(append(stats(word, count()), has("ok", boolean()), has("checks", listOf(check)))...)}},
		"Description": {
			"type": "object", "required": []string{"openapi", "info", "paths"}, "additionalProperties": true,
			"description": "An OpenAPI document: this one.",
		},
	}
}

// byName is an object whose members are named by its writer.
func byName(of Schema) Schema {
	return Schema{"type": "object", "propertyNames": nameSchema(), "additionalProperties": of}
}

// problemSchemas are errors: one that fits all, and one for each status.
func problemSchemas() map[string]Schema {
	all := map[string]Schema{
		"Fault": answerOf(
			has("location", about(filled(Schema{"type": "string"}), "Such as body[1].tenant, query.limit, path.queue or header.ce-id.")),
			has("message", filled(Schema{"type": "string"}))),
		"Problem": answerOf(
			has("type", Schema{"const": "about:blank"}), has("title", filled(Schema{"type": "string"})), has("status", integer(400, 599)),
			has("code", choice(allCodes()...)), has("detail", Schema{"type": "string"}),
			has("request_id", about(filled(Schema{"type": "string"}), "Also in the header X-Request-Id, and in the server's log.")),
			may("errors", about(Schema{"type": "array", "items": SchemaRef("Fault"), "minItems": 1}, "Every fault of the request; only with 400 and 422.")),
			may("sink", about(Schema{"type": "string"}, "Which sink is full; only with the code full.")),
			may("current_version", about(count(), "Only with the code version_conflict.")),
			may("events", about(list(SchemaRef("PublishedEvent"), 1, millrace.MaxEvents), "What became of each event; only with the code partly_committed.")),
		),
	}
	for _, s := range statuses {
		all[ProblemName(s.status)] = problemOf(s.status, s.codes)
	}
	return all
}

// ProblemName is the name of the schema of the problems that have a status.
func ProblemName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

// problemOf narrows a problem to a status and its codes.
func problemOf(status int, codes []millrace.Code) Schema {
	narrow := Schema{
		"status": Schema{"const": status}, "title": Schema{"const": http.StatusText(status)}, "code": Schema{"enum": codes},
	}
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		narrow["errors"] = false
	}
	rules := []Schema{SchemaRef("Problem"), {"properties": narrow}}
	for code, extra := range map[millrace.Code]string{
		millrace.CodeFull: "sink", millrace.CodeVersionConflict: "current_version", millrace.CodePartlyCommitted: "events",
	} {
		if StatusOf(code) == status {
			rules = append(rules, Schema{
				"if":   Schema{"properties": Schema{"code": Schema{"const": code}}},
				"then": Schema{"required": []string{extra}}, "else": Schema{"properties": Schema{extra: false}},
			})
		}
	}
	return Schema{"allOf": rules}
}

// allCodes is every code that an answer may carry.
func allCodes() (codes []millrace.Code) {
	for _, s := range statuses {
		codes = append(codes, s.codes...)
	}
	return codes
}

// StatusesOfErrors is every status that a problem may have.
func StatusesOfErrors() (list []int) {
	for _, s := range statuses {
		list = append(list, s.status)
	}
	return list
}
