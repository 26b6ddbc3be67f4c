package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// newDocument is the API's description before any route is added.
func newDocument(version string) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Millrace", Version: version,
			Description: "The event backbone for products with many tenants. A request is read strictly: unknown, duplicate and case-variant members, trailing data " +
				"and invalid UTF-8 are refused, and all faults come in one answer. An answer may get further members in later versions; ignore those you do not know.",
		},
		Tags: []*huma.Tag{
			{Name: "topic", Description: "Where events are published."}, {Name: "event", Description: "Events that are not due yet, and where events go."},
			{Name: "queue", Description: "What consumers lease messages from, in fair turns over the tenants."},
			{Name: "subscription", Description: "What pushes events, in batches, to a URL."},
			{Name: "operation", Description: "The tracked life of one piece of queued work."},
			{Name: "trigger", Description: "Secret URLs that publish an event or begin an operation."},
			{Name: "node", Description: "The processes that have joined the store."}, {Name: "store", Description: "The store and this server."},
		},
		Components: &huma.Components{
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer"},
				"basic":  {Type: "http", Scheme: "basic", Description: "The token as the user name, with any password."},
			},
			Responses: problemResponses(),
			Parameters: map[string]*huma.Param{"RequestID": {
				Name: "X-Request-Id", In: "header", Description: "Your own id for the request, of up to 128 printable characters. It is echoed; if there is none, one is made.",
				Extensions: schemaOf(api.Schema{"type": "string"}),
			}},
			Headers:    headers(),
			Extensions: map[string]any{"schemas": api.Schemas()},
		},
	}
}

// schemaOf puts a schema of the wire where the description wants one of its own.
func schemaOf(s api.Schema) map[string]any { return map[string]any{"schema": s} }

// media is a body of a content type that has a schema, with an example if it has a name.
func media(kind string, s api.Schema, example string) map[string]*huma.MediaType {
	m := &huma.MediaType{Extensions: schemaOf(s)}
	if example != "" {
		m.Example = api.Example(example)
	}
	return map[string]*huma.MediaType{kind: m}
}

// headers is every header of an answer that is worth knowing.
func headers() map[string]*huma.Header {
	text := schemaOf(api.Schema{"type": "string", "minLength": 1})
	return map[string]*huma.Header{
		"X-Request-Id":     {Description: "The id of the request, in the log too.", Required: true, Extensions: text},
		"Location":         {Description: "Where the new thing is.", Required: true, Extensions: text},
		"Retry-After":      {Description: "How many seconds to wait.", Required: true, Extensions: schemaOf(api.Schema{"type": "string", "pattern": "^[0-9]+$"})},
		"WWW-Authenticate": {Description: "How to show a token.", Required: true, Extensions: text},
	}
}

// answerHeaders refers to the headers of an answer with a status.
func answerHeaders(status int) map[string]*huma.Header {
	names := []string{"X-Request-Id"}
	switch status {
	case http.StatusCreated, http.StatusAccepted:
		names = append(names, "Location")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		names = append(names, "Retry-After")
	case http.StatusUnauthorized:
		names = append(names, "WWW-Authenticate")
	}
	refs := map[string]*huma.Header{}
	for _, name := range names {
		refs[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return refs
}

// problemResponses is an answer for every status that an error can have.
func problemResponses() map[string]*huma.Response {
	all := map[string]*huma.Response{}
	examples := map[int]string{
		http.StatusUnprocessableEntity: "problem", http.StatusPreconditionFailed: "problem_conflict",
		http.StatusTooManyRequests: "problem_full", http.StatusServiceUnavailable: "problem_partly",
	}
	for _, status := range api.StatusesOfErrors() {
		name := api.ProblemName(status)
		all[name] = &huma.Response{
			Description: http.StatusText(status), Headers: answerHeaders(status), Content: media(api.ProblemType, api.SchemaRef(name), examples[status]),
		}
	}
	return all
}

// operation is how the API's description shows a route.
func (rt *route) operation(d description) *huma.Operation {
	op := &huma.Operation{
		OperationID: rt.operationID(), Method: rt.method, Path: rt.path, Summary: rt.does, Tags: []string{rt.noun},
		Parameters: rt.parameters(d), Responses: rt.responses(d), Extensions: map[string]any{"x-scope": string(rt.scope)},
	}
	if rt.body {
		op.RequestBody = &huma.RequestBody{Content: media(millrace.JSONContentType, api.SchemaRef(d.in), d.inExample), Required: !d.inOptional}
		for kind, more := range d.forms {
			op.RequestBody.Content[kind] = more
		}
	}
	if rt.scope != scopeNone {
		op.Security = []map[string][]string{{"bearer": {}}, {"basic": {}}}
	}
	return op
}

// parameters is what a route takes beside its body.
func (rt *route) parameters(d description) []*huma.Param {
	params := []*huma.Param{{Ref: "#/components/parameters/RequestID"}}
	for _, part := range strings.Split(rt.path, "/") {
		if name, found := strings.CutPrefix(part, "{"); found {
			name = strings.TrimSuffix(name, "}")
			params = append(params, &huma.Param{Name: name, In: "path", Required: true, Extensions: schemaOf(api.ParameterSchema(name))})
		}
	}
	for _, name := range rt.query {
		params = append(params, &huma.Param{Name: name, In: "query", Required: d.needs(name), Extensions: schemaOf(api.ParameterSchema(name))})
	}
	return append(params, d.more...)
}

// responses is what a route answers.
func (rt *route) responses(d description) map[string]*huma.Response {
	all := map[string]*huma.Response{}
	add := func(status int, content map[string]*huma.MediaType) {
		all[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Headers: answerHeaders(status), Content: content}
	}
	for _, status := range rt.refusals(d) {
		all[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + api.ProblemName(status)}
	}
	switch {
	case d.stream != "":
		add(http.StatusOK, media(d.stream, api.Schema{"type": "string", "description": d.streamed}, ""))
	case d.out == "":
		add(http.StatusNoContent, nil)
	case d.accepts:
		add(http.StatusAccepted, media(millrace.JSONContentType, api.SchemaRef(d.out), d.outExample))
	default:
		add(http.StatusOK, media(millrace.JSONContentType, api.SchemaRef(d.out), d.outExample))
	}
	if d.creates {
		add(http.StatusCreated, media(millrace.JSONContentType, api.SchemaRef(d.out), cmp.Or(d.newExample, d.outExample)))
	}
	if d.unready {
		both := media(millrace.JSONContentType, api.SchemaRef(d.out), "")
		maps.Copy(both, media(api.ProblemType, api.SchemaRef(api.ProblemName(http.StatusServiceUnavailable)), ""))
		add(http.StatusServiceUnavailable, both)
	}
	return all
}

// refusals is the statuses of the problems that a route may answer with: what
// every route of its kind has, and its own.
func (rt *route) refusals(d description) []int {
	list := append([]int{http.StatusForbidden, http.StatusInternalServerError}, d.refuses...)
	if rt.scope != scopeNone {
		list = append(list, http.StatusUnauthorized, http.StatusServiceUnavailable)
	}
	if !rt.anyQuery {
		list = append(list, http.StatusBadRequest, http.StatusUnprocessableEntity)
	}
	if rt.body {
		list = append(list, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return list
}

// operationID names an operation after its method and the fixed parts of its path.
func (rt *route) operationID() string {
	id := strings.ToLower(rt.method)
	for _, part := range strings.Split(strings.TrimPrefix(rt.path, "/v1"), "/") {
		switch {
		case part == "":
		case strings.HasPrefix(part, "{"):
			id += "-one"
		default:
			id += "-" + part
		}
	}
	return id
}
