package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/api"
)

// described is the description that a server gives, and the contract it makes.
func described(t *testing.T) (map[string]any, *contract) {
	t.Helper()
	text := Handler(openBroker(t), Options{Logger: quiet()}).(*server).openAPI
	k, err := readContract(text)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc, k
}

func TestEveryRouteIsDescribed(t *testing.T) {
	all := descriptions()
	for _, rt := range routes() {
		name := rt.method + " " + rt.path
		d, found := all[name]
		if !found || rt.body != (d.in != "") {
			t.Errorf("%s has no description, or not of its body", name)
		}
		if rt.body && !d.inOptional && d.inExample == "" {
			t.Errorf("%s shows no example of its body", name)
		}
	}
}

// words is which words an object of an OpenAPI 3.1 document may have, by what it
// is, and what stands below each; "*" is any name, "" is nothing to look into.
var words = map[string]map[string]string{
	"document":   {"openapi": "", "info": "info", "tags": "tag", "paths": "paths", "components": "components"},
	"info":       {"title": "", "version": "", "description": ""},
	"tag":        {"name": "", "description": ""},
	"components": {"schemas": "", "responses": "responses", "parameters": "parameters", "headers": "headers", "securitySchemes": "securities"},
	"paths":      {"*": "path"},
	"path":       {"get": "operation", "put": "operation", "post": "operation", "delete": "operation"},
	"operation": {
		"operationId": "", "summary": "", "tags": "", "parameters": "parameter", "requestBody": "body", "responses": "responses", "security": "", "x-scope": "",
	},
	"body": {"content": "content", "required": ""}, "content": {"*": "media"}, "media": {"schema": "", "example": ""},
	"responses": {"*": "response"}, "response": {"description": "", "headers": "headers", "content": "content", "$ref": ""},
	"headers": {"*": "header"}, "header": {"description": "", "required": "", "schema": "", "$ref": ""},
	"parameters": {"*": "parameter"}, "parameter": {"name": "", "in": "", "description": "", "required": "", "schema": "", "$ref": ""},
	"securities": {"*": "security"}, "security": {"type": "", "scheme": "", "description": ""},
}

// needed is which words an object must have, unless it is a reference.
var needed = map[string][]string{
	"document": {"openapi", "info", "paths"}, "info": {"title", "version"}, "operation": {"operationId", "summary", "responses", "tags"},
	"body": {"content"}, "response": {"description"}, "header": {"schema"}, "parameter": {"name", "in", "schema"}, "security": {"type", "scheme"},
}

// malformed lists what is wrong with the form of a part of a document.
func malformed(kind, at string, v any) (faults []string) {
	if list, isList := v.([]any); isList {
		for i, element := range list {
			faults = append(faults, malformed(kind, fmt.Sprintf("%s[%d]", at, i), element)...)
		}
		return faults
	}
	object, isObject := v.(map[string]any)
	if !isObject {
		return []string{at + " must be an object"}
	}
	for name, member := range object {
		below, known := words[kind][name]
		if free, any := words[kind]["*"]; !known && any {
			below, known = free, true
		}
		switch {
		case !known:
			faults = append(faults, at+"."+name+" is not known")
		case below != "":
			faults = append(faults, malformed(below, at+"."+name, member)...)
		}
	}
	for _, name := range needed[kind] {
		if _, reference := object["$ref"]; object[name] == nil && !reference {
			faults = append(faults, at+" has no "+name)
		}
	}
	return faults
}

func TestTheDescriptionIsAnOpenAPIDocument(t *testing.T) {
	doc, k := described(t)
	for _, fault := range malformed("document", "doc", doc) {
		t.Error(fault)
	}
	if broken := malformed("document", "doc", map[string]any{"openapi": "3.1.0", "info": map[string]any{"titel": "x"}}); len(broken) != 4 {
		t.Errorf("a broken document has only these faults: %v", broken)
	}
	ids := map[string]bool{}
	eachOperation(doc, func(method, path string, op map[string]any) {
		id := op["operationId"].(string)
		if ids[id] {
			t.Errorf("two operations are called %s", id)
		}
		ids[id] = true
		checkParameters(t, k, method+" "+path, path, op)
	})
	if len(ids) != len(routes()) {
		t.Errorf("%d operations for %d routes", len(ids), len(routes()))
	}
}

