package main

import (
	"bufio"
	"context"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// browser is somebody with the page open, and a worker that goes on when told to.
type browser struct {
	url    string
	client *http.Client
	steps  chan error // what the sync that runs does next
}

// browse starts the program on a free port.
func browse(t *testing.T) *browser {
	t.Helper()
	b := &browser{steps: make(chan error), client: &http.Client{Transport: &http.Transport{}}}
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-listen", "127.0.0.1:0"}, write, b.sync)
		_ = write.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatal("the program said nothing")
	}
	b.url = lines.Text()
	return b
}

// sync reports that it is half done and waits for the test.
func (b *browser) sync(ctx context.Context, _ string, progress func(int, string) error) (int, error) {
	if err := progress(50, "comparing"); err != nil {
		return 0, err
	}
	select {
	case err := <-b.steps:
		return 7, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// click presses a button and returns the page that it leads to.
func (b *browser) click(t *testing.T, path string) string {
	t.Helper()
	return b.fetch(t, http.MethodPost, path)
}

func (b *browser) fetch(t *testing.T, method, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %v", method, path, answer.Status, err)
	}
	return string(text)
}

var cells = regexp.MustCompile(`<td class="(?:status|progress|error|output)">(.*?)</td>`)

// history is what a page shows of a link's operations, a line each.
func history(page string) (lines []string) {
	for row := range strings.Lines(page) {
		var line []string
		for _, cell := range cells.FindAllStringSubmatch(row, -1) {
			if cell[1] != "" {
				line = append(line, html.UnescapeString(cell[1]))
			}
		}
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, " "))
		}
	}
	return lines
}

// sees loads a page until its history is as wanted.
func (b *browser) sees(t *testing.T, path string, want ...string) (page string) {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		page = b.fetch(t, http.MethodGet, path)
		if got = history(page); strings.Join(got, "\n") == strings.Join(want, "\n") {
			return page
		}
	}
	t.Fatalf("the page shows %q, want %q", got, want)
	return ""
}

func TestAClickRunsIsShownAndStaysInTheHistory(t *testing.T) {
	b := browse(t)
	b.click(t, "/links/docs/sync")
	b.sees(t, "/links/docs", "RUNNING 50 % comparing")
	if got := history(b.click(t, "/links/docs/sync")); len(got) != 1 {
		t.Errorf("a second click while the first runs made it %q", got)
	}
	b.steps <- nil
	b.sees(t, "/links/docs", `SUCCESS 50 % comparing {"files":7}`)

	b.click(t, "/links/docs/sync")
	b.steps <- errBroken
	page := b.sees(t, "/links/docs", "ERROR 50 % comparing the repository is not there", `SUCCESS 50 % comparing {"files":7}`)
	if want := "Errors in the last hour: 50 % of 2"; !strings.Contains(page, want) {
		t.Errorf("the page does not say %q: %s", want, page)
	}
	if got := history(b.fetch(t, http.MethodGet, "/links/website")); len(got) != 0 {
		t.Errorf("another link shows %q", got)
	}
}

func TestASyncThatIsCancelledEnds(t *testing.T) {
	b := browse(t)
	b.click(t, "/links/docs/sync")
	page := b.sees(t, "/links/docs", "RUNNING 50 % comparing")
	action := regexp.MustCompile(`action="(/links/docs/cancel/[^"]+)"`).FindStringSubmatch(page)
	if action == nil {
		t.Fatalf("there is no button to cancel: %s", page)
	}
	b.click(t, action[1])
	b.sees(t, "/links/docs", "CANCELLED 50 % comparing the operation is to be cancelled")
}
