package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/api"
)

// bodyRoutes is every route that reads a body.
func bodyRoutes() []route {
	return slices.DeleteFunc(routes(), func(rt route) bool { return !rt.body })
}

// upper is a body with the first letter of one of its members in upper case, for each of them.
func upper(t *testing.T, body string) (bodies []string) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		bodies = append(bodies, strings.Replace(body, `"`+name+`"`, `"`+strings.ToUpper(name[:1])+name[1:]+`"`, 1))
	}
	return bodies
}

func TestEveryBodyIsReadStrictly(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, rt := range bodyRoutes() {
		if rt.path == "/t/{secret}" {
			continue // it takes any JSON, whatever it is called
		}
		good := goodBody(&rt)
		if good == "" {
			good = "{}"
		}
		deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
		for _, body := range []string{`{"x":1,"x":1}`, good + `x`, good + good, "{\"\xff\":1}", "{\"x\":\"\xed\xa0\x80\"}", deep, `{`, `{"x":01}`, `{'x':1}`, `{"x":NaN}`, "\ufeff" + good} {
			code, faults := s.want(400, rt.method, pathOf(&rt), body).problem(t)
			if code != "malformed" || len(faults) != 1 {
				t.Errorf("%s %s with %.40q: %s %v", rt.method, rt.path, body, code, faults)
			}
		}
		for _, body := range append(upper(t, good), `null`, `7`, `"x"`, `{"$schema":"x",`+good[1:], strings.TrimSuffix(good, "}")+`,"Id":1}`) {
			body = strings.NewReplacer(",}", "}", "{,", "{").Replace(body)
			code, faults := s.want(422, rt.method, pathOf(&rt), body).problem(t)
			if code != "invalid" || len(faults) == 0 {
				t.Errorf("%s %s with %.40q: %s %v", rt.method, rt.path, body, code, faults)
			}
		}
		for _, kind := range []string{"", "text/plain", "text/json", "application/xml", "application/merge-patch+json", "application/json; charset=utf-16"} {
			s.want(415, rt.method, pathOf(&rt), good, "Content-Type", kind)
		}
	}
	if n := s.published(); n != 0 {
		t.Errorf("%v events are stored", n)
	}
}

// The mark is nothing that could be a name; the word is.
const (
	mark     = "Zq7!hunter2"
	markWord = "Zq7hunter2"
)

// spoilt is a JSON value with one of its parts replaced, for each part.
func spoilt(v any, with any) (values []any) {
	values = append(values, with)
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			for _, bad := range spoilt(member, with) {
				other := maps.Clone(v)
				other[name] = bad
				values = append(values, other)
			}
		}
		more := maps.Clone(v)
		more[mark] = with
		values = append(values, more)
	case []any:
		for i, element := range v {
			for _, bad := range spoilt(element, with) {
				other := slices.Clone(v)
				other[i] = bad
				values = append(values, other)
			}
		}
	}
	return values
}

// spoiltBodies is a good body with the mark in every place, and some that are not JSON.
func spoiltBodies(t *testing.T, body string) (bodies []string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	for _, with := range []any{mark, "(" + mark + `\8[`, mark + "\x01" + strings.Repeat("x", 2000), []any{mark}, map[string]any{mark: mark}, map[string]any{"x": mark}} {
		for _, bad := range spoilt(v, with) {
			text, err := json.Marshal(bad)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, string(text))
		}
	}
	return append(bodies, mark, `{"x":`+mark+`}`, `{"`+mark+`":1,"`+mark+`":2}`, `{"x":"`+mark+"\xff\"}", body+mark, `{"x":"`+mark)
}

// silent asks and fails if a refusal repeats what was sent. It reports whether it was refused.
func (s *site) silent(method, path, body string, header ...string) bool {
	s.t.Helper()
	g := s.ask(method, path, body, header...)
	if g.status < 400 {
		return false
	}
	if g.repeats() {
		s.t.Errorf("%s %s with %.200q answers %d and repeats it: %s", method, path, body, g.status, g.body)
	}
	return true
}

// repeats reports whether an answer holds the mark or a part of it.
func (g got) repeats() bool {
	return strings.Contains(g.body, "hunter2") || strings.Contains(fmt.Sprint(g.header), "hunter2")
}

func TestAnAnswerThatRepeatsTheMarkerIsFound(t *testing.T) {
	for _, g := range []got{{body: `{"detail":"` + mark + `"}`}, {body: `{"location":"body.` + markWord + `"}`}, {header: http.Header{"Location": {"/" + markWord}}}} {
		if !g.repeats() {
			t.Errorf("%v", g)
		}
	}
	if (got{body: `{"detail":"1 fault"}`}).repeats() {
		t.Error("it is found where it is not")
	}
}

