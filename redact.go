package millrace

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted stands where a value was that is not to be shown.
const Redacted = "[redacted]"

// Bounds of what a queue redacts.
const (
	MaxRedact     = 100
	MaxPointerLen = 1000
)

// PointerFault says what is wrong with a JSON Pointer, or "" if nothing is. A step may be * for any.
func PointerFault(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "must be a JSON Pointer, such as /user/token"
	case len(p) > MaxPointerLen:
		return "must be at most " + strconv.Itoa(MaxPointerLen) + " bytes"
	}
	for rest := p; ; {
		i := strings.IndexByte(rest, '~')
		if i < 0 {
			return ""
		}
		if rest = rest[i+1:]; !strings.HasPrefix(rest, "0") && !strings.HasPrefix(rest, "1") {
			return "must write ~ as ~0 and / within a step as ~1"
		}
	}
}

// Redact is a JSON text with Redacted in place of every value that a pointer names. Data that cannot be
// read as JSON is not shown at all.
func Redact(data []byte, pointers []string) []byte {
	if len(data) == 0 || len(pointers) == 0 {
		return data
	}
	paths := make([][]string, len(pointers))
	for i, p := range pointers {
		for _, step := range strings.Split(p, "/")[1:] {
			paths[i] = append(paths[i], strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
		}
	}
	shown, err := redact(nil, data, paths)
	if err != nil {
		return nil
	}
	return shown
}

// redact appends a value without what the paths name in it.
func redact(b []byte, value jsontext.Value, paths [][]string) ([]byte, error) {
	d := jsontext.NewDecoder(strings.NewReader(string(value)), jsontext.AllowDuplicateNames(true))
	first, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	open, end := first.Kind(), byte('}')
	if open != '{' && open != '[' {
		return append(b, value...), nil
	}
	if open == '[' {
		end = ']'
	}
	b = append(b, byte(open))
	for i := 0; d.PeekKind() != jsontext.Kind(end); i++ {
		step := strconv.Itoa(i)
		if i > 0 {
			b = append(b, ',')
		}
		if open == '{' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			step = name.String()
			if b, err = jsontext.AppendQuote(b, step); err != nil {
				return nil, err
			}
			b = append(b, ':')
		}
		inner, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if b, err = redactInner(b, inner, step, paths); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}

// redactInner appends the value at a step.
func redactInner(b []byte, value jsontext.Value, step string, paths [][]string) ([]byte, error) {
	var deeper [][]string
	for _, p := range paths {
		if p[0] != step && p[0] != "*" {
			continue
		}
		if len(p) == 1 {
			return jsontext.AppendQuote(b, Redacted)
		}
		deeper = append(deeper, p[1:])
	}
	if len(deeper) == 0 {
		return append(b, value...), nil
	}
	return redact(b, slices.Clone(value), deeper)
}
