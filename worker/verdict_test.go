package worker

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/millrace-dev/millrace"
)

func TestADelayThatNoQueueTakesIsBroughtIntoItsBounds(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, time.Hour: time.Hour, millrace.MaxDelay + 1: millrace.MaxDelay, math.MaxInt64: millrace.MaxDelay, math.MinInt64: 0,
	} {
		verb, item := settlementOf(millrace.Message{Receipt: "r"}, RetryAfter(given, errors.New("busy")))
		if verb != millrace.Retry || item.Delay == nil || *item.Delay != want {
			t.Errorf("%s: got %v after %v, want %s", given, verb, item.Delay, want)
		}
	}
}

func TestALongErrorIsCutInWholeLetters(t *testing.T) {
	for _, err := range []error{errors.New("x" + strings.Repeat("é", 2000)), Bury(errors.New(strings.Repeat("x", 2000)))} {
		_, item := settlementOf(millrace.Message{}, err)
		if n := len(item.Error); n > millrace.MaxErrorLen || n < millrace.MaxErrorLen-1 || !utf8.ValidString(item.Error) {
			t.Errorf("%d bytes are left: %q", n, item.Error[n-4:])
		}
	}
}