func TestNoRefusalRepeatsWhatABodyHolds(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	s.want(201, "PUT", emails, `{"match":"."}`)
	for _, rt := range bodyRoutes() {
		d := descriptions()[rt.method+" "+rt.path]
		good := map[string]string{"application/json": "{}"}
		if d.inExample != "" {
			good["application/json"] = string(api.Example(d.inExample))
		}
		if _, cloud := d.forms[api.CloudEventType]; cloud {
			good[api.CloudEventType], good[api.CloudEventBatchType] = example(t, "cloudevent_in"), example(t, "cloudevents_in")
		}
		refusals := 0
		for kind, body := range good {
			for _, bad := range spoiltBodies(t, body) {
				if s.silent(rt.method, pathOf(&rt), bad, "Content-Type", kind) {
					refusals++
				}
			}
		}
		if refusals < 5 {
			t.Errorf("%s %s refused only %d", rt.method, rt.path, refusals)
		}
	}
}

func TestNoRefusalRepeatsWhatAPathOrAQueryHolds(t *testing.T) {
	s := newSite(t, openBroker(t), Options{})
	for _, rt := range routes() {
		body := goodBody(&rt)
		for _, sent := range []string{mark, markWord, "a:" + markWord, markWord + "\x01", strings.Repeat(markWord, 100), "..", markWord + "/" + mark} {
			for _, part := range strings.Split(rt.path, "/") {
				if strings.HasPrefix(part, "{") {
					path := strings.Replace(rt.path, part, url.PathEscape(sent), 1)
					s.silent(rt.method, fill(path), body)
				}
			}
			for _, name := range append(finite(&rt), mark, "no."+mark) {
				path, _, _ := strings.Cut(pathOf(&rt), "?")
				s.silent(rt.method, path+"?"+url.Values{name: {sent}}.Encode(), body)
				s.silent(rt.method, path+"?"+name+"=%zz"+url.QueryEscape(sent), body)
			}
		}
		s.silent("PATCH", pathOf(&rt), mark)
		s.silent(rt.method, pathOf(&rt)+"/"+markWord, body)
	}
	if !s.silent("GET", "/v1/queues/"+markWord, "") {
		t.Error("an unknown queue is not refused")
	}
}

// finite is the parameters of a route's query, unless its answer has no end.
func finite(rt *route) []string {
	if descriptions()[rt.method+" "+rt.path].stream == "text/event-stream" {
		return nil
	}
	return slices.Clone(rt.query)
}

// fill gives every parameter of a path a value.
func fill(path string) string {
	return strings.NewReplacer("{queue}", "emails", "{subscription}", "shop", "{topic}", "orders", "{tenant}", "acme", "{id}", "a-1").Replace(path)
}

func TestNoRefusalRepeatsWhatAHeaderHolds(t *testing.T) {
	s := newSite(t, openBroker(t), Options{RootToken: token, Logger: quiet()})
	s.header.Set("Authorization", "Bearer "+token)
	long := mark + strings.Repeat("x", 2000)
	good := []string{"ce-specversion", "1.0", "ce-id", "a", "ce-source", "/s", "ce-type", "t"}
	for _, header := range [][]string{
		{"Idempotency-Key", long}, {"Content-Type", "application/" + mark}, {"Content-Type", mark}, {"Content-Encoding", mark}, {"Authorization", "Bearer " + mark}, {"Authorization", mark},
		{"Content-Type", api.CloudEventType + "; charset=" + markWord}, {"Content-Type", "application/json; charset=" + markWord}, {"Content-Type", "application/cloudevents+" + markWord},
		append(good, "ce-specversion", mark), append(good, "ce-id", long), append(good, "ce-source", "%zz"+mark), append(good, "ce-source", ":"+mark), append(good, "ce-type", mark), append(good, "ce-time", mark),
		append(good, "ce-subject", mark+"%00"), append(good, "ce-tenant", mark), append(good, "ce-dataschema", mark), append(good, "ce-note", mark+"%ff"), append(good, "ce-note", long),
		append(good, "ce-"+mark, "x"), append(good, "ce-datacontenttype", mark), append(good, "Content-Type", "a b;"+mark),
	} {
		if !s.silent("POST", events, `{"type":"a"}`, header...) {
			t.Errorf("%.100v is not refused", header)
		}
	}
}
