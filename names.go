package millrace

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of what a store accepts. Past them input is refused, never cut.
const (
	MaxNameLen     = 128
	MaxIDLen       = 128
	MaxKeyLen      = 512
	MaxPatternLen  = 1000
	MaxEventSize   = 256 << 10
	MaxRequestSize = 4 << 20
	MaxEvents      = 1000
	MaxAttributes  = 64
	MaxAttrName    = 64
	MaxAttrValue   = 1 << 10
	MaxLeaseCount  = 1000
	MaxLeaseBytes  = 4 << 20
	MaxReceipts    = 10000 // of one settlement
	MaxWeight      = 1000
	MaxEventDelay  = 366 * 24 * time.Hour
)

// NameFault says what is wrong with a name (of a queue, tenant, topic, type and
// so on), or "" if nothing is: 1 to 128 of A-Z a-z 0-9 . _ -, but not . or ..
func NameFault(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > MaxNameLen:
		return "must be at most " + strconv.Itoa(MaxNameLen) + " characters"
	case s == "." || s == "..":
		return "must not be . or .."
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		case c == ':':
			return "must not contain ':'"
		default:
			return "must hold only letters, digits, '.', '_' and '-'"
		}
	}
	return ""
}

// TextFault says what is wrong with a text (an id or a key) of at most limit
// bytes, or "" if nothing is: UTF-8 without control characters. An empty text has no fault.
func TextFault(s string, limit int) string {
	if len(s) > limit {
		return "must be at most " + strconv.Itoa(limit) + " bytes"
	}
	if !utf8.ValidString(s) {
		return "must be valid UTF-8"
	}
	for _, r := range s {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return "must not contain control characters"
		}
	}
	return ""
}
