package millrace_test

import (
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestWhatAPointerNamesIsNotShown(t *testing.T) {
	for _, c := range []struct {
		data     string
		pointers []string
		want     string
	}{
		{`{"a":1}`, nil, `{"a":1}`},
		{`{"user":{"token":"s3cret","name":"x"}}`, []string{"/user/token"}, `{"user":{"token":"[redacted]","name":"x"}}`},
		{`{"user":{"token":{"deep":["s3cret"]}}}`, []string{"/user/token"}, `{"user":{"token":"[redacted]"}}`},
		{`{"a":[{"t":1,"u":2},{"t":3}]}`, []string{"/a/*/t"}, `{"a":[{"t":"[redacted]","u":2},{"t":"[redacted]"}]}`},
		{`{"a":[10,20]}`, []string{"/a/1"}, `{"a":[10,"[redacted]"]}`},
		{`{"x":{"k":1},"y":{"k":2}}`, []string{"/*/k"}, `{"x":{"k":"[redacted]"},"y":{"k":"[redacted]"}}`},
		{`{"a/b":{"m~n":1}}`, []string{"/a~1b/m~0n"}, `{"a/b":{"m~n":"[redacted]"}}`},
		{`{"":1}`, []string{"/"}, `{"":"[redacted]"}`},
		{`{"t":1,"t":2}`, []string{"/t"}, `{"t":"[redacted]","t":"[redacted]"}`},
		{`{"\u0074":1}`, []string{"/t"}, `{"t":"[redacted]"}`},
		{`"text"`, []string{"/a"}, `"text"`},
		{`null`, []string{"/a"}, `null`},
		{`[]`, []string{"/0"}, `[]`},
		{`not json`, []string{"/a"}, ``},
	} {
		if got := string(millrace.Redact([]byte(c.data), c.pointers)); got != c.want {
			t.Errorf("%s without %v: got %s, want %s", c.data, c.pointers, got, c.want)
		}
	}
}

func TestAPointerIsCheckedAtTheDoor(t *testing.T) {
	for _, good := range []string{"/a", "/", "/a/*/b", "/a~0b/c~1d"} {
		if m := millrace.PointerFault(good); m != "" {
			t.Errorf("%q: %s", good, m)
		}
	}
	for _, bad := range []string{"", "a", "a/b", "/a~", "/a~2", "/~"} {
		if millrace.PointerFault(bad) == "" {
			t.Errorf("%q is taken for a pointer", bad)
		}
	}
}
