package httpapi

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// How often a stream says that it still stands, unless set otherwise, and how long
// a reader may take for a frame.
const (
	beatEvery   = 15 * time.Second
	frameWithin = 10 * time.Second
)

// watch shows events as they go by, for as long as the caller stays.
func (s *server) watch(c *call) (answer, error) {
	q := c.URL.Query()
	f := millrace.LiveFilter{Match: q.Get("match"), Tenant: q.Get("tenant"), Key: q.Get("key")}
	faults := f.Faults()
	for _, name := range [...]string{"match", "tenant", "key"} {
		if q.Has(name) && q.Get(name) == "" { // who left a word out must not see everything
			faults = append(faults, millrace.Fault{Location: name, Message: "must not be empty"})
		}
	}
	if err := c.check(millrace.Invalid(faults)); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithCancel(c.Context())
	items, err := s.backend.Live(ctx, f)
	if err != nil {
		cancel()
		return answer{}, err
	}
	return streamed(ctx, s, c, cancel, items, api.AppendFrame), nil
}

// streamed answers with a frame for each item of a sequence, until it ends or the caller leaves.
func streamed[T any](ctx context.Context, s *server, c *call, cancel func(), items iter.Seq2[T, error], write func([]byte, *T) []byte) answer {
	return answer{status: http.StatusOK, kind: api.LiveType, stream: func(w http.ResponseWriter) {
		defer cancel()
		if c.Method != http.MethodHead {
			frames(ctx, s, cancel, w, items, write)
		}
	}}
}

// frames sends what goes by until the sequence ends or the caller does not read.
func frames[T any](ctx context.Context, s *server, cancel func(), w http.ResponseWriter, items iter.Seq2[T, error], write func([]byte, *T) []byte) {
	t := &stream{w: w, control: http.NewResponseController(w), within: s.frameWithin, fail: cancel}
	defer t.end()
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(ctx, t) })
	defer beats.Wait()
	defer cancel()
	t.send([]byte(api.LiveOpen))
	var frame []byte
	for item, err := range items {
		if err != nil {
			return // the caller sees the end, and may come again
		}
		frame = write(frame[:0], &item)
		t.send(frame)
	}
}

// beat says every so often that the stream still stands.
func (s *server) beat(ctx context.Context, t *stream) {
	tick := time.NewTicker(s.beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.send([]byte(api.LiveBeat))
		}
	}
}

// stream is an answer without an end. A reader that does not take what it is sent
// in time must not hold the server: the stream fails.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	fail    func()

	mu     sync.Mutex
	failed bool
}

// send writes and flushes.
func (t *stream) send(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed {
		return
	}
	_ = t.control.SetWriteDeadline(time.Now().Add(t.within)) // a server that cannot has its own timeouts
	_, err := t.w.Write(text)
	if err == nil {
		err = t.control.Flush()
	}
	if err != nil {
		t.failed = true
		t.fail()
	}
}

// end lets the connection be used again.
func (t *stream) end() { _ = t.control.SetWriteDeadline(time.Time{}) }