// eachOperation visits every operation of a document.
func eachOperation(doc map[string]any, visit func(method, path string, op map[string]any)) {
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			visit(strings.ToUpper(method), path, op.(map[string]any))
		}
	}
}

// checkParameters looks that every parameter of a path is declared, and no other, and none twice.
func checkParameters(t *testing.T, k *contract, name, path string, op map[string]any) {
	t.Helper()
	inPath, seen := []string{}, map[string]bool{}
	for _, p := range op["parameters"].([]any) {
		param := p.(map[string]any)
		if ref, found := param["$ref"].(string); found {
			param, _ = k.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		key := fmt.Sprint(param["in"], " ", param["name"])
		if seen[key] {
			t.Errorf("%s declares %s twice", name, key)
		}
		seen[key] = true
		if param["in"] == "path" {
			inPath = append(inPath, "{"+param["name"].(string)+"}")
			if required, _ := param["required"].(bool); !required {
				t.Errorf("%s: %s is not required", name, key)
			}
		}
	}
	if want := regexp.MustCompile(`\{[^}]+\}`).FindAllString(path, -1); !slices.Equal(inPath, want) {
		t.Errorf("%s declares %v", name, inPath)
	}
}

// eachObject visits every object of a document with the names above it.
func eachObject(v any, above []string, visit func(object map[string]any, place []string)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v, above)
		for name, member := range v {
			if name != "example" && name != "enum" {
				eachObject(member, append(slices.Clone(above), name), visit)
			}
		}
	case []any:
		for i, element := range v {
			eachObject(element, append(slices.Clone(above), fmt.Sprint(i)), visit)
		}
	}
}

