package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// maxAnswer bounds what is read of an answer: a lease of the most bytes, all of
// them in base64, with room for what is around them.
const maxAnswer = 32 << 20

// The wait before a call is tried again doubles from the first to the longest.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// reply is a successful answer.
type reply struct {
	status int
	text   []byte
	// again says that an earlier try may have been carried out.
	again bool
}

// do asks the server, and asks again while that is safe and promises something.
func (c *Client) do(ctx context.Context, k call) (reply, error) {
	end := time.Now().Add(c.retryFor)
	wait := millrace.Backoff{First: firstWait, Max: longestWait}
	again := false
	for attempt := 1; ; attempt++ {
		r, err := c.try(ctx, &k)
		r.again = again
		if err == nil || k.once || !passing(err) {
			return r, err
		}
		delay := wait.Delay(attempt, rand.Float64())
		if time.Now().Add(delay).After(end) || !sleep(ctx, delay) {
			return r, err
		}
		again = again || millrace.CodeOf(err) == millrace.CodeOutcomeUnknown
	}
}

// passing reports whether an error may be gone by itself soon.
func passing(err error) bool {
	var lost *lostError
	code := millrace.CodeOf(err)
	return code == millrace.CodeUnavailable || code == millrace.CodeDraining || errors.As(err, &lost)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try asks the server once.
func (c *Client) try(ctx context.Context, k *call) (reply, error) {
	tryCtx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	req, err := c.request(tryCtx, k)
	if err != nil {
		return reply{}, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, connectionError(ctx, k, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return reply{}, connectionError(ctx, k, err)
	case len(text) > maxAnswer:
		return reply{}, millrace.Errorf(millrace.CodeInternal, "the server's answer is larger than %d bytes", maxAnswer)
	case res.StatusCode < 200 || res.StatusCode > 299:
		problem := api.DecodeProblem(res.StatusCode, text)
		if seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil && problem.Code == millrace.CodeRateLimited {
			problem.RetryAfter = time.Duration(seconds) * time.Second
		}
		return reply{}, problem
	}
	return reply{status: res.StatusCode, text: text}, nil
}

// lostError is a try that got no answer.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// connectionError says what a call without an answer means: nothing happened if
// there was no connection or nothing to change, else nobody knows. If the caller
// gave up, that is the cause.
func connectionError(ctx context.Context, k *call, err error) error {
	var at *url.Error
	if k.bare && errors.As(err, &at) {
		err = at.Err // its text has the URL in it, and that is the secret
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	} else {
		err = &lostError{err}
	}
	var op *net.OpError
	dialed := !errors.As(err, &op) || op.Op != "dial"
	if dialed && k.method != http.MethodGet {
		return millrace.Wrap(millrace.CodeOutcomeUnknown, err, "the server did not answer")
	}
	return millrace.Wrap(millrace.CodeUnavailable, err, "the server cannot be reached")
}

// understood is the error of an answer that cannot be read.
func understood(err error) error {
	if err == nil {
		return nil
	}
	return &millrace.Error{Code: millrace.CodeInternal, Detail: "the server's answer is not understood", Err: errors.New(err.Error())}
}

func bodyReader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
