package api

import (
	"strings"
	"time"
)

// timeLayout is how times are written: UTC, milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// ParseTime reads any RFC 3339 time, a leap second included, and returns it in UTC.
func ParseTime(s string) (t time.Time, ok bool) {
	if !dateTime(s) {
		return time.Time{}, false
	}
	if strings.ContainsAny(s, "tz") { // RFC 3339 allows lower case, Go does not
		s = strings.ToUpper(s)
	}
	var leap time.Duration
	if s[17:19] == "60" {
		s, leap = s[:17]+"59"+s[19:], time.Second
	}
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return time.Time{}, false
	}
	t = t.UTC()
	if leap != 0 && (t.Hour() != 23 || t.Minute() != 59) {
		return time.Time{}, false
	}
	return t.Add(leap), true
}

// dateTime refuses what Go reads and RFC 3339 does not have: an hour of one
// digit, a fraction after a comma.
func dateTime(s string) bool {
	return len(s) >= len("2006-01-02T15:04:05Z") && len(s) <= 64 && s[13] == ':' && s[16] == ':' && s[19] != ','
}

// FormatTime is how a time is written: UTC, milliseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, timeLayout)
	return append(b, '"')
}

// appendTimeOrNull writes the zero time as null.
func appendTimeOrNull(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return appendTime(b, t)
}
