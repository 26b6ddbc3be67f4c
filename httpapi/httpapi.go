// Package httpapi serves a backbone over HTTP.
//
// Every route stands in one table with the scope it asks for; a request passes
// the same steps whatever its route: who is it, may it, what does it say, do
// it, answer. Errors are problems (RFC 9457) with a stable code.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/internal/tracing"
)

// Backend is what is served: a broker.
type Backend interface {
	millrace.Backbone

	// Durability is the level that answers have now.
	Durability() millrace.Durability

	// Refused counts events of publishes that were refused before they reached it.
	Refused(events int)

	// Ready is nil if requests can be served now, or says why not.
	Ready(ctx context.Context) error
}

// Options are the settings of a handler. The zero value serves loopback only.
type Options struct {
	// RootToken is what every caller must show, as a Bearer token or as the user
	// name of Basic. Without one every caller is root, but must come from this
	// machine and from no other site's page.
	RootToken string

	// HealthOnly serves only what tells of the node itself: its health, its metrics, for
	// which a token is needed as ever, and the description of what it serves. It is for a
	// node that does other work and takes no requests.
	HealthOnly bool

	Version     string        // of the program, for the API's description
	BodyTimeout time.Duration // how long a request's body may take to arrive; 15 s if 0
	BeatEvery   time.Duration // how often a stream of live events says that it stands; 15 s if 0
	Logger      *slog.Logger  // slog.Default() if nil

	Metrics        Metrics              // served at /metrics and told of every request; no such path if nil
	TracerProvider trace.TracerProvider // of OpenTelemetry spans; none if nil
}

// Handler serves a backend. It may be mounted in a program's own server; it
// starts nothing and has nothing to close.
func Handler(b Backend, o Options) http.Handler {
	s := &server{
		backend: b, door: newDoor(o.RootToken), bodyTimeout: o.BodyTimeout, beatEvery: o.BeatEvery, frameWithin: frameWithin, log: o.Logger,
		routes: routes(), metrics: o.Metrics, tracer: tracing.New(o.TracerProvider),
	}
	if o.HealthOnly {
		s.routes = slices.DeleteFunc(s.routes, func(rt route) bool { return !rt.ofNode })
	}
	if s.beatEvery == 0 {
		s.beatEvery = beatEvery
	}
	if s.bodyTimeout == 0 {
		s.bodyTimeout = 15 * time.Second
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	s.mount(o.Version)
	return s
}

type server struct {
	backend     Backend
	routes      []route
	door        door
	bodyTimeout time.Duration
	beatEvery   time.Duration // of streams
	frameWithin time.Duration // how long the reader of a stream may take for a frame
	log         *slog.Logger
	metrics     Metrics
	tracer      tracing.Tracer
	mux         *http.ServeMux
	openAPI     []byte
}

// call is one request on its way to an answer.
type call struct {
	*http.Request
	ctx       context.Context // the request's, with its id and its trace
	principal principal
	id        string
	body      []byte
	queryErr  error // what is wrong with the query; told by check
}

// Context is what a handler passes on.
func (c *call) Context() context.Context { return c.ctx }

// check is the one answer to all that is wrong with a request. Every handler
// calls it before it does anything.
func (c *call) check(errs ...error) error { return api.Join(append(errs, c.queryErr)...) }

// answer is what a request gets, unless an error.
type answer struct {
	status   int
	body     []byte
	location string
	allow    string

	kind   string                    // the body's content type; application/json if empty
	stream func(http.ResponseWriter) // sends a body without an end, in place of body, after the rest of the answer
}

// ok answers 200 with a body.
func ok(body []byte) (answer, error) { return answer{status: http.StatusOK, body: body}, nil }

// done answers 204.
func done(err error) (answer, error) { return answer{status: http.StatusNoContent}, err }

// ServeHTTP serves one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The mux would redirect a path that is not clean; no path of ours is such.
	if !isClean(r.URL.EscapedPath()) {
		s.unknown(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func isClean(p string) bool {
	clean := path.Clean(p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/"
	}
	return clean == p
}

// serve runs one request through its steps and sends what comes of it. The route
// is how the request is known to those who watch: never its path. A stream is answered when
// it stands: how long its reader stays is no measure of the server.
func (s *server) serve(w http.ResponseWriter, r *http.Request, route string, step func(http.ResponseWriter, *call) (answer, error)) {
	start := time.Now()
	c := &call{Request: r, id: requestID(r)}
	ctx, span := s.tracer.Serve(withRequestID(r.Context(), c.id), r.Header, route)
	c.ctx = ctx
	a, err := s.attempt(w, c, step)
	status := send(w, c, a, err)
	span.Answered(status)
	s.record(c, route, status, time.Since(start), err)
	if err == nil && a.stream != nil {
		a.stream(w)
	}
}

// attempt runs a step; a panic is an internal error.
func (s *server) attempt(w http.ResponseWriter, c *call, step func(http.ResponseWriter, *call) (answer, error)) (a answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = answer{}, panicked(v)
		}
	}()
	if err := s.door.admit(c.Request); err != nil {
		return answer{}, err
	}
	return step(w, c)
}

// handle is the steps of a request whose route is known.
func (s *server) handle(rt *route) func(http.ResponseWriter, *call) (answer, error) {
	return func(w http.ResponseWriter, c *call) (answer, error) {
		if rt.scope != scopeNone {
			p, err := s.door.principal(c.Request)
			if err != nil {
				return answer{}, err
			}
			if !p.may(rt.scope) {
				return answer{}, millrace.Errorf(millrace.CodeForbidden, "this needs the scope %s", rt.scope)
			}
			c.principal = p
		}
		if err := s.read(w, c, rt); err != nil {
			return answer{}, err
		}
		a, err := rt.handle(s, c)
		return a, rt.located(c, err)
	}
}
