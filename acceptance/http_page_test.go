package acceptance

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/millracetest"
)

// pageReceiver is the address of the receiver that the page starts.
const pageReceiver = "http://127.0.0.1:7080"

// openCallingHome opens a backbone that may push to this machine.
func openCallingHome(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), "memory:", broker.Options{AllowCallbacksTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

// startReceiver runs the page's receiver on a free port and returns its address.
func startReceiver(t *testing.T, command string) string {
	t.Helper()
	command = strings.NewReplacer("bin/millrace", filepath.Join(buildMillrace(t), "millrace"), strings.TrimPrefix(pageReceiver, "http://"), "127.0.0.1:0").Replace(command)
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Env = cleanEnvironment()
	return started(t, cmd, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }, func(err error) bool { return err == nil })
}

// The page's examples run in the order in which they stand, against one server.
func TestTheExamplesOfTheHTTPPageRun(t *testing.T) {
	b := openCallingHome(t)
	server := millracetest.Serve(t, b)
	first, receiver, ran, printed := "", "", map[string]int{}, ""
	for _, k := range fenced(t, "../docs/http.md") {
		text := strings.ReplaceAll(k.text, readmeServer, server)
		switch k.language {
		case "sh":
			if first == "" {
				first = text
			}
			if strings.HasPrefix(text, "bin/millrace subscription listen ") {
				receiver = startReceiver(t, text)
				continue
			}
			printed += bash(t, first+strings.ReplaceAll(text, pageReceiver, receiver))
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
	for _, want := range []string{`"duplicate":false`, `"settled":1`, `"body.leese"`, `"body.match"`, "working on acme {'n': 2}", "404 not_found",
		`"status":204`, `"retried":1`, `"old_until":"`, `"kind":"subscription","name":"shop","match":":bills:","state":"paused"`} {
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
