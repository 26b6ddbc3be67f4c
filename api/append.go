package api

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			b, _ = jsontext.AppendQuote(b, s)
			return b
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

// appendName writes a member's name, with the comma before it unless it is the
// first of its object. Names are ours and need no escapes.
func appendName(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func appendTextField(b []byte, name, value string) []byte {
	return appendString(appendName(b, name), value)
}

func appendIntField(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(b, name), n, 10)
}

func appendUintField(b []byte, name string, n uint64) []byte {
	return strconv.AppendUint(appendName(b, name), n, 10)
}

func appendBoolField(b []byte, name string, v bool) []byte {
	return strconv.AppendBool(appendName(b, name), v)
}

// appendList writes a JSON array of what each writes.
func appendList[T any](b []byte, list []T, each func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, &list[i])
	}
	return append(b, ']')
}

func appendStrings(b []byte, list []string) []byte {
	return appendList(b, list, func(b []byte, s *string) []byte { return appendString(b, *s) })
}

func appendStringMap(b []byte, m map[string]string) []byte {
	if len(m) == 0 {
		return append(b, '{', '}')
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, name), ':')
		b = appendString(b, m[name])
	}
	return append(b, '}')
}
