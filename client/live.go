package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

const (
	// liveSilence is how long a server may say nothing before the stream counts as
	// broken: it beats every 15 seconds.
	liveSilence = 45 * time.Second

	// maxFrame bounds a line of a stream and, roughly, a frame: an event of the most
	// bytes, all of them in base64 or escaped.
	maxFrame = 4 << 20
)

// errSilent is why a stream ends whose server has gone silent.
var errSilent = errors.New("the server has gone silent")

// Live watches the events that a filter lets through. The sequence ends with
// CodeUnavailable when the connection breaks: nothing is shown later, so whoever
// watches again has missed what went by.
func (c *Client) Live(ctx context.Context, f millrace.LiveFilter) (iter.Seq2[millrace.LiveItem, error], error) {
	if err := millrace.Invalid(f.Faults()); err != nil {
		return nil, err
	}
	s, err := c.openStream(ctx, liveCall(f))
	if err != nil {
		return nil, err
	}
	return func(yield func(millrace.LiveItem, error) bool) { readFrames(ctx, s, api.DecodeFrame, yield) }, nil
}

// liveCall is what is asked for a filter.
func liveCall(f millrace.LiveFilter) call {
	k := get("live")
	k.query = url.Values{}
	for name, value := range map[string]string{"match": f.Match, "tenant": f.Tenant, "key": f.Key} {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	return k
}

// liveStream is an answer of server-sent events that is being read.
type liveStream struct {
	cancel context.CancelCauseFunc
	cause  func() error  // why it was cancelled, if it was
	within time.Duration // the server must say something
	silent *time.Timer   // ends it otherwise
	body   io.ReadCloser
	lines  *bufio.Scanner
}

// openStream asks for a stream and returns when the server says that the watch stands.
func (c *Client) openStream(ctx context.Context, k call) (*liveStream, error) {
	within, cancel := context.WithCancelCause(ctx)
	s := &liveStream{cancel: cancel, cause: func() error { return context.Cause(within) }, within: c.silence}
	s.silent = time.AfterFunc(c.timeout, func() { cancel(errSilent) })
	if err := s.open(within, c, &k); err != nil {
		s.close()
		return nil, err
	}
	s.silent.Stop()
	return s, nil
}

func (s *liveStream) open(ctx context.Context, c *Client, k *call) error {
	req, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req) //nolint:bodyclose // closed by close
	if err != nil {
		return connectionError(ctx, k, err)
	}
	s.body = res.Body
	if res.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		if err != nil {
			return connectionError(ctx, k, err)
		}
		return api.DecodeProblem(res.StatusCode, text)
	}
	s.lines = bufio.NewScanner(res.Body)
	s.lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	if !s.lines.Scan() || s.lines.Text() != strings.TrimSpace(api.LiveOpen) {
		return s.broken()
	}
	return nil
}

func (s *liveStream) close() {
	s.silent.Stop()
	s.cancel(nil)
	if s.body != nil {
		_ = s.body.Close()
	}
}

// broken is why a stream ended.
func (s *liveStream) broken() error {
	err := s.cause()
	if err == nil {
		err = s.lines.Err()
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return millrace.Wrap(millrace.CodeUnavailable, err, "the watch has ended; nothing is shown later")
}

// readFrames hands out what the server sends, until the stream or ctx ends. How long the
// caller takes for an item is not the server's silence.
func readFrames[T any](ctx context.Context, s *liveStream, decode func(name string, data []byte) (T, bool, error), yield func(T, error) bool) {
	defer s.close()
	var f frame
	var none T
	for s.silent.Reset(s.within); s.lines.Scan(); s.silent.Reset(s.within) {
		s.silent.Stop()
		if len(f.data) > maxFrame {
			yield(none, understood(bufio.ErrTooLong))
			return
		}
		if !f.take(s.lines.Text()) {
			continue
		}
		item, known, err := decode(f.name, f.data)
		f = frame{}
		if err != nil {
			yield(none, understood(err))
			return
		}
		if known && !yield(item, nil) {
			return
		}
	}
	if ctx.Err() == nil {
		yield(none, s.broken())
	}
}

// frame is one that is being read.
type frame struct {
	name string
	data []byte
	some bool // it has data
}

// take takes in a line and reports whether the frame is complete. Comments and
// fields that are not known are passed over.
func (f *frame) take(line string) bool {
	if line == "" {
		return f.some
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		f.name = value
	case "data":
		if f.some {
			f.data = append(f.data, '\n')
		}
		f.data, f.some = append(f.data, value...), true
	}
	return false
}
