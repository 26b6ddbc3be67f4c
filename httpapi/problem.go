package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

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
	kind := "application/json"
	if err != nil {
		a, kind = problem(h, err, c.id), api.ProblemType
	}
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests {
		h.Set("Retry-After", retryAfter)
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a caller that has gone away needs no answer
	return a.status
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

// panicked is the error of a handler that broke down.
func panicked(v any) error {
	if err, isError := v.(error); isError && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	return fmt.Errorf("panic: %v\n%s", v, debug.Stack())
}
