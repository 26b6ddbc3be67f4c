package api

import (
	"encoding/base64"
	"net/url"
	"strconv"

	"github.com/millrace-dev/millrace"
)

var cursorEncoding = base64.RawURLEncoding.Strict()

// maxCursorLen bounds a cursor's text.
const maxCursorLen = 1 << 10

// FormatCursor is a list's place as its readers see it: opaque.
func FormatCursor(place string) string { return cursorEncoding.EncodeToString([]byte(place)) }

// ParseCursor is the place that FormatCursor wrote, or CodeBadCursor.
func ParseCursor(s string) (place string, err error) {
	if len(s) <= maxCursorLen {
		if b, err := cursorEncoding.DecodeString(s); err == nil && len(b) > 0 && FormatCursor(string(b)) == s {
			return string(b), nil
		}
	}
	e := millrace.Errorf(millrace.CodeBadCursor, "the cursor is not one that a list has given")
	e.Faults = []millrace.Fault{{Location: "query.cursor", Message: "must be the next of a page"}}
	return "", e
}

// DecodePage reads a list's limit and cursor from a query.
func DecodePage(q url.Values) (millrace.Page, error) {
	p := millrace.Page{Limit: millrace.DefaultPage}
	var limitErr, cursorErr error
	if q.Has("limit") {
		p.Limit, limitErr = parseLimit(q.Get("limit"))
	}
	if q.Has("cursor") {
		p.Cursor, cursorErr = ParseCursor(q.Get("cursor"))
	}
	return p, Join(limitErr, cursorErr)
}

func parseLimit(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	var message string
	switch {
	case err != nil || n == 0:
		message = "must be an integer of at least 1"
	case n > millrace.MaxPage:
		message = "must be at most " + strconv.Itoa(millrace.MaxPage)
	default:
		return int(n), nil
	}
	return 0, millrace.Invalid([]millrace.Fault{{Location: "query.limit", Message: message}})
}

// EncodePage is the query that DecodePage reads. The cursor stands as the
// server wrote it: to a client it is opaque.
func EncodePage(p millrace.Page) url.Values {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

// appendPage writes one page of a list under its plural.
func appendPage[T any](b []byte, plural string, list []T, next string, each func([]byte, *T) []byte) []byte {
	b = appendList(appendName(append(b, '{'), plural), list, each)
	if next != "" {
		b = appendTextField(b, "next", FormatCursor(next))
	}
	return append(b, '}')
}

// decodePage reads one page of a list. next is the cursor as the server wrote it.
func decodePage[T any](text []byte, plural string, each func(*decoder) T) (list []T, next string, err error) {
	d := newAnswerDecoder(text)
	list = []T{}
	if d.object() {
		for d.next() {
			switch string(d.name) {
			case plural:
				list = readList(d, each)
			case "next":
				next, _ = d.string("")
			default:
				d.skip()
			}
		}
	}
	return list, next, d.finish()
}

func readList[T any](d *decoder, each func(*decoder) T) []T {
	list := []T{}
	if !d.array() {
		return list
	}
	for d.more() {
		list = append(list, each(d))
	}
	return list
}
