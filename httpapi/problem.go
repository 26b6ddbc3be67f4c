package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// retryAfter is how many seconds a caller should wait who came at a bad time.
const retryAfter = "1"

// send writes an answer, or an error as a problem, and returns its status.
func send(w http.ResponseWriter, c *call, a answer, err error) int {
	h := w.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if a.allow != "" {
		h.Set("Allow", a.allow)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	kind := cmp.Or(a.kind, millrace.JSONContentType)
	if err != nil {
		a, kind = problem(h, err, c.id), api.ProblemType
	}
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests {
		h.Set("Retry-After", retryIn(err))
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Type", kind)
	}
	if a.stream != nil { // the body follows
		w.WriteHeader(a.status)
		return a.status
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a caller that has gone away needs no answer
	return a.status
}

// retryIn is how many seconds a caller should wait, as far as the error knows.
func retryIn(err error) string {
	var e *millrace.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		return retryAfter
	}
	return strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10)
}

// problem is the answer that tells an error.
func problem(h http.Header, err error, id string) answer {
	e := api.WireError(err)
	switch e.Code {
	case millrace.CodeUnauthenticated:
		h.Set("WWW-Authenticate", "Bearer")
		e = &millrace.Error{Code: e.Code, Detail: "a valid token is needed"}
	case millrace.CodeNotFound:
		// Unknown, expired, or another's: one body, so that nothing is learnt from it.
		e = &millrace.Error{Code: e.Code, Detail: "there is no such thing"}
	case millrace.CodeTooLarge, millrace.CodeSlowRequest:
		h.Set("Connection", "close") // the rest of the body is not read
	}
	return answer{status: api.StatusOf(e.Code), body: api.AppendProblem(nil, e, id)}
}

// located says of the backend's faults where in the request they are: the
// backend knows arguments, a caller knows a path, a query and a body.
func (rt *route) located(c *call, err error) error {
	var e *millrace.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	if e.Code == millrace.CodeBadCursor && len(e.Faults) == 0 {
		located := *e
		located.Faults = []millrace.Fault{{Location: "query.cursor", Message: "must be the next of a page"}}
		return &located
	}
	if len(e.Faults) == 0 {
		return err
	}
	located := *e
	located.Faults = slices.Clone(e.Faults)
	for i := range located.Faults {
		located.Faults[i].Location = rt.locate(c, located.Faults[i].Location)
	}
	return &located
}

// locate is where in a request an argument of the backend stands.
func (rt *route) locate(c *call, argument string) string {
	first, _, _ := strings.Cut(argument, ".")
	first, _, indexed := strings.Cut(first, "[")
	switch {
	case slices.Contains([]string{"body", "path", "query", "header"}, first):
		return argument
	case strings.Contains(rt.path, "{"+first+"}"):
		return "path." + argument
	case slices.Contains(rt.query, first):
		return "query." + argument
	case first == "events" && indexed && strings.HasSuffix(rt.path, "/events"):
		return c.eventLocation(argument)
	}
	return "body." + argument
}

// eventLocation is where an event of a publish stands: a body of one event is
// the event itself.
func (c *call) eventLocation(argument string) string {
	form, _ := api.PublishFormOf(c.Header)
	if body := bytes.TrimSpace(c.body); form == api.BinaryForm || (len(body) > 0 && body[0] == '{') {
		_, field, _ := strings.Cut(argument, "]")
		return "body" + field
	}
	return "body" + strings.TrimPrefix(argument, "events")
}

// panicked is the error of a handler that broke down.
func panicked(v any) error {
	if err, isError := v.(error); isError && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	return fmt.Errorf("panic: %v\n%s", v, debug.Stack())
}
