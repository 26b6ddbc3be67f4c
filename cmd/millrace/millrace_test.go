package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asItself makes the tests' binary be the program, for those that need a process of it.
const asItself = "MILLRACE_TEST_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asItself) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// command runs one command line and returns what it printed.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// server runs serve until the test ends and returns its address.
func server(t *testing.T, args ...string) string {
	t.Helper()
	url, _ := stoppable(t, args...)
	return url
}

// stoppable runs serve until it is stopped, or the test ends, and returns its address.
func stoppable(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		var errs bytes.Buffer
		code := run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--drain", "5s"}, args...), strings.NewReader(""), w, &errs)
		if code != exitOK {
			t.Errorf("serve: exit %d: %s", code, &errs)
		}
		_ = w.Close()
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	lines := bufio.NewScanner(r)
	if !lines.Scan() {
		t.Fatal("serve said nothing")
	}
	first := lines.Text()
	running.Go(func() { _, _ = io.Copy(io.Discard, r) })
	if url = regexp.MustCompile(`https?://\S+`).FindString(first); url == "" {
		t.Fatalf("no address in %q", first)
	}
	return url, stop
}

func TestAFirstRoundThroughTheCommandLine(t *testing.T) {
	url := server(t, "--store", "memory:")
	must := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := command(t, append(args, "--server", url)...)
		if code != exitOK || !strings.Contains(out, want) {
			t.Fatalf("%v: exit %d, %q, %q, want %q", args, code, out, errs, want)
		}
		return out
	}
	must("emails", "queue", "create", "emails", "--match", ":orders:")
	must("false", "publish", "orders", "--type", "created", "--tenant", "acme", "--key", "order:7", "--id", "a-1", "--data", `{"n":1}`)
	must("true", "publish", "orders", "--type", "created", "--tenant", "acme", "--key", "order:7", "--id", "a-1", "--data", `{"n":1}`)
	must("emails", "queue", "list")
	must(`"ready": 1`, "queue", "show", "emails", "--json")
	leased := must(`"tenant": "acme"`, "queue", "lease", "emails", "--json")
	receipt := regexp.MustCompile(`"receipt": "([^"]+)"`).FindStringSubmatch(leased)[1]
	must(`"settled": 1`, "queue", "ack", "emails", receipt, "--json")
	must("1        0", "queue", "ack", "emails", mustLease(t, url))
	must("published   2", "stats")
}

// mustLease publishes and leases one more message and returns its receipt.
func mustLease(t *testing.T, url string) string {
	t.Helper()
	if code, _, errs := command(t, "publish", "orders", "--type", "paid", "--server", url); code != exitOK {
		t.Fatal(errs)
	}
	code, out, errs := command(t, "queue", "lease", "emails", "--wait", "5s", "--server", url)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 2 {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	return strings.Fields(lines[1])[0]
}

func TestBadSettingsAreAllNamedAndNothingIsTried(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	code, _, errs := command(t, "serve", "--store", "embedded:"+dir, "--listen", "0.0.0.0:0", "--lanes", "3", "--sync", "never", "--namespace", "a:b", "--tls-cert", "x")
	if code != exitUsage {
		t.Errorf("exit %d, want %d", code, exitUsage)
	}
	for _, want := range []string{"--listen", "--lanes", "--sync", "--namespace", "--tls-cert"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%s is not named in %q", want, errs)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the store was created")
	}
}

func TestSettingsComeFromTheEnvironmentUnlessAFlagSaysOtherwise(t *testing.T) {
	t.Setenv("MILLRACE_SYNC", "never")
	if code, _, errs := command(t, "serve", "--store", "memory:"); code != exitUsage || !strings.Contains(errs, "MILLRACE_SYNC must be") {
		t.Errorf("exit %d, %q: MILLRACE_SYNC does not count", code, errs)
	}
	t.Setenv("MILLRACE_SYNC", "always")
	t.Setenv("MILLRACE_STORE", "nosuch:")
	if code, _, errs := command(t, "serve", "--listen", "127.0.0.1:0"); code != exitUsage || !strings.Contains(errs, "the store must be") {
		t.Errorf("exit %d, %q", code, errs)
	}
	server(t, "--store", "memory:")
}

func TestARootTokenIsAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := server(t, "--store", "memory:", "--root-token-file", file)
	if code, _, errs := command(t, "stats", "--server", url); code != exitFailure || !strings.Contains(errs, "--token") {
		t.Errorf("without a token: exit %d, %q", code, errs)
	}
	if code, _, errs := command(t, "stats", "--server", url, "--token", "s3cret"); code != exitOK {
		t.Errorf("with the token: exit %d, %q", code, errs)
	}
	if code, _, errs := command(t, "stats", "--server", url, "--token", "other"); code != exitFailure {
		t.Errorf("with another token: exit %d, %q", code, errs)
	}
}

func TestFaultsOfTheCommandLineExitWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"nosuch"}, {"config"}, {"config", "chek"}, {"publish"}, {"publish", "orders"}, {"queue", "ack", "emails"}, {"queue", "show"},
		{"stats", "--nosuch"}, {"publish", "orders", "--type", "x", "--attribute", "y"}, {"stats", "--server", "::"},
	} {
		if code, _, errs := command(t, args...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

func TestAServerThatIsNotThereIsExplained(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"stats", "--server", "http://127.0.0.1:1"}, strings.NewReader(""), &out, &errs)
	if code != exitFailure || !strings.Contains(errs.String(), "millrace serve") {
		t.Errorf("exit %d, %q", code, errs.String())
	}
}
