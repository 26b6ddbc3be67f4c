package api

import (
	"encoding/base64"

	"github.com/millrace-dev/millrace"
)

// AppendEvent writes an event as every reader sees it. Its data goes out as the
// publisher wrote it.
func AppendEvent(b []byte, e *millrace.Event) []byte {
	b = appendEventHead(append(b, '{'), e)
	b = appendTime(appendName(b, "recorded_at"), e.RecordedAt)
	b = appendEventBody(b, e)
	b = appendUintField(b, "seq", e.Seq)
	if e.Key != "" && !e.Unchained {
		b = appendUintField(b, "prev", e.Prev)
	}
	return append(b, '}')
}

// appendEventHead writes what an event is about.
func appendEventHead(b []byte, e *millrace.Event) []byte {
	b = appendTextField(b, "id", e.ID)
	b = appendTextField(b, "topic", e.Topic)
	b = appendTextField(b, "type", e.Type)
	b = appendTextField(b, "tenant", e.Tenant)
	if e.Key != "" {
		b = appendTextField(b, "key", e.Key)
	}
	return appendTime(appendName(b, "time"), e.Time)
}

// appendEventBody writes what an event says.
func appendEventBody(b []byte, e *millrace.Event) []byte {
	b = appendTextField(b, "content_type", contentType(e))
	b = appendData(b, e)
	return appendStringMap(appendName(b, "attributes"), e.Attributes)
}

func contentType(e *millrace.Event) string {
	if e.ContentType == "" {
		return millrace.JSONContentType
	}
	return e.ContentType
}

func appendData(b []byte, e *millrace.Event) []byte {
	if !e.IsJSON() {
		b = append(appendName(b, "data_base64"), '"')
		b = base64.StdEncoding.AppendEncode(b, e.Data)
		return append(b, '"')
	}
	b = appendName(b, "data")
	if len(e.Data) == 0 {
		return append(b, "null"...)
	}
	return append(b, e.Data...)
}

// DecodeEvent reads an event as AppendEvent writes it. Its data is a part of text.
func DecodeEvent(text []byte) (millrace.Event, error) {
	d := newAnswerDecoder(text)
	e := d.event(&millrace.Event{})
	return e, d.finish()
}

// event reads an event of an answer. like is the one before, whose texts are
// often the same. One that has a key and no prev is in no key's chain.
func (d *decoder) event(like *millrace.Event) (e millrace.Event) {
	if !d.object() {
		return e
	}
	prev := false
	for d.next() {
		prev = prev || string(d.name) == "prev"
		d.eventMember(&e, like)
	}
	e.Unchained = e.Key != "" && !prev
	return e
}

func (d *decoder) eventMember(e, like *millrace.Event) {
	switch string(d.name) {
	case "id":
		e.ID, _ = d.word("")
	case "topic":
		e.Topic, _ = d.word(like.Topic)
	case "type":
		e.Type, _ = d.word(like.Type)
	case "tenant":
		e.Tenant, _ = d.word(like.Tenant)
	case "key":
		e.Key, _ = d.word("")
	case "time":
		e.Time = d.time()
	case "recorded_at":
		e.RecordedAt = d.time()
	default:
		d.eventContent(e, like)
	}
}

// word reads a string that must not be empty in a request.
func (d *decoder) word(like string) (s string, ok bool) {
	if d.strict {
		return d.given(like)
	}
	return d.string(like)
}

func (d *decoder) eventContent(e, like *millrace.Event) {
	switch string(d.name) {
	case "content_type":
		e.ContentType, _ = d.word(like.ContentType)
	case "data":
		e.Data, _ = d.data()
	case "data_base64":
		e.Data = d.base64()
	case "attributes":
		e.Attributes = d.attributes()
	case "seq":
		e.Seq = d.unsigned()
	case "prev":
		e.Prev = d.unsigned()
	default:
		d.skip()
	}
}

// data reads an event's data: its text, or nil for null.
func (d *decoder) data() (raw []byte, ok bool) {
	raw, ok = d.value()
	if ok && raw[0] == 'n' {
		return nil, true
	}
	return raw, ok
}

// attributes reads an object of strings; nil if it is empty.
func (d *decoder) attributes() map[string]string {
	if !d.object() {
		return nil
	}
	var m map[string]string
	for d.next() {
		name := string(d.name)
		value, ok := d.string("")
		if !ok {
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[name] = value
	}
	return m
}

func (d *decoder) unsigned() uint64 {
	n, _ := d.integer(0, maxInteger)
	return uint64(n)
}
