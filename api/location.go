package api

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-dev/millrace"
)

// fault records what is wrong with the value read last.
func (d *decoder) fault(message string) {
	if d.listens() { // a location costs more than the value
		d.faultAt(d.here(), message)
	}
}

// missing records that the object left last lacks a member.
func (d *decoder) missing(name string) {
	if d.listens() {
		d.faultAt(d.here()+"."+name, "is required")
	}
}

// listens reports whether another fault would be told.
func (d *decoder) listens() bool { return d.broken == nil && len(d.faults) < maxFaults }

func (d *decoder) faultAt(location, message string) {
	if d.listens() {
		d.faults = append(d.faults, millrace.Fault{Location: location, Message: message})
	}
}

// merge adds faults found in the value read last, given from is the number of
// faults before it was read: a place that has one already gets no second.
func (d *decoder) merge(from int, found []millrace.Fault) {
	for _, f := range found {
		if !d.has(from, f.Location) {
			d.faultAt(f.Location, f.Message)
		}
	}
}

func (d *decoder) has(from int, location string) bool {
	for _, f := range d.faults[from:] {
		if f.Location == location {
			return true
		}
	}
	return false
}

// ok records an error of syntax, once.
func (d *decoder) ok(err error) bool {
	if err == nil {
		return true
	}
	var syntax *jsontext.SyntacticError
	location := d.root
	if errors.As(err, &syntax) {
		location = d.locate(syntax.JSONPointer)
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		d.malformed(location, "is given twice")
	case !utf8.Valid(d.text):
		d.malformed(location, "must be valid UTF-8")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.malformed(location, "must be JSON: it ends too early")
	case syntax != nil:
		d.malformed(location, "must be JSON: see byte "+strconv.FormatInt(syntax.ByteOffset, 10))
	default:
		d.malformed(location, "must be JSON")
	}
	return false
}

func (d *decoder) malformed(location, message string) {
	if d.broken != nil {
		return
	}
	d.broken = millrace.Errorf(millrace.CodeMalformed, "the %s is not well-formed JSON", d.root)
	d.broken.Faults = []millrace.Fault{{Location: location, Message: message}}
}

// here is the location of the value read last.
func (d *decoder) here() string { return d.locate(d.dec.StackPointer()) }

// parent is the location of the object or array that holds the value read last.
func (d *decoder) parent() string { return d.locate(d.dec.StackPointer().Parent()) }

// locate writes a JSON Pointer the way people do: /1/tenant is body[1].tenant.
// It ends before a name that nobody could have meant as a field's, so that it
// shows nothing of what was submitted.
func (d *decoder) locate(p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(d.root)
	level := 0
	for token := range p.Tokens() {
		level++
		switch {
		case d.isArray(level, token):
			b.WriteString("[" + token + "]")
		case tellable(token):
			b.WriteString("." + token)
		default:
			return b.String()
		}
	}
	return b.String()
}

// isArray reports whether a pointer's token at a level is an index. Below what
// the decoder knows, a number is taken for one.
func (d *decoder) isArray(level int, token string) bool {
	if level <= d.dec.StackDepth() {
		kind, _ := d.dec.StackIndex(level)
		return kind == '['
	}
	_, err := strconv.ParseUint(token, 10, 32)
	return err == nil
}
