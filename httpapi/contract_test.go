package httpapi

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/internal/schematest"
)

// contract is the API's own description, against which every answer of every
// test of this package is held.
type contract struct {
	doc map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

// readContract is the contract that a description says. An answer must have no
// member that the description does not name, though a client should bear it.
func readContract(text []byte) (*contract, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	schematest.CloseObjects(doc)
	k := &contract{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	k.compiler.AssertFormat()
	return k, k.compiler.AddResource("contract.json", doc)
}

// at is what stands in the description below some names, references followed,
// and the names where it stands itself.
func (k *contract) at(path ...string) (map[string]any, []string) {
	var v any = k.doc
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	m, _ := v.(map[string]any)
	if ref, found := m["$ref"].(string); found {
		return k.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return m, path
}

// schema is the schema that stands below some names.
func (k *contract) schema(path ...string) (*jsonschema.Schema, error) {
	pointer := ""
	for _, name := range path {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := k.compiler.Compile("contract.json#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile schema at %s: %w", pointer, err)
	}
	k.schemas[pointer] = s
	return s, nil
}

// fault holds a JSON text against the schema below some names.
func (k *contract) fault(text []byte, path ...string) error {
	s, err := k.schema(path...)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// operation is where the operation of a request stands in the description; nil if it has none.
func (k *contract) operation(method, path string) []string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	paths, _ := k.at("paths")
	templates := slices.SortedFunc(maps.Keys(paths), func(a, b string) int { // one that has fewer parameters goes first
		return cmp.Compare(strings.Count(a, "{"), strings.Count(b, "{"))
	})
	for _, template := range templates {
		rt := route{path: template}
		if _, found := paths[template].(map[string]any)[strings.ToLower(method)]; found && rt.fits(path) {
			return []string{"paths", template, strings.ToLower(method)}
		}
	}
	return nil
}

// exchange is a request and its answer.
type exchange struct {
	method, path string
	header       http.Header // of the request
	body         []byte      // of the request
	status       int
	answerHeader http.Header
	answer       []byte
}

// check holds an exchange against the contract.
func (k *contract) check(x *exchange) error {
	if bytes.Contains(x.answer, []byte(`"$schema"`)) {
		return fmt.Errorf("the answer has a member $schema")
	}
	op := k.operation(x.method, x.path)
	if op == nil {
		return k.checkUnknown(x)
	}
	if err := k.checkRequest(x, op); err != nil {
		return err
	}
	response, place := k.at(append(op, "responses", fmt.Sprint(x.status))...)
	if response == nil {
		return fmt.Errorf("the status is not described")
	}
	if err := k.checkHeaders(x, place); err != nil {
		return err
	}
	return k.checkBody(x, response, place)
}

// checkUnknown holds an answer to what is no operation against what every such answer is.
func (k *contract) checkUnknown(x *exchange) error {
	if x.status == http.StatusNoContent && x.method == http.MethodOptions {
		return nil
	}
	place := []string{"components", "responses", api.ProblemName(x.status)}
	response, _ := k.at(place...)
	if response == nil {
		return fmt.Errorf("a request that is no operation has an answer that is no problem")
	}
	return k.checkBody(x, response, place)
}

// checkRequest holds a request that was taken against the schema of its body: what
// the server takes the description must allow.
func (k *contract) checkRequest(x *exchange, op []string) error {
	kind, _, _ := mime.ParseMediaType(x.header.Get("Content-Type"))
	if form, _ := api.PublishFormOf(x.header); form == api.BinaryForm && strings.HasSuffix(x.path, "/events") || strings.HasPrefix(x.path, "/t/") {
		kind = "*/*"
	}
	if x.status >= 300 || len(bytes.TrimSpace(x.body)) == 0 || kind == "*/*" {
		return nil
	}
	place := append(op, "requestBody", "content", kind, "schema")
	if schema, _ := k.at(place...); schema == nil {
		return fmt.Errorf("a body of %s was taken, which is not described", kind)
	}
	if err := k.fault(x.body, place...); err != nil {
		return fmt.Errorf("the request was taken, but does not fit its schema: %w", err)
	}
	return nil
}

func (k *contract) checkHeaders(x *exchange, response []string) error {
	headers, _ := k.at(append(response, "headers")...)
	for name := range headers {
		header, place := k.at(append(response, "headers", name)...)
		values := x.answerHeader[http.CanonicalHeaderKey(name)]
		if required, _ := header["required"].(bool); required && len(values) == 0 {
			return fmt.Errorf("the header %s is missing", name)
		}
		schema, err := k.schema(append(place, "schema")...)
		if err != nil {
			return err
		}
		for _, value := range values {
			if err := schema.Validate(value); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	for _, name := range []string{"Location", "Retry-After", "WWW-Authenticate"} {
		if _, described := headers[name]; !described && x.answerHeader.Get(name) != "" {
			return fmt.Errorf("the header %s is not described", name)
		}
	}
	return nil
}

func (k *contract) checkBody(x *exchange, response map[string]any, place []string) error {
	content, _ := response["content"].(map[string]any)
	kind := x.answerHeader.Get("Content-Type")
	if content == nil {
		if len(x.answer) > 0 || kind != "" {
			return fmt.Errorf("there is a body, which is not described")
		}
		return nil
	}
	base, _, _ := strings.Cut(kind, ";")
	if content[base] == nil {
		return fmt.Errorf("the content type %q is not described", kind)
	}
	if x.method == http.MethodHead || !strings.HasSuffix(base, "json") {
		return nil
	}
	return k.fault(x.answer, append(place, "content", base, "schema")...)
}

// recorder keeps what a handler answers while it is sent.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.body.Write(p)
	return r.ResponseWriter.Write(p)
}

func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Unwrap lets deadlines through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// held is a handler whose every answer is held against its own description.
func held(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	k, err := readContract(h.(*server).openAPI)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		var body bytes.Buffer
		r = r.WithContext(r.Context()) // the server looks at the body of its own request
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &body), r.Body}
		}
		h.ServeHTTP(rec, r)
		x := &exchange{r.Method, r.URL.EscapedPath(), r.Header, body.Bytes(), rec.status, rec.Header(), rec.body.Bytes()}
		if err := k.check(x); err != nil {
			t.Errorf("%s %s answered %d against its description: %v\n%.2000s", x.method, x.path, x.status, err, x.answer)
		}
	})
}
