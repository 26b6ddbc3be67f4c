package api

import (
	"embed"
	"encoding/json"
	"maps"

	"github.com/millrace-dev/millrace"
)

// Schema is a JSON Schema, draft 2020-12, as OpenAPI 3.1 has it. The schemas are
// written by hand beside the decoders, which are written by hand too; tests hold
// the two together.
type Schema map[string]any

// Schemas is every named schema of the wire. A schema refers to another by its
// name below #/components/schemas/.
func Schemas() map[string]Schema {
	all := map[string]Schema{}
	for _, part := range []map[string]Schema{
		eventSchemas(), publishSchemas(), topicSchemas(), queueSchemas(), tenantSchemas(), leaseSchemas(), settleSchemas(), deadSchemas(), subscriptionSchemas(), operationSchemas(), triggerSchemas(), houseSchemas(), problemSchemas(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// SchemaRef refers to a named schema.
func SchemaRef(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

//go:embed testdata/*.json
var examples embed.FS

// Example is a text of the wire as the documentation shows it, by its name. It is
// one that the tests compare with what is read and written.
func Example(name string) json.RawMessage {
	text, err := examples.ReadFile("testdata/" + name + ".json")
	if err != nil {
		panic("read example " + name + ": " + err.Error()) // it is a part of the program
	}
	return text
}

// ParameterSchema is the schema of a parameter of a path or a query.
func ParameterSchema(name string) Schema {
	switch name {
	case "id", "batch", "event":
		return filled(text(millrace.MaxIDLen))
	case "state":
		return batchStateSchema()
	case "limit":
		return with(integer(1, millrace.MaxPage), "default", millrace.DefaultPage)
	case "cursor":
		return Schema{"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": maxCursorLen}
	case "if_empty", "prune", "dry_run":
		return with(boolean(), "default", false)
	case "match":
		return Schema{"type": "string", "minLength": 1, "maxLength": millrace.MaxPatternLen}
	case "key", "subject":
		return filled(text(millrace.MaxKeyLen))
	}
	return countParameter(name)
}

// countParameter is the schema of a parameter of operations and of their counts.
func countParameter(name string) Schema {
	switch name {
	case "status", "seen":
		return statusSchema()
	case "wait":
		return about(duration(), "At most "+FormatDuration(millrace.MaxWait)+".")
	case "bucket":
		return with(choice("1m", "1h", "1d"), "default", "1m")
	case "since":
		return about(Schema{"type": "string", "anyOf": []Schema{anyTime(), duration()}}, "A time, or a duration back from now; 60 buckets before until if it is left out.")
	case "until":
		return about(anyTime(), "Now if it is left out.")
	case "secret":
		return filled(Schema{"type": "string"})
	}
	return nameSchema()
}

// member is one member of an object.
type member struct {
	name     string
	schema   Schema
	optional bool
}

// has is a member that is always there.
func has(name string, s Schema) member { return member{name: name, schema: s} }

// may is a member that may be left out.
func may(name string, s Schema) member { return member{name: name, schema: s, optional: true} }

// answerOf is an object of an answer. It may get further members in later versions.
func answerOf(members ...member) Schema {
	properties, required := Schema{}, []string{}
	for _, m := range members {
		properties[m.name] = m.schema
		if !m.optional {
			required = append(required, m.name)
		}
	}
	s := Schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// requestOf is an object of a request: what it does not name is refused.
func requestOf(members ...member) Schema {
	return with(answerOf(members...), "additionalProperties", false)
}

// with is a schema with one more word.
func with(s Schema, word string, value any) Schema {
	s = maps.Clone(s)
	s[word] = value
	return s
}

// about is a schema with a description.
func about(s Schema, description string) Schema { return with(s, "description", description) }

// notBoth is a schema whose objects have at most one of two members.
func notBoth(s Schema, pairs ...[2]string) Schema {
	rules := []Schema{}
	for _, pair := range pairs {
		rules = append(rules, Schema{"not": Schema{"required": pair[:]}})
	}
	return with(s, "allOf", rules)
}

// orNull is a schema of a plain type that may be null too.
func orNull(s Schema) Schema { return with(s, "type", []any{s["type"], "null"}) }

func boolean() Schema { return Schema{"type": "boolean"} }

func integer(least, most int64) Schema {
	return Schema{"type": "integer", "minimum": least, "maximum": most}
}

// count is an integer of an answer.
func count() Schema { return integer(0, maxInteger) }

func choice[T ~string](values ...T) Schema { return Schema{"type": "string", "enum": values} }

func list(of Schema, least, most int) Schema {
	return Schema{"type": "array", "items": of, "minItems": least, "maxItems": most}
}

// listOf is a list of an answer.
func listOf(of Schema) Schema { return Schema{"type": "array", "items": of} }

// page is one page of a list, under its plural.
func page(plural string, of Schema) Schema {
	next := about(Schema{"type": "string", "minLength": 1}, "The cursor of the next page; absent on the last.")
	return answerOf(has(plural, listOf(of)), may("next", next))
}

func nameSchema() Schema {
	return Schema{
		"type": "string", "minLength": 1, "maxLength": millrace.MaxNameLen, "pattern": "^[A-Za-z0-9._-]+$",
		"not": Schema{"enum": []string{".", ".."}},
	}
}

// text is UTF-8 without control characters, of at most so many bytes.
func text(bytes int) Schema {
	return Schema{"type": "string", "maxLength": bytes, "pattern": `^[^\x00-\x1f\x7f-\x9f]*$`}
}

func filled(s Schema) Schema { return with(s, "minLength", 1) }

// anyTime is a time in a request.
func anyTime() Schema { return Schema{"type": "string", "format": "date-time"} }

// utcTime is a time in an answer: UTC, milliseconds.
func utcTime() Schema {
	return Schema{"type": "string", "format": "date-time", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$`}
}

// duration is a length of time in Go's syntax, with d for days.
func duration() Schema {
	return Schema{
		"type": "string", "minLength": 1, "examples": []string{"1m30s"},
		"pattern": `^([0-9]+d)?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`,
	}
}

func base64Text() Schema {
	return Schema{"type": "string", "contentEncoding": "base64", "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}
}
