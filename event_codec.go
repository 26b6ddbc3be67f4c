package millrace

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// The first byte of an encoded event.
const (
	eventFormat     = 1
	unchainedFormat = 2 // the same, of an event that is in no key's chain
)

// AppendEvent appends the stored form of an event, without what the store
// stamps: a format byte; the time in milliseconds; id, topic, type, tenant, key
// and content type, each with its length; the attributes by name; the data to
// the end. A content type of JSON is stored empty.
func AppendEvent(b []byte, e *Event) []byte {
	format := byte(eventFormat)
	if e.Unchained {
		format = unchainedFormat
	}
	b = append(b, format)
	b = binary.AppendVarint(b, e.Time.UnixMilli())
	contentType := e.ContentType
	if contentType == JSONContentType {
		contentType = ""
	}
	for _, s := range [...]string{e.ID, e.Topic, e.Type, e.Tenant, e.Key, contentType} {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Attributes)))
	if len(e.Attributes) > 0 {
		names := make([]string, 0, len(e.Attributes))
		for name := range e.Attributes {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			b = appendString(appendString(b, name), e.Attributes[name])
		}
	}
	return append(b, e.Data...)
}

// DecodeEvent reads what AppendEvent wrote. The event's data is a part of b.
func DecodeEvent(b []byte) (Event, error) {
	r := eventReader{rest: b}
	format := r.byte()
	if format != eventFormat && format != unchainedFormat {
		return Event{}, fmt.Errorf("decode event: unknown format")
	}
	e := Event{Unchained: format == unchainedFormat}
	e.Time = time.UnixMilli(r.varint()).UTC()
	for _, s := range [...]*string{&e.ID, &e.Topic, &e.Type, &e.Tenant, &e.Key, &e.ContentType} {
		*s = r.string()
	}
	if e.ContentType == "" {
		e.ContentType = JSONContentType
	}
	if n := r.uvarint(); n > 0 && n <= MaxAttributes {
		e.Attributes = make(map[string]string, n)
		for range n {
			name := r.string()
			e.Attributes[name] = r.string()
		}
	} else if n > MaxAttributes {
		r.bad = true
	}
	if r.bad {
		return Event{}, fmt.Errorf("decode event: truncated or corrupt")
	}
	if len(r.rest) > 0 {
		e.Data = r.rest
	}
	return e, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// eventReader reads an encoded event; after the first fault it reads zeros.
type eventReader struct {
	rest []byte
	bad  bool
}

func (r *eventReader) fail() { r.rest, r.bad = nil, true }

func (r *eventReader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *eventReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *eventReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *eventReader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
