package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestDurationsAreWrittenInTheirShortestForm(t *testing.T) {
	for in, want := range map[string]string{
		"24h": "24h", "1d": "24h", "90s": "1m30s", "0s": "0s", "0": "0s", "7d": "7d", "168h": "7d", "1d12h": "36h", "2d": "2d", "60m": "1h",
		"1h0m1s": "1h1s", "500ms": "500ms", "1.5h": "1h30m", "49h": "49h", "100d1h": "2401h", "1000d": "1000d", "1500us": "1.5ms", "1m0.5s": "1m500ms",
	} {
		d, ok := ParseDuration(in)
		if got := FormatDuration(d); !ok || got != want {
			t.Errorf("%s is written %s (%v), want %s", in, got, ok, want)
		}
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	for _, s := range []string{"", "-1s", "+1s", "1", "d", "1dd", "1d-1h", "1d+1h", "-1d", "1.5d", "1h1d", "300000d", "106751d48h", "1w", " 1s", "9223372036854775808ns"} {
		if d, ok := ParseDuration(s); ok {
			t.Errorf("%q is read as %s", s, d)
		}
	}
}

func TestTimesAreReadInAnyFormOfRFC3339(t *testing.T) {
	for in, want := range map[string]string{
		"2026-11-15T01:13:00Z":                "2026-11-15T01:13:00.000Z",
		"2026-11-15T02:13:00+01:00":           "2026-11-15T01:13:00.000Z",
		"2026-11-15t01:13:00.1239z":           "2026-11-15T01:13:00.123Z",
		"2026-11-15T01:13:00.123456789-00:00": "2026-11-15T01:13:00.123Z",
		"2016-12-31T23:59:60Z":                "2017-01-01T00:00:00.000Z",
		"2016-12-31T18:59:60-05:00":           "2017-01-01T00:00:00.000Z",
	} {
		got, ok := ParseTime(in)
		if !ok || FormatTime(got) != want || got.Location() != time.UTC {
			t.Errorf("%s is %s (%v), want %s", in, FormatTime(got), ok, want)
		}
	}
}

func TestWhatIsNoTimeIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "2026-11-15", "2026-11-15 01:13:00Z", "2026-11-15T01:13:00", "2026-11-15T1:13:00Z", "2026-11-15T01:13:00,5Z", "2026-02-30T00:00:00Z",
		"2026-11-15T01:13:60Z", "2026-11-15T01:13:00+25:00", "2026-11-15T01:13Z", "1763169180", "2026-11-15T01:13:00.Z",
	} {
		if got, ok := ParseTime(s); ok {
			t.Errorf("%q is read as %s", s, got)
		}
	}
}

// wireCodes are all codes of the wire by status, as documented.
var wireCodes = map[int][]millrace.Code{
	400: {"malformed", "bad_cursor"}, 401: {"unauthenticated"}, 403: {"forbidden", "topic_claimed", "cross_site"},
	404: {"not_found"}, 405: {"method_not_allowed"}, 408: {"slow_request"},
	409: {"immutable", "not_empty", "not_tracked", "finished", "lost", "not_a_member", "pending"}, 412: {"version_conflict"},
	413: {"too_large"}, 415: {"unsupported_media_type"}, 422: {"invalid"}, 429: {"rate_limited", "full"},
	500: {"internal"}, 503: {"unavailable", "draining", "not_replicated", "outcome_unknown", "partly_committed"}, 507: {"store_full"},
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	count := 0
	for status, codes := range wireCodes {
		for _, code := range codes {
			count++
			if got := StatusOf(code); got != status || !OnWire(code) {
				t.Errorf("%s has status %d, want %d", code, got, status)
			}
		}
		if back := StatusOf(CodeOfStatus(status)); back != status {
			t.Errorf("status %d reads as one of %d", status, back)
		}
	}
	total := 0
	for _, s := range statuses {
		total += len(s.codes)
	}
	if total != count {
		t.Errorf("the table has %d codes, documented are %d", total, count)
	}
}

func TestCodesBetweenEnginesAndBrokerNeverLeave(t *testing.T) {
	for _, code := range []millrace.Code{millrace.CodeStale, millrace.CodeChanged, millrace.CodeLaneMissing, millrace.CodeMismatch, "nonsense"} {
		e := DecodeProblem(http.StatusInternalServerError, AppendProblem(nil, millrace.Errorf(code, "the lane is sick"), "r"))
		if e.Code != millrace.CodeInternal || e.Detail == "the lane is sick" {
			t.Errorf("%s left as %v", code, e)
		}
	}
}

func TestAnAnswerThatIsNoProblemGivesTheErrorOfItsStatus(t *testing.T) {
	for status, want := range map[int]millrace.Code{
		502: millrace.CodeOutcomeUnknown, 504: millrace.CodeOutcomeUnknown, 503: millrace.CodeUnavailable, 404: millrace.CodeNotFound,
		418: millrace.CodeInternal, 413: millrace.CodeTooLarge,
	} {
		for _, text := range []string{"<html>", "", "{}", `{"code":7}`, `[]`} {
			if got := DecodeProblem(status, []byte(text)); got.Code != want {
				t.Errorf("%d %q is %s, want %s", status, text, got.Code, want)
			}
		}
	}
}
