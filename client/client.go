// Package client talks to a Millrace server over HTTP. A Client does what a
// broker does in-process, with the same meaning and the same errors.
//
// Calls that are safe to repeat are repeated while the server restarts or cannot be
// reached (Options.RetryFor): publishing is among them, because every event gets an
// id here before it is sent. Leasing is not. A failed call's error carries the code
// of the server's answer; see millrace.CodeOf.
package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/tracing"
)

// Options are the settings of a client. The zero value is usable.
type Options struct {
	Token string // shown with every request, if any

	// Timeout is how long one try may take, beside what a lease waits; 30 s if 0.
	Timeout time.Duration

	// RetryFor is how long a call that is safe to repeat is tried again while
	// the server cannot be reached, is not available or drains; 10 s if 0, not at
	// all if negative.
	RetryFor time.Duration

	Transport http.RoundTripper // one of its own, with many kept connections, if nil

	// TracerProvider is of the OpenTelemetry spans of publish, lease and settle;
	// there are none if it is nil. The trace of a call's context is told to the
	// server in any case, and goes with the events that are published.
	TracerProvider trace.TracerProvider
}

// Client is a backbone over HTTP. It may be used by many goroutines at once.
type Client struct {
	base     string
	http     *http.Client
	token    string
	timeout  time.Duration
	retryFor time.Duration
	silence  time.Duration // of a stream, after which its server counts as gone
	tracer   tracing.Tracer

	mu      sync.Mutex
	last    time.Time // of the last id, so that ids sort in the order they were made
	entropy io.Reader
}

var _ millrace.Backbone = (*Client)(nil)

// New returns a client of the server at a URL such as http://127.0.0.1:7070. It
// does not connect.
func New(server string, o Options) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("parse server's URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("parse server's URL: it must look like http://127.0.0.1:7070")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("parse server's URL: it must not hold a user, a query or a fragment; a token is an option")
	}
	c := &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: o.Token, timeout: o.Timeout, retryFor: o.RetryFor, silence: liveSilence,
		http:    &http.Client{Transport: o.Transport, CheckRedirect: noRedirect},
		entropy: ulid.Monotonic(rand.Reader, 0),
		tracer:  tracing.New(o.TracerProvider),
	}
	if o.Transport == nil {
		c.http.Transport = newTransport()
	}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	if c.retryFor == 0 {
		c.retryFor = 10 * time.Second
	}
	return c, nil
}

// Close lets go of the connections that are kept for later calls.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// noRedirect shows a redirect instead of following it with the token.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
}

// newID makes an event's id.
func (c *Client) newID() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.last) {
		c.last = now
	}
	id, err := millrace.NewID(c.last, c.entropy)
	if err != nil { // the millisecond has no more ids
		c.last = c.last.Add(time.Millisecond)
		id, err = millrace.NewID(c.last, c.entropy)
	}
	return id, err
}

// Queues is what is done with queues.
func (c *Client) Queues() millrace.QueueService { return queues{c} }

// Subscriptions is what is done with subscriptions.
func (c *Client) Subscriptions() millrace.SubscriptionService { return subscriptions{c} }

// Topics is what is done with topics.
func (c *Client) Topics() millrace.TopicService { return topics{c} }

// call is one thing asked of the server.
type call struct {
	method string
	path   []string // below /v1, each part not yet escaped
	query  url.Values
	body   []byte
	wait   time.Duration // what the server may wait beside the usual time
	once   bool          // not safe to repeat
	bare   bool          // not below /v1, and without the token
}

// get, put and so on keep the calls short.
func get(path ...string) call { return call{method: http.MethodGet, path: path} }

func put(body []byte, path ...string) call {
	return call{method: http.MethodPut, path: path, body: body}
}

func post(body []byte, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body}
}

func remove(path ...string) call { return call{method: http.MethodDelete, path: path} }

// request is one try of a call.
func (c *Client) request(ctx context.Context, k *call) (*http.Request, error) {
	var b strings.Builder
	b.WriteString(c.base)
	if !k.bare {
		b.WriteString("/v1")
	}
	for _, part := range k.path {
		b.WriteString("/" + escape(part))
	}
	if len(k.query) > 0 {
		b.WriteString("?" + k.query.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, k.method, b.String(), bodyReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if k.body != nil {
		req.Header.Set("Content-Type", millrace.JSONContentType)
	}
	if c.token != "" && !k.bare {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	tracing.Inject(ctx, req.Header)
	return req, nil
}

// escape writes a part of a path. An id may be . or .., which mean a place.
func escape(part string) string {
	if part == "." || part == ".." {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	return url.PathEscape(part)
}

// textFault refuses an id that cannot be one.
func textFault(what, id string) error {
	m := millrace.TextFault(id, millrace.MaxIDLen)
	if id == "" {
		m = "must not be empty"
	}
	if m != "" {
		return millrace.Invalid([]millrace.Fault{{Location: what, Message: m}})
	}
	return nil
}

// nameFault refuses a name that cannot be one, as a broker does.
func nameFault(what, name string) error {
	if m := millrace.NameFault(name); m != "" {
		return millrace.Invalid([]millrace.Fault{{Location: what, Message: m}})
	}
	return nil
}
