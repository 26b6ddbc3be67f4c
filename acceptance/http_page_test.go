package acceptance

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/millracetest"
)

// The page's examples run in the order in which they stand, against one server.
func TestTheExamplesOfTheHTTPPageRun(t *testing.T) {
	b := millracetest.New(t)
	server := httptest.NewServer(httpapi.Handler(b, httpapi.Options{}))
	t.Cleanup(server.Close)
	first, ran, printed := "", map[string]int{}, ""
	for _, k := range fenced(t, "../docs/http.md") {
		text := strings.ReplaceAll(k.text, readmeServer, server.URL)
		switch k.language {
		case "sh":
			if first == "" {
				first = text
			}
			printed += bash(t, first+text)
		case "python":
			file := filepath.Join(t.TempDir(), "example.py")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			printed += bash(t, "python3 "+file)
		case "ruby", "json":
			continue // no Ruby is asked of a developer's machine; the JSON is an answer
		default:
			t.Errorf("a block in %q is run by nobody: %s", k.language, k.text)
		}
		ran[k.language]++
	}
	t.Log(printed)
	if ran["sh"] < 5 || ran["python"] < 2 {
		t.Errorf("ran %v examples", ran)
	}
	for _, want := range []string{`"duplicate":false`, `"settled":1`, `"body.leese"`, `"body.match"`, "working on acme {'n': 2}", "404 not_found"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the examples did not print %s", want)
		}
	}
	q, err := b.Queues().Get(t.Context(), "emails")
	if err != nil {
		t.Fatal(err)
	}
	if n := q.Ready + q.Leased + q.Delayed + q.Dead; n != 0 || q.Acked != 6 {
		t.Errorf("the queue holds %+v after the examples, %d acknowledged; want nothing, and 6", q.QueueCounts, q.Acked)
	}
}
