package acceptance

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/client"
)

// readmeServer is the address that the README's commands name.
const readmeServer = "http://127.0.0.1:7070"

// block is one fenced block of a document.
type block struct {
	language, text string
}

// fenced returns a document's fenced blocks, in order.
func fenced(t *testing.T, file string) (blocks []block) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(read(t, file), -1) {
		blocks = append(blocks, block{language: m[1], text: m[2]})
	}
	return blocks
}

func TestEveryCommandOfTheREADMEWorks(t *testing.T) {
	server, ran := "", 0
	for _, b := range fenced(t, "../README.md") {
		switch {
		case b.language == "go":
		case b.language != "sh":
			t.Errorf("a block in %q is run by nobody: %s", b.language, b.text)
		case b.text == "make run\n":
			server = startByMake(t)
		case b.text == "make test\n":
			// This test is part of what it runs: that it would run is all there is to see.
			if out := bash(t, "make -n test"); !strings.Contains(out, "go test") {
				t.Errorf("make test does not run go test: %s", out)
			}
		default:
			t.Logf("%s%s", b.text, bash(t, strings.ReplaceAll(b.text, readmeServer, server), "MILLRACE_SERVER="+server))
			ran++
		}
	}
	if ran == 0 || server == "" {
		t.Fatalf("the README ran %d blocks against server %q", ran, server)
	}
	checkFirstFiveMinutes(t, server)
}

// checkFirstFiveMinutes verifies that the README's commands did what it says they do.
func checkFirstFiveMinutes(t *testing.T, server string) {
	t.Helper()
	c, err := client.New(server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Published != 5 || stats.Duplicates != 1 {
		t.Errorf("published %d with %d duplicates, want 5 with 1", stats.Published, stats.Duplicates)
	}
	for name, left := range map[string]int64{"emails": 4, "audit": 0} {
		q, err := c.Queues().Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := q.Ready + q.Leased + q.Delayed + q.Dead; n != left {
			t.Errorf("queue %s holds %d messages (%+v), want %d: one was acknowledged", name, n, q.QueueCounts, left)
		}
	}
}

// bash runs a script in the root of the repository; it must succeed.
func bash(t *testing.T, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = ".."
	cmd.Env = append(cleanEnvironment(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// startByMake runs `make run` on a free port and an empty directory, and
// returns the server's address once it says it.
func startByMake(t *testing.T) (server string) {
	t.Helper()
	cmd := exec.Command("make", "run")
	cmd.Dir = ".."
	cmd.Env = append(cleanEnvironment(), "MILLRACE_LISTEN=127.0.0.1:0", "MILLRACE_STORE=embedded:"+filepath.Join(t.TempDir(), "data"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return started(t, cmd, func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	}, func(err error) bool {
		var exit *exec.ExitError // make reports the signal as a failure
		return err == nil || errors.As(err, &exit)
	})
}

// started starts a server's process and returns its address once it says it. When the
// test ends it is stopped, and must then end in a way that is fine.
func started(t *testing.T, cmd *exec.Cmd, stop func(), fine func(error) bool) (server string) {
	t.Helper()
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	t.Cleanup(func() {
		stop()
		for lines.Scan() { // to the end, so that it can write
			t.Log(lines.Text())
		}
		if err := cmd.Wait(); !fine(err) {
			t.Errorf("%s ended with %v", cmd, err)
		}
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	for lines.Scan() {
		t.Log(lines.Text())
		if server = address.FindString(lines.Text()); server != "" {
			return server
		}
	}
	t.Fatalf("%s ended without saying its address", cmd)
	return ""
}

// cleanEnvironment is this process's, without what would change Millrace's settings.
func cleanEnvironment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MILLRACE_") && !strings.HasPrefix(e, "MAKE") && !strings.HasPrefix(e, "MFLAGS") {
			env = append(env, e)
		}
	}
	return env
}

func TestTheLibraryExampleOfTheREADMERuns(t *testing.T) {
	for _, b := range fenced(t, "../README.md") {
		if b.language != "go" {
			continue
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := bash(t, "gofmt -l "+file); out != "" {
			t.Errorf("the example is not formatted: %s", out)
		}
		out := bash(t, "go run "+file)
		if want := `acme {"total":12}`; !strings.Contains(out, want) {
			t.Errorf("the example printed %q, want %q", out, want)
		}
		return
	}
	t.Fatal("the README has no example in Go")
}
