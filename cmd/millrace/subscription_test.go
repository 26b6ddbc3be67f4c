package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const listenSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

// listening is a receiver that runs until the test ends.
type listening struct {
	t     *testing.T
	url   string
	lines chan string // what it prints
}

func startListen(t *testing.T, args ...string) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		var errs bytes.Buffer
		args := append([]string{"subscription", "listen", "--listen", "127.0.0.1:0"}, args...)
		if code := run(ctx, args, strings.NewReader(""), w, &errs); code != exitOK {
			t.Errorf("listen: exit %d: %s", code, &errs)
		}
		_ = w.Close()
	})
	t.Cleanup(func() {
		cancel()
		_ = r.Close()
		running.Wait()
	})
	l := &listening{t: t, lines: make(chan string, 100)}
	running.Go(func() {
		for out := bufio.NewScanner(r); out.Scan(); {
			l.lines <- out.Text()
		}
	})
	l.url = strings.TrimPrefix(l.line("listening on "), "listening on ")
	return l
}

// line is the next line that it prints, which must hold a text.
func (l *listening) line(text string) string {
	l.t.Helper()
	select {
	case line := <-l.lines:
		if !strings.Contains(line, text) {
			l.t.Fatalf("printed %q, want %q", line, text)
		}
		return line
	case <-time.After(30 * time.Second):
		l.t.Fatalf("printed nothing, want %q", text)
		return ""
	}
}

// until runs a line until it prints a text.
func (s shell) until(text, line string) string {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if out := s.want("", line); strings.Contains(out, text) || time.Now().After(deadline) {
			return s.want(text, line)
		}
	}
}

// batch is the id of the first batch of a subscription.
func (s shell) batch(name string) string {
	s.t.Helper()
	return regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(s.want(`"id"`, "subscription batches "+name+" --json"))[1]
}

func TestASubscriptionsLifeThroughTheCommandLine(t *testing.T) {
	l := startListen(t, "--secret", listenSecret)
	s := shell{t, server(t, "--store", "memory:", "--allow-callbacks-to", "127.0.0.0/8")}
	s.want("shop", "subscription create shop --topic orders --timeout 0s --secret "+listenSecret+" --callback "+l.url+"/hook")
	s.want("sent", "subscription test shop")
	l.line("of subscription shop, verified, answered 204")
	l.line(`"type":"ping"`)
	s.want("false", "publish orders --type created --id e-1")
	l.line("attempt 1 of subscription shop, verified")
	l.line(`"id":"e-1"`)
	s.until(`"sent": 1,`, "subscription show shop --json")
	s.want("204", "subscription attempts shop --event e-1")
	s.want("active", "subscription list")

	s.want("", "subscription pause shop")
	s.want("false", "publish orders --type created --id e-2")
	id := s.batch("shop")
	s.want("e-2", "subscription batch shop "+id)
	s.want("", "subscription drop shop "+id)
	s.refused("subscription list", "subscription drop shop "+id)
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"subscription", "inject", "shop", "--server", s.url}, strings.NewReader(example(t, "inject_in")), &out, &errs); code != exitOK {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	s.want("", "subscription resume shop")
	l.line("verified")
	l.line(`"seq":42`)
	s.until(`"sent": 3,`, "subscription show shop --json")

	s.want("whsec_", "subscription rotate shop --overlap 0s")
	s.want("401", "subscription test shop")
	l.line("refused")
	s.want("", "subscription delete shop --if-empty")
	s.refused("subscription list", "subscription show shop")
}

func TestABatchThatDiedIsSentAgainThroughTheCommandLine(t *testing.T) {
	l := startListen(t, "--status", "500")
	s := shell{t, server(t, "--store", "memory:", "--allow-callbacks-to", "127.0.0.0/8")}
	s.want("secret, shown this once: whsec_", "subscription create shop --topic orders --timeout 0s --retry-schedule none --callback "+l.url+"/hook")
	s.want("false", "publish orders --type created --id e-1")
	died := func(failed string) {
		t.Helper()
		l.line("not verified: no --secret, answered 500")
		l.line("e-1")
		s.until(`"failed": `+failed+",", "subscription show shop --json")
		s.want("status 500", "subscription batches shop --state dead")
	}
	died("1")
	s.want(`"retried": 1`, "subscription retry shop --dead --json")
	died("2")
	s.want(`"retried": 1`, "subscription retry shop "+s.batch("shop")+" --json")
	died("3")
	s.refused("holds events", "subscription delete shop --if-empty")
	s.want("", "subscription delete shop --yes")
}

func TestACallbackToThisMachineIsRefusedUntilItIsAllowed(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.refused("--allow-callbacks-to", "subscription create shop --topic orders --callback http://127.0.0.1:7080/hook")
	for _, line := range []string{
		"subscription create shop --topic orders --callback https://shop.example --retry-schedule soon", "subscription delete shop", "subscription retry shop",
		"subscription retry shop 01K0B --dead", "subscription drop shop", "subscription listen --secret x", "subscription listen --status 99",
	} {
		if code, _, errs := command(t, strings.Fields(line)...); code != exitUsage || errs == "" {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
}

func TestWhoDoesNotSeeAMadeSecretIsToldHowToGetOne(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler) // the answer is lost
	}))
	defer server.Close()
	line := []string{"subscription", "create", "shop", "--callback", "https://shop.example/hook", "--topic", "orders", "--server", server.URL}
	code, _, errs := command(t, line...)
	if code != exitFailure || asked.Load() != 1 || !strings.Contains(errs, "`millrace subscription rotate shop` makes another") {
		t.Errorf("exit %d after %d requests: %s", code, asked.Load(), errs)
	}
}
