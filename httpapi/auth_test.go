package httpapi

import (
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"
)

const token = "mr_root_2Fq"

func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":x"))
}

// pathOf is a route's path with names in it.
func pathOf(rt *route) string {
	path := strings.NewReplacer("{topic}", "orders", "{queue}", "emails", "{subscription}", "shop", "{tenant}", "acme", "{id}", "a-1", "{trigger}", "resync", "{secret}", "2Fq").Replace(rt.path)
	return path + map[string]string{"/v1/route": "?topic=orders&type=created", "/v1/operations/counts": "?queue=sync", "GET /v1/operations": "?queue=sync"}[pathKey(rt)]
}

// pathKey is a route's path, with its method where another route has the same.
func pathKey(rt *route) string {
	if rt.path == "/v1/operations" {
		return rt.method + " " + rt.path
	}
	return rt.path
}

func TestEveryRouteAsksForTheTokenUnlessItNeedsNone(t *testing.T) {
	s := newSite(t, openBroker(t), Options{RootToken: token})
	bodies := map[string]bool{}
	for _, rt := range routes() {
		for name, header := range map[string]string{
			"none": "", "wrong": "Bearer mr_root_2Fr", "longer": "Bearer " + token + "x", "empty": "Bearer ", "other kind": "Digest " + token,
			"bare": token, "wrong user": basic("someone"), "no user": basic(""),
		} {
			g := s.ask(rt.method, pathOf(&rt), goodBody(&rt), "Authorization", header, "X-Request-Id", "r")
			if rt.scope == scopeNone {
				want := 200
				if rt.path == "/t/{secret}" {
					want = 404 // the secret is not known
				}
				if g.status != want {
					t.Errorf("%s %s with %s: %d", rt.method, rt.path, name, g.status)
				}
				continue
			}
			if g.status != 401 || g.header.Get("WWW-Authenticate") != "Bearer" {
				t.Fatalf("%s %s with %s: %d, %q", rt.method, rt.path, name, g.status, g.header.Get("WWW-Authenticate"))
			}
			bodies[g.body] = true
		}
	}
	if len(bodies) != 1 {
		t.Errorf("there are %d bodies for 401: %v", len(bodies), bodies)
	}
}

func TestEveryRouteServesRoot(t *testing.T) {
	for name, header := range map[string]string{"bearer": "Bearer " + token, "lower case": "bearer " + token, "basic": basic(token)} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, openBroker(t), Options{RootToken: token})
			s.want(201, "PUT", "/v1/queues/emails", `{"match":"."}`, "Authorization", header)
			s.want(201, "PUT", shop, quietSubscription, "Authorization", header)
			s.want(200, "POST", "/v1/topics/orders/events", `{"type":"a"}`, "Authorization", header)
			s.want(200, "POST", "/v1/topics/orders/events", `{"type":"a","id":"a-1","delay":"1h"}`, "Authorization", header)
			s.want(201, "PUT", "/v1/queues/sync", `{"match":"x","tracked":true}`, "Authorization", header)
			url := s.want(201, "PUT", "/v1/triggers/resync", goodBody(&route{path: triggerOne, body: true}), "Authorization", header).object(t)["url"].(string)
			batch := s.want(200, "GET", shop+"/batches", "", "Authorization", header).each(t, "batches", "id")[0].(string)
			for _, rt := range routes() {
				if rt.method == "DELETE" {
					continue // last, so that the others find something
				}
				path, body := strings.Replace(pathOf(&rt), "batches/a-1", "batches/"+batch, 1), goodBody(&rt)
				switch rt.noun {
				case "operation":
					path, body = s.running(t, path, body, "Authorization", header)
				case "trigger":
					path = strings.Replace(path, "/t/2Fq", url, 1)
				}
				if g := s.ask(rt.method, path, body, "Authorization", header); rt.path == triggerOne+"/rotate" {
					url = g.object(t)["url"].(string)
				} else if g.status != 200 && g.status != 202 && g.status != 204 {
					t.Errorf("%s %s: %d %s", rt.method, rt.path, g.status, g.body)
				}
			}
			s.want(204, "DELETE", "/v1/triggers/resync", "", "Authorization", header)
			s.want(404, "DELETE", shop+"/batches/a-1", "", "Authorization", header)
			s.want(204, "DELETE", shop, "", "Authorization", header)
			s.want(404, "DELETE", "/v1/queues/emails/dead/a-1", "", "Authorization", header)
			s.want(200, "DELETE", "/v1/queues/emails/dead", "", "Authorization", header)
			s.want(204, "DELETE", "/v1/queues/emails/tenants/acme", "", "Authorization", header)
			s.want(204, "DELETE", "/v1/queues/emails", "", "Authorization", header)
			s.want(204, "DELETE", "/v1/topics/orders", "", "Authorization", header)
			s.want(204, "DELETE", "/v1/events/a-1", "", "Authorization", header)
		})
	}
}

