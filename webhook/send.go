package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	connectTimeout = 2 * time.Second
	maxAnswer      = 16 << 10 // bytes that are read of an answer
	keptAnswer     = 1 << 10  // bytes of it that are kept
	maxRetryAfter  = 24 * time.Hour
)

// Why a delivery failed.
const (
	FailedStatus   = "status"
	FailedTimeout  = "timeout"
	FailedConnect  = "connect"
	FailedTLS      = "tls"
	FailedReset    = "reset"
	FailedRedirect = "redirect"
	FailedBlocked  = "blocked_address"
)

// Delivery is one attempt to be made.
type Delivery struct {
	URL          string
	UUID         string // user name of Basic auth, if any
	Secrets      []string
	ID           string // of the batch
	Subscription string
	Attempt      int
	ContentType  string
	Body         []byte
	Timeout      time.Duration // for all of it
}

// Outcome is what came of an attempt.
type Outcome struct {
	Status     int           // 0 without an answer
	Failure    string        // "" for success, else one of the Failed words
	RetryAfter time.Duration // what the receiver asked for, at most a day; 0 for nothing
	Gone       bool          // the receiver wants no more, ever (410)
	Answer     string        // its first bytes
	Duration   time.Duration
}

// OK reports whether the receiver has taken the batch.
func (o *Outcome) OK() bool { return o.Failure == "" }

// Sender sends batches. It follows no redirect, uses no proxy, asks for no
// compression, reads little of an answer and calls only what its guard allows.
type Sender struct {
	agent         string
	secure, plain *http.Client
}

// NewSender returns a sender that names itself with an agent, such as millrace/0.1.0.
func NewSender(agent string, guard *Guard) *Sender {
	return &Sender{agent: agent, secure: newClient(guard, true, nil), plain: newClient(guard, false, nil)}
}

func newClient(guard *Guard, https bool, roots *x509.CertPool) *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second, Control: guard.control(https)}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, DisableCompression: true,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			MaxIdleConns:    256, MaxIdleConnsPerHost: 8, IdleConnTimeout: 60 * time.Second,
			MaxResponseHeaderBytes: 32 << 10, ForceAttemptHTTP2: true,
		},
	}
}

// Close lets go of kept connections.
func (s *Sender) Close() {
	s.secure.CloseIdleConnections()
	s.plain.CloseIdleConnections()
}

// Send makes one attempt.
func (s *Sender) Send(ctx context.Context, d Delivery) Outcome {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	began := time.Now()
	o := s.send(ctx, &d, began)
	o.Duration = time.Since(began)
	return o
}

func (s *Sender) send(ctx context.Context, d *Delivery, now time.Time) Outcome {
	req, err := s.request(ctx, d, now)
	if err != nil {
		return Outcome{Failure: FailedConnect}
	}
	client := s.plain
	if req.URL.Scheme == "https" {
		client = s.secure
	}
	answer, err := client.Do(req)
	if err != nil {
		return Outcome{Failure: failureOf(err)}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close() // what is left of it is not wanted
	o := judge(answer, now)
	o.Answer = string(bytes.ToValidUTF8(text[:min(len(text), keptAnswer)], []byte("?")))
	if err != nil && o.Failure == "" {
		o.Failure = failureOf(err) // it said yes, but not to the end
	}
	return o
}

func (s *Sender) request(ctx context.Context, d *Delivery, now time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	signature, err := Sign(d.Secrets, d.ID, now, d.Body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", d.ContentType)
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set(HeaderID, d.ID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderSignature, signature)
	req.Header.Set(HeaderSubscription, d.Subscription)
	req.Header.Set(HeaderAttempt, strconv.Itoa(d.Attempt))
	if d.UUID != "" {
		req.SetBasicAuth(d.UUID, "x")
	}
	return req, nil
}

// judge reads what a receiver means by its answer.
func judge(answer *http.Response, now time.Time) Outcome {
	o := Outcome{Status: answer.StatusCode}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
	case code >= 300 && code < 400:
		o.Failure = FailedRedirect
	default:
		o.Failure, o.Gone = FailedStatus, code == http.StatusGone
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			o.RetryAfter = retryAfter(answer.Header.Get("Retry-After"), now)
		}
	}
	return o
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return min(max(0, time.Duration(seconds)*time.Second), maxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}

// failureOf names why a request got no answer.
func failureOf(err error) string {
	var timeout net.Error
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.Is(err, errBlocked):
		return FailedBlocked
	case errors.As(err, &operation) && operation.Op == "dial":
		return FailedConnect
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return FailedTimeout
	case errors.As(err, &record), errors.As(err, &certificate), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return FailedTLS
	}
	return FailedReset // the connection was there, and ended
}
