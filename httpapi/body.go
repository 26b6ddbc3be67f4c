package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// read takes in what a request says beside its path.
func (s *server) read(w http.ResponseWriter, c *call, rt *route) error {
	if rt.body {
		if err := s.readBody(w, c, rt.takes); err != nil {
			return err
		}
	}
	if !rt.anyQuery {
		c.queryErr = queryFaults(c.Request, rt.query)
	}
	return nil
}

// readBody takes in a body of at most the limit, in at most the time it may take.
func (s *server) readBody(w http.ResponseWriter, c *call, takes func(http.Header) error) error {
	if c.ContentLength == 0 {
		return nil
	}
	if c.ContentLength > millrace.MaxRequestSize {
		return tooLarge()
	}
	if err := mediaFault(c.Header, takes); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.bodyTimeout)) // a server that cannot has its own timeouts
	body, err := readAll(c.Body, c.ContentLength)
	if err != nil {
		return bodyError(err)
	}
	// A deadline that stays would end the request's context while it waits for messages.
	_ = control.SetReadDeadline(time.Time{})
	if len(body) > millrace.MaxRequestSize {
		return tooLarge()
	}
	c.body = body
	return nil
}

// readAll reads at most one byte past the limit. It trusts the announced length
// only so far: who announces much and sends little must not cost memory.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	size := int64(64 << 10)
	if announced >= 0 {
		size = min(announced+1, 512<<10)
	}
	b := make([]byte, 0, size)
	for len(b) <= millrace.MaxRequestSize {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(len(b), millrace.MaxRequestSize+1-len(b)))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

func tooLarge() error {
	return millrace.Errorf(millrace.CodeTooLarge, "a request must be at most %d bytes", millrace.MaxRequestSize)
}

func bodyError(err error) error {
	var limit *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return millrace.Errorf(millrace.CodeSlowRequest, "the body took too long to arrive")
	case errors.As(err, &limit): // of a server around this one
		return tooLarge()
	}
	e := millrace.Wrap(millrace.CodeMalformed, err, "the body could not be read")
	e.Faults = []millrace.Fault{{Location: "body", Message: "must arrive whole"}}
	return e
}

// mediaFault refuses a body that a route does not take; nil takes means plain JSON.
func mediaFault(h http.Header, takes func(http.Header) error) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return millrace.Errorf(millrace.CodeUnsupportedMedia, "a body must come without Content-Encoding")
	}
	if takes != nil {
		return takes(h)
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != millrace.JSONContentType || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return millrace.Errorf(millrace.CodeUnsupportedMedia, "a body must have the Content-Type application/json")
	}
	return nil
}

// queryFaults refuses parameters that the route does not know, or that are given twice.
func queryFaults(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		e := millrace.Errorf(millrace.CodeMalformed, "the query is not well-formed")
		e.Faults = []millrace.Fault{{Location: "query", Message: "must be percent-encoded pairs"}}
		return e
	}
	var faults []millrace.Fault
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			faults = append(faults, millrace.Fault{Location: queryLocation(name), Message: "is not a known parameter"})
		case len(list) > 1:
			faults = append(faults, millrace.Fault{Location: "query." + name, Message: "is given twice"})
		}
	}
	sort.Slice(faults, func(i, j int) bool { return faults[i].Location < faults[j].Location })
	return millrace.Invalid(faults)
}

// queryLocation shows an unknown parameter's name only if it could be a name.
func queryLocation(name string) string {
	if millrace.NameFault(name) != "" {
		return "query"
	}
	return "query." + name
}

// name is a name in the path, and its fault.
func (c *call) name(what string) (string, error) {
	s := c.PathValue(what)
	if m := millrace.NameFault(s); m != "" {
		return s, millrace.Invalid([]millrace.Fault{{Location: "path." + what, Message: m}})
	}
	return s, nil
}

// pathID is the id in the path, and its fault.
func (c *call) pathID() (string, error) {
	s := c.PathValue("id")
	if m := millrace.TextFault(s, millrace.MaxIDLen); m != "" {
		return s, millrace.Invalid([]millrace.Fault{{Location: "path.id", Message: m}})
	}
	return s, nil
}

// idIn is an id in the query, or nothing if it is not given, and its fault.
func (c *call) idIn(what string) (string, error) {
	s := c.URL.Query().Get(what)
	fault := millrace.TextFault(s, millrace.MaxIDLen)
	if s == "" && c.URL.Query().Has(what) {
		fault = "must not be empty"
	}
	if fault != "" {
		return s, millrace.Invalid([]millrace.Fault{{Location: "query." + what, Message: fault}})
	}
	return s, nil
}

// word is a name in the query, or what it is if it is not given, and its fault.
func (c *call) word(what, otherwise string) (string, error) {
	q := c.URL.Query()
	if !q.Has(what) {
		return otherwise, nil
	}
	s := q.Get(what)
	if m := millrace.NameFault(s); m != "" {
		return s, millrace.Invalid([]millrace.Fault{{Location: "query." + what, Message: m}})
	}
	return s, nil
}

// wanted is a name that the query must have, and its fault.
func (c *call) wanted(what string) (string, error) {
	if !c.URL.Query().Has(what) {
		return "", millrace.Invalid([]millrace.Fault{{Location: "query." + what, Message: "is required"}})
	}
	return c.word(what, "")
}

// page is the part of a list that a request asks for.
func (c *call) page() (millrace.Page, error) { return api.DecodePage(c.URL.Query()) }

// flag is a parameter that is true or false.
func (c *call) flag(name string) (bool, error) {
	text := c.URL.Query().Get(name)
	if !c.URL.Query().Has(name) {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil || (text != "true" && text != "false") {
		return false, millrace.Invalid([]millrace.Fault{{Location: "query." + name, Message: "must be true or false"}})
	}
	return v, nil
}