func TestAPrincipalThatIsNotRootMayDoNothing(t *testing.T) {
	for _, rt := range routes() {
		if (principal{}).may(rt.scope) || !(principal{root: true}).may(rt.scope) {
			t.Errorf("%s %s", rt.method, rt.path)
		}
	}
}

func TestEveryRouteDeclaresItself(t *testing.T) {
	known := map[scope]bool{scopeNone: true, scopePublish: true, scopeConsume: true, scopeManage: true, scopeRoot: true}
	for _, rt := range routes() {
		if !known[rt.scope] || rt.noun == "" || rt.does == "" || rt.handle == nil {
			t.Errorf("%s %s", rt.method, rt.path)
		}
		if rt.scope == scopeNone && strings.HasPrefix(rt.path, "/v1/") {
			t.Errorf("%s %s needs no token", rt.method, rt.path)
		}
	}
}

func TestWithoutATokenOnlyThisMachineIsServed(t *testing.T) {
	h := held(t, Handler(openBroker(t), Options{Logger: quiet()}))
	for _, c := range []struct {
		remote, host string
		header       map[string]string
		status       int
	}{
		{"127.0.0.1:5000", "localhost:7070", nil, 200},
		{"127.0.0.1:5000", "LOCALHOST", nil, 200},
		{"127.9.9.9:5000", "127.0.0.1:7070", nil, 200},
		{"[::1]:5000", "[::1]:7070", nil, 200},
		{"[::1]:5000", "[::1]", nil, 200},
		{"@", "localhost", nil, 200},
		{"10.0.0.7:5000", "localhost:7070", nil, 403},
		{"[fe80::1]:5000", "localhost:7070", nil, 403},
		{"127.0.0.1:5000", "evil.example:7070", nil, 403},
		{"127.0.0.1:5000", "localhost.evil.example", nil, 403},
		{"127.0.0.1:5000", "127.0.0.1.evil.example", nil, 403},
		{"127.0.0.1:5000", "10.0.0.7:7070", nil, 403},
		{"127.0.0.1:5000", "0.0.0.0:7070", nil, 403},
		{"127.0.0.1:5000", "", nil, 403},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:7070"}, 200},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Origin": "http://localhost:3000"}, 403},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Origin": "https://evil.example"}, 403},
		{"127.0.0.1:5000", "localhost:7070", map[string]string{"Origin": "null"}, 403},
	} {
		for _, path := range []string{"/v1/queues", "/livez", "/v1/nothing"} {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := c.status
			if want == 200 && path == "/v1/nothing" {
				want = 404
			}
			if w.Code != want || (want == 403 && !strings.Contains(w.Body.String(), `"code":"cross_site"`)) {
				t.Errorf("%s from %s with %v to %q: got %d, want %d", path, c.remote, c.header, c.host, w.Code, want)
			}
		}
	}
}

func TestATokenOpensTheDoorToOtherMachines(t *testing.T) {
	h := held(t, Handler(openBroker(t), Options{RootToken: token, Logger: quiet()}))
	for _, c := range []struct {
		auth, site string
		status     int
	}{
		{"Bearer " + token, "", 200}, {"Bearer " + token, "cross-site", 200}, {basic(token), "", 200}, {basic(token), "cross-site", 403}, {"", "", 401},
	} {
		r := httptest.NewRequest("GET", "/v1/queues", nil) // of 192.0.2.1 to example.com
		r.Header.Set("Authorization", c.auth)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%v: got %d", c, w.Code)
		}
	}
}
