package api

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-dev/millrace"
)

// MaxDepth is how deep a request's JSON may nest.
const MaxDepth = millrace.MaxOutputDepth + 3

// maxFaults bounds an answer that lists faults; a request has room for many more.
const maxFaults = 10000

// maxInteger is the largest integer that every JSON reader holds exactly.
const maxInteger = 1<<53 - 1

// decoder reads one JSON text. What the text has wrong in its meaning is
// gathered and reading goes on; after a fault in its syntax everything reads as
// nothing. It never copies a value: data it returns is a part of the text.
type decoder struct {
	dec    *jsontext.Decoder
	text   []byte
	root   string // what locations begin with, such as "body"
	strict bool   // an unknown member is a fault
	name   []byte // of the member that next found
	faults []millrace.Fault
	broken *millrace.Error
}

// newDecoder begins a request's body: strict, faults located below "body".
func newDecoder(text []byte) *decoder {
	d := &decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(text)), text: text, root: "body", strict: true}
	if millrace.DeeperThan(text, MaxDepth) {
		d.malformed("body", "nests deeper than "+strconv.Itoa(MaxDepth))
	}
	return d
}

// newAnswerDecoder begins an answer: unknown members are skipped, and what a program in the server's process
// put into data may name a member twice.
func newAnswerDecoder(text []byte) *decoder {
	return &decoder{dec: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)), text: text, root: "answer"}
}

// finish ends the text and returns what was wrong with it: CodeMalformed, or
// CodeInvalid with every fault.
func (d *decoder) finish() error {
	if d.broken == nil {
		if _, err := d.dec.ReadToken(); err == nil {
			d.malformed(d.root, "must be one JSON value, with nothing after it")
		} else if !errors.Is(err, io.EOF) {
			d.malformed(d.root, "must be one JSON value, with nothing after it")
		}
	}
	if d.broken != nil {
		return d.broken
	}
	return millrace.Invalid(d.faults)
}

// object enters an object; a value of another kind is a fault and is skipped.
func (d *decoder) object() bool { return d.enter('{', "must be an object") }

// array enters an array; a value of another kind is a fault and is skipped.
func (d *decoder) array() bool { return d.enter('[', "must be an array") }

func (d *decoder) enter(kind jsontext.Kind, fault string) bool {
	if d.broken != nil {
		return false
	}
	if d.dec.PeekKind() == kind {
		_, err := d.dec.ReadToken()
		return d.ok(err)
	}
	if _, ok := d.value(); ok {
		d.fault(fault)
	}
	return false
}

// next finds the object's next member and puts its name into d.name; the caller
// must then read the value. It leaves the object when there is none.
func (d *decoder) next() bool {
	if d.broken != nil {
		return false
	}
	if d.dec.PeekKind() == '}' {
		_, err := d.dec.ReadToken()
		d.ok(err)
		return false
	}
	raw, err := d.dec.ReadValue()
	if !d.ok(err) {
		return false
	}
	d.name = unquote(raw)
	return true
}

// more reports whether the array has another element, which the caller must
// then read. It leaves the array when there is none.
func (d *decoder) more() bool {
	if d.broken != nil {
		return false
	}
	if d.dec.PeekKind() != ']' {
		return true
	}
	_, err := d.dec.ReadToken()
	d.ok(err)
	return false
}

// value reads any value and returns its text.
func (d *decoder) value() (raw []byte, ok bool) {
	if d.broken != nil {
		return nil, false
	}
	v, err := d.dec.ReadValue()
	if !d.ok(err) {
		return nil, false
	}
	end := int(d.dec.InputOffset())
	return d.text[end-len(v) : end : end], true
}

// skip passes over the value of a member that is not known.
func (d *decoder) skip() {
	if !d.strict {
		d.value()
		return
	}
	name := string(d.name)
	if _, ok := d.value(); !ok {
		return
	}
	if tellable(name) {
		d.fault("is not a known field")
	} else {
		d.faultAt(d.parent(), "has an unknown field")
	}
}

// null reads the value if it is null.
func (d *decoder) null() bool {
	if d.broken != nil || d.dec.PeekKind() != 'n' {
		return false
	}
	_, ok := d.value()
	return ok
}

// string reads a string. like is a guess: if it is right nothing is allocated.
func (d *decoder) string(like string) (s string, ok bool) {
	raw, ok := d.value()
	if !ok {
		return "", false
	}
	if raw[0] != '"' {
		d.fault("must be a string")
		return "", false
	}
	text := unquote(raw)
	if string(text) == like {
		return like, true
	}
	return string(text), true
}

// given reads a string that must not be empty.
func (d *decoder) given(like string) (s string, ok bool) {
	if s, ok = d.string(like); ok && s == "" {
		d.fault("must not be empty")
		return "", false
	}
	return s, ok
}

func (d *decoder) bool() bool {
	raw, ok := d.value()
	if ok && raw[0] != 't' && raw[0] != 'f' {
		d.fault("must be true or false")
	}
	return ok && raw[0] == 't'
}

// integer reads an integer from least to most.
func (d *decoder) integer(least, most int64) (n int64, ok bool) {
	raw, ok := d.value()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || (err == nil && (n < least || n > most)):
		d.fault("must be between " + strconv.FormatInt(least, 10) + " and " + strconv.FormatInt(most, 10))
	case err != nil:
		d.fault("must be an integer")
	default:
		return n, true
	}
	return 0, false
}

func (d *decoder) duration(least, most time.Duration) (v time.Duration, ok bool) {
	s, ok := d.string("")
	if !ok {
		return 0, false
	}
	if v, ok = ParseDuration(s); !ok {
		d.fault(`must be a duration such as "1m30s"`)
		return 0, false
	}
	if v < least || v > most {
		d.fault("must be between " + FormatDuration(least) + " and " + FormatDuration(most))
		return 0, false
	}
	return v, true
}

func (d *decoder) time() time.Time {
	s, ok := d.string("")
	if !ok {
		return time.Time{}
	}
	t, ok := ParseTime(s)
	if !ok {
		d.fault("must be a time as in RFC 3339")
	}
	return t
}

// stringOrNull reads a string; null is the empty one.
func (d *decoder) stringOrNull() (s string) {
	if !d.null() {
		s, _ = d.string("")
	}
	return s
}

// timeOrNull reads a time; null is the zero one.
func (d *decoder) timeOrNull() (t time.Time) {
	if !d.null() {
		t = d.time()
	}
	return t
}

func (d *decoder) base64() []byte {
	s, ok := d.string("")
	if !ok {
		return nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		d.fault("must be base64")
		return nil
	}
	return b
}

// strings reads an array of strings.
func (d *decoder) strings() []string {
	list := []string{}
	if !d.array() {
		return list
	}
	for d.more() {
		if s, ok := d.string(""); ok {
			list = append(list, s)
		}
	}
	return list
}

// unquote is the meaning of a string's text, without a copy if it has no escapes.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// tellable reports whether an unknown name may be shown: it could be a field's.
func tellable(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf || (c != '_' && c != '-' && !isAlphanumeric(c)) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
