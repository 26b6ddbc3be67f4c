package redis

import (
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
)

func FuzzClientOption(f *testing.F) {
	for _, url := range []string{"redis://h:1", "rediss://u:p%40@h:1/3", "redis-cluster://a:1,b:2", "redis-sentinel://a:1,[::1]:2/m", "redis://@:/", "redis://%"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, err := clientOption(url)
		if err != nil {
			if millrace.CodeOf(err) != millrace.CodeInvalid {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if len(o.InitAddress) == 0 || !o.DisableRetry {
			t.Errorf("read as %v, retries %t", o.InitAddress, !o.DisableRetry)
		}
	})
}

func FuzzReadHint(f *testing.F) {
	for _, text := range []string{"", "r", "q00000000000000aa", "d", "d0", "d-1", "d99999999999999999999", "b", "bx", "rx", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, ok := readHint(3, text)
		if ok && h.Kind == millrace.HintQueue && "q"+h.Queue != text {
			t.Errorf("%q was read as %+v", text, h)
		}
		if ok && !strings.ContainsAny(text[:1], "qdrb") || ok && len(text) > 1 && strings.ContainsAny(text[:1], "rb") {
			t.Errorf("%q was taken for a hint", text)
		}
	})
}

func FuzzFirstStamp(f *testing.F) {
	f.Add("")
	f.Add(strings.Repeat("\x00", 20))
	f.Add(strings.Repeat("\xff", 20))
	f.Add(strings.Repeat("x", 21))
	f.Fuzz(func(t *testing.T, record string) {
		if s := firstStamp(record); !s.Duplicate || s.Sinks < 0 {
			t.Errorf("%q was read as %+v", record, s)
		}
	})
}
