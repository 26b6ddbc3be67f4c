package acceptance

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/internal/redistest"
)

// marker is in the one request whose answer gets lost.
const marker = "the-answer-to-this-gets-lost"

// An event without an id is not known when it comes again: a call that may have
// run must be reported as such, never repeated.
func TestACallWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	server := redistest.Single(t)
	p := startLossy(t, server.Addr())
	b, err := broker.Open(t.Context(), "redis://"+p.listener.Addr().String(), broker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	if _, _, err := b.Queues().Put(t.Context(), "all", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	publish(t, b, millrace.Event{Topic: "orders", Type: "created"}) // Redis knows the script from here on
	_, err = b.Publish(t.Context(), millrace.Event{Topic: "orders", Type: "created", Data: []byte(`"` + marker + `"`)})
	if code := millrace.CodeOf(err); code != millrace.CodeOutcomeUnknown {
		t.Errorf("got %v, want %s", err, millrace.CodeOutcomeUnknown)
	}
	if !p.lost.Load() {
		t.Fatal("no answer was lost")
	}
	stats, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Published != 2 {
		t.Errorf("%d events are stored, want 2", stats.Published)
	}
}

// lossy stands between an engine and its Redis. It cuts the first connection
// that carried the marker when the answer comes.
type lossy struct {
	listener net.Listener
	server   string
	lost     atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func startLossy(t *testing.T, server string) *lossy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{listener: listener, server: server}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *lossy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		var marked atomic.Bool
		p.running.Go(func() { p.copy(far, near, func(b []byte) bool { return p.ask(&marked, b) }) })
		p.running.Go(func() { p.copy(near, far, func([]byte) bool { return !marked.Load() }) })
	}
}

// ask notes the marker in a request; only its first answer gets lost.
func (p *lossy) ask(marked *atomic.Bool, request []byte) bool {
	if bytes.Contains(request, []byte(marker)) && p.lost.CompareAndSwap(false, true) {
		marked.Store(true)
	}
	return true
}

// copy passes bytes on as long as they may pass, then cuts both ways.
func (p *lossy) copy(to io.WriteCloser, from io.ReadCloser, may func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && may(buffer[:n]) {
			_, err = to.Write(buffer[:n])
		} else if n > 0 {
			err = io.EOF
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}
