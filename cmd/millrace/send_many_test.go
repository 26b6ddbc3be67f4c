package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines writes a file of lines.
func lines(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLinesOfAFileArePublishedInTheirOrder(t *testing.T) {
	url := server(t, "--store", "memory:")
	var text strings.Builder
	for n := range 2500 {
		fmt.Fprintf(&text, `{"type":"created","tenant":"acme","key":"k","data":{"n":%d}}`+"\n\n", n)
	}
	file := lines(t, text.String())
	if code, _, errs := command(t, "queue", "create", "emails", "--match", ":orders:", "--server", url); code != exitOK {
		t.Fatal(errs)
	}
	code, out, errs := command(t, "send-many", file, "--topic", "orders", "--id-prefix", "x", "--batch", "1000", "--server", url, "--json")
	if code != exitOK || !strings.Contains(out, `"sent": 2500`) || !strings.Contains(out, `"unrouted": 0`) {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	code, out, _ = command(t, "queue", "peek", "emails", "--limit", "1000", "--json", "--server", url)
	for n := range 1000 {
		at := strings.Index(out, fmt.Sprintf(`"n": %d`+"\n", n))
		if at < 0 {
			t.Fatalf("exit %d: event %d is not in its place", code, n)
		}
		out = out[at:]
	}
	code, out, errs = command(t, "send-many", file, "--topic", "orders", "--id-prefix", "x", "--server", url, "--json")
	if code != exitOK || !strings.Contains(out, `"duplicates": 2500`) {
		t.Errorf("sent again: exit %d, %q, %q", code, out, errs)
	}
}

func TestAFileWithABadLineIsNotSentAtAll(t *testing.T) {
	url := server(t, "--store", "memory:")
	file := lines(t, `{"type":"created","topic":"orders"}
{"type":"created"}
not json
{"topic":"orders","typ":"created"}
{"topic":"or:ders","type":"created"}
`)
	code, _, errs := command(t, "send-many", file, "--server", url)
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"line 2: names no topic", "line 3: is not a JSON object", "line 4: ", "line 5: ", "Nothing was sent."} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in %q", want, errs)
		}
	}
	if _, out, _ := command(t, "stats", "--server", url); !strings.Contains(out, "published   0") {
		t.Errorf("something was published: %s", out)
	}
}

func TestLinesOfStandardInputAreSentUpToTheFirstBadOne(t *testing.T) {
	url := server(t, "--store", "memory:")
	in := `{"type":"created","topic":"orders","seq":41,"prev":38,"recorded_at":"2026-11-15T01:13:00.120Z"}
{"type":"created","topic":"orders","tenant":"acme"}
{"type":
{"type":"created","topic":"orders"}
`
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"send-many", "-", "--server", url}, strings.NewReader(in), &out, &errs)
	if code != exitFailure || !strings.Contains(errs.String(), "line 3") || !strings.Contains(errs.String(), "2 events were sent") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
	if _, stats, _ := command(t, "stats", "--server", url); !strings.Contains(stats, "published   2") {
		t.Errorf("published something else: %s", stats)
	}
}

func TestALineOfStandardInputDoesNotWaitForTheNextAndIsSentAlsoAfterAStop(t *testing.T) {
	url := server(t, "--store", "memory:")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in := feed{asked: make(chan chan string), end: make(chan struct{})}
	var running sync.WaitGroup
	defer running.Wait()
	defer close(in.end)
	var code int
	var errs bytes.Buffer
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		code = run(ctx, []string{"send-many", "-", "--server", url}, in, io.Discard, &errs)
	})
	for n := 1; n <= 3; n++ {
		line := <-in.asked // it asks for one
		if n == 3 {
			stop() // what it takes now is the last
		}
		line <- `{"type":"created","topic":"orders"}` + "\n"
		untilPublished(t, url, n)
	}
	<-ended
	if code != exitFailure || !strings.Contains(errs.String(), "3 events were sent before that") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}

// feed is a reader whose every Read asks for a text, until its end.
type feed struct {
	asked chan chan string
	end   chan struct{}
}

func (f feed) Read(p []byte) (int, error) {
	text := make(chan string)
	select {
	case f.asked <- text:
		return copy(p, <-text), nil
	case <-f.end:
		return 0, io.EOF
	}
}

// untilPublished waits until so many events are published.
func untilPublished(t *testing.T, url string, n int) {
	t.Helper()
	want := fmt.Sprintf("published   %d\n", n)
	var out string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, out, _ = command(t, "stats", "--server", url); strings.Contains(out, want) {
			return
		}
	}
	t.Fatalf("%q is not in %s", want, out)
}

func TestAFileThatIsNotThereIsAFaultOfTheCommandLine(t *testing.T) {
	if code, _, errs := command(t, "send-many", filepath.Join(t.TempDir(), "nowhere")); code != exitUsage || !strings.Contains(errs, "open the lines") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
