package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-dev/millrace/api"
)

// tailing is a tail that runs until the test ends it.
type tailing struct {
	t         *testing.T
	out, errs *bufio.Scanner
	interrupt func()
	running   sync.WaitGroup
	code      int
}

func startTail(t *testing.T, args ...string) *tailing {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	x := &tailing{t: t, out: bufio.NewScanner(outR), errs: bufio.NewScanner(errR), interrupt: cancel}
	x.running.Go(func() {
		x.code = run(ctx, append([]string{"tail"}, args...), strings.NewReader(""), outW, errW)
		_ = outW.Close()
		_ = errW.Close()
	})
	t.Cleanup(func() {
		cancel()
		_ = outR.Close()
		_ = errR.Close()
		x.running.Wait()
	})
	return x
}

func (x *tailing) line(s *bufio.Scanner, parts ...string) string {
	x.t.Helper()
	if !s.Scan() {
		x.t.Fatalf("tail has ended: %v", s.Err())
	}
	for _, part := range parts {
		if !strings.Contains(s.Text(), part) {
			x.t.Fatalf("printed %q, want %q", s.Text(), part)
		}
	}
	return s.Text()
}

// end interrupts a tail, which is how it ends well.
func (x *tailing) end() {
	x.t.Helper()
	x.interrupt()
	x.running.Wait()
	if x.code != exitOK {
		x.t.Errorf("exit %d", x.code)
	}
}

// publishUntil publishes until a tail, which may not watch yet, has printed a line.
func publishUntil(t *testing.T, url string, x *tailing, args ...string) string {
	t.Helper()
	printed := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for {
			select {
			case <-printed:
				return
			default:
			}
			var out, errs bytes.Buffer
			line := append([]string{"publish"}, append(args, "--server", url)...)
			if run(context.Background(), line, strings.NewReader(""), &out, &errs) != exitOK {
				t.Error(errs.String())
				return
			}
		}
	})
	defer publishing.Wait()
	defer close(printed)
	return x.line(x.out)
}

func TestTailPrintsALinePerEventAndEndsWell(t *testing.T) {
	url := server(t, "--store", "memory:")
	x := startTail(t, "--server", url, "--match", ":orders:", "--tenant", "acme", "--key", "order:7")
	line := publishUntil(t, url, x, "orders", "--type", "created", "--tenant", "acme", "--key", "order:7", "--data", "{\"n\":\n1}")
	for _, want := range []string{"  acme:orders:created  order:7  ", `"{\"n\":\n1}"`} {
		if !strings.Contains(line, want) {
			t.Errorf("printed %q, want %q", line, want)
		}
	}
	x.interrupt()
	for x.out.Scan() { // what was printed before it ended
	}
	x.end()
}

func TestTailPrintsJSONPerLineForMachines(t *testing.T) {
	url := server(t, "--store", "memory:")
	x := startTail(t, "--server", url, "--json")
	line := publishUntil(t, url, x, "orders", "--type", "created", "--data", "{\"n\":\r\n1}")
	if e, err := api.DecodeEvent([]byte(line)); err != nil || e.Topic != "orders" || string(e.Data) != "{\"n\": 1}" {
		t.Errorf("printed %q: %v", line, err)
	}
}

func TestTailTellsWhatItMissedAndBeginsAgain(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, ": open\n\nevent: missed\ndata: {\"missed\":12}\n\n")
		if asked.Add(1) > 1 {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	x := startTail(t, "--server", s.URL)
	x.line(x.errs, "12 events missed")
	x.line(x.errs, "trying again")
	x.line(x.errs, "connected again", "missed")
	x.line(x.errs, "12 events missed")
	x.end()
}

func TestTailSaysWhatIsWrong(t *testing.T) {
	url := server(t, "--store", "memory:")
	if code, _, errs := command(t, "tail", "--match", "(", "--server", url); code != exitFailure || !strings.Contains(errs, "match") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if code, _, errs := command(t, "tail", "--server", "http://127.0.0.1:1"); code != exitFailure || !strings.Contains(errs, "millrace serve") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if code, _, errs := command(t, "serve", "--store", "memory:", "--redis-publish=perhaps"); code != exitUsage || !strings.Contains(errs, "--redis-publish") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
