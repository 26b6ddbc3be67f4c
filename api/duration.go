package api

import (
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration in Go's syntax with d for days of 24 hours:
// "24h", "1m30s", "7d", "1d12h". ok is false for anything else, a sign included.
func ParseDuration(s string) (d time.Duration, ok bool) {
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, false
	}
	days, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		return d, err == nil && d >= 0
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > uint64(1<<63-1)/uint64(day) {
		return 0, false
	}
	d = time.Duration(n) * day
	if rest == "" {
		return d, true
	}
	if c := rest[0]; c == '-' || c == '+' {
		return 0, false
	}
	r, err := time.ParseDuration(rest)
	if err != nil || d+r < d {
		return 0, false
	}
	return d + r, true
}

// FormatDuration is the shortest exact form of a duration, as Go writes it but
// without units that are zero: "24h", "1m30s", "500ms", "0s". From two days on
// it counts days where that is shorter: "7d".
func FormatDuration(d time.Duration) string { return string(appendDuration(nil, d)) }

func appendDuration(b []byte, d time.Duration) []byte {
	if d < time.Minute {
		return append(b, d.String()...)
	}
	start := len(b)
	b = appendUnit(b, d/time.Hour, 'h')
	if d >= 2*day {
		days := appendUnit(appendUnit(nil, d/day, 'd'), d%day/time.Hour, 'h')
		if len(days) < len(b)-start {
			b = append(b[:start], days...)
		}
	}
	b = appendUnit(b, d%time.Hour/time.Minute, 'm')
	if rest := d % time.Minute; rest != 0 {
		b = append(b, rest.String()...)
	}
	return b
}

func appendUnit(b []byte, n time.Duration, unit byte) []byte {
	if n == 0 {
		return b
	}
	return append(strconv.AppendInt(b, int64(n), 10), unit)
}