func TestEveryReferenceLeadsSomewhereAndEverySchemaIsOne(t *testing.T) {
	doc, k := described(t)
	references := map[string]bool{}
	for _, d := range descriptions() {
		for _, name := range []string{d.in, d.out} {
			references["#/components/schemas/"+name] = true
		}
	}
	eachObject(doc, nil, func(object map[string]any, place []string) {
		ref, found := object["$ref"].(string)
		if !found {
			return
		}
		references[ref] = true
		if target, _ := k.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); target == nil {
			t.Errorf("%v refers to %s, which is not there", place, ref)
		}
	})
	schemas, _ := k.at("components", "schemas")
	for name := range schemas {
		if _, err := k.schema("components", "schemas", name); err != nil {
			t.Error(err)
		}
		// A problem of a status that no operation has yet is described all the same.
		if !references["#/components/schemas/"+name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
	eachObject(doc, nil, func(_ map[string]any, place []string) {
		if n := len(place); n > 0 && place[n-1] == "schema" {
			if _, err := k.schema(place...); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestEveryExampleOfTheDescriptionFitsItsSchema(t *testing.T) {
	doc, k := described(t)
	seen := 0
	eachObject(doc, nil, func(object map[string]any, place []string) {
		example, found := object["example"]
		if !found || len(place) < 2 || place[len(place)-2] != "content" {
			return
		}
		seen++
		text, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.fault(text, append(place, "schema")...); err != nil {
			t.Errorf("%v: %v", place, err)
		}
	})
	if seen < 40 {
		t.Errorf("only %d examples are shown", seen)
	}
}

func TestEveryRequestIsClosedAndEveryAnswerOpen(t *testing.T) {
	for name, schema := range api.Schemas() {
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		_, isRequest := requestSchemas()[name]
		eachObject(v, []string{name}, func(object map[string]any, place []string) {
			if _, named := object["properties"]; !named || object["type"] != "object" {
				return
			}
			if _, closed := object["additionalProperties"]; closed != isRequest {
				t.Errorf("%v: closed is %v", place, closed)
			}
		})
	}
}

// requestSchemas is the names of the schemas of requests, and of their parts.
func requestSchemas() map[string]bool {
	names := map[string]bool{"PublishEvent": true, "CloudEvent": true, "CloudEvents": true, "StoredEvent": true, "TriggerEvent": true}
	for _, d := range descriptions() {
		if d.in != "" {
			names[d.in] = true
		}
	}
	return names
}

// wrong is what a test makes wrong in a good exchange.
type wrong struct {
	name string
	make func(*exchange)
}

func TestAnAnswerThatDiffersFromItsDescriptionIsFound(t *testing.T) {
	_, k := described(t)
	good := func() *exchange {
		return &exchange{
			method: "GET", path: "/v1/queues/emails", header: http.Header{}, status: 200,
			answerHeader: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r"}}, answer: []byte(example(t, "queue_out")),
		}
	}
	if err := k.check(good()); err != nil {
		t.Fatal(err)
	}
	problem := func(x *exchange, status int, body string) {
		x.status, x.answer = status, []byte(body)
		x.answerHeader.Set("Content-Type", "application/problem+json")
	}
	swap := func(old, new string) func(*exchange) {
		return func(x *exchange) { x.answer = []byte(strings.Replace(string(x.answer), old, new, 1)) }
	}
	for _, w := range []wrong{
		{"a member is missing", swap(`"version":3,`, ``)},
		{"a member is too many", swap(`"version":3,`, `"version":3,"secret":1,`)},
		{"a member below is too many", swap(`"ready":12,`, `"ready":12,"x":1,`)},
		{"$schema", swap(`"version":3,`, `"version":3,"$schema":"x",`)},
		{"a number is a text", swap(`"version":3`, `"version":"3"`)},
		{"a state is not known", swap(`"active"`, `"asleep"`)},
		{"a time without milliseconds", swap(`01:13:00.000Z`, `01:13:00Z`)},
		{"a time that is none", swap(`01:13:00.000Z`, `25:13:00.000Z`)},
		{"a duration that is none", swap(`"10m"`, `"10 minutes"`)},
		{"no JSON", swap(`{`, ``)},
		{"another content type", func(x *exchange) { x.answerHeader.Set("Content-Type", "text/plain") }},
		{"no request id", func(x *exchange) { x.answerHeader.Del("X-Request-Id") }},
		{"a status that is not described", func(x *exchange) { x.status = 201 }},
		{"a header that is not described", func(x *exchange) { x.answerHeader.Set("Location", "/") }},
		{"a body where none is described", func(x *exchange) { x.method, x.status = "DELETE", 204 }},
		{"a problem with another's code", func(x *exchange) {
			problem(x, 404, `{"type":"about:blank","title":"Not Found","status":404,"code":"invalid","detail":"","request_id":"r"}`)
		}},
		{"a problem with faults where none are", func(x *exchange) {
			problem(x, 404, `{"type":"about:blank","title":"Not Found","status":404,"code":"not_found","detail":"","request_id":"r","errors":[{"location":"a","message":"b"}]}`)
		}},
		{"an unknown path without a problem", func(x *exchange) { x.path = "/v1/nothing" }},
		{"201 without a Location", func(x *exchange) { x.method, x.status = "PUT", 201 }},
		{"a request that does not fit", func(x *exchange) {
			x.method, x.body = "PUT", []byte(`{"match":"x","more":1}`)
			x.header.Set("Content-Type", "application/json")
		}},
		{"a request of another content type", func(x *exchange) {
			x.method, x.body = "PUT", []byte(`{"match":"x"}`)
			x.header.Set("Content-Type", "text/plain")
		}},
	} {
		x := good()
		w.make(x)
		if k.check(x) == nil {
			t.Errorf("%s: it is not found", w.name)
		}
	}
}

func TestAFullQueueMustBeNamed(t *testing.T) {
	_, k := described(t)
	for text, good := range map[string]bool{
		example(t, "problem_full"): true, strings.Replace(example(t, "problem_full"), `,"sink":"emails"`, "", 1): false,
		strings.Replace(example(t, "problem_full"), `"full"`, `"rate_limited"`, 1): false,
	} {
		if err := k.fault([]byte(text), "components", "schemas", "TooManyRequests"); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
