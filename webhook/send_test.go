package webhook

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// receiver starts a server that answers as a handler says.
func receiver(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func sender(t *testing.T) *Sender {
	t.Helper()
	s := NewSender("millrace/test", NewGuard(netip.MustParsePrefix("127.0.0.0/8")))
	t.Cleanup(s.Close)
	return s
}

// send makes one attempt at a URL.
func send(t *testing.T, url string, timeout time.Duration) Outcome {
	t.Helper()
	return sender(t).Send(t.Context(), Delivery{URL: url, ID: "b-1", Secrets: []string{NewSecret()}, Attempt: 1, ContentType: "application/json", Body: []byte(`[]`), Timeout: timeout})
}

func TestABatchArrivesWithItsHeadersAndItsSignature(t *testing.T) {
	secret := NewSecret()
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := Verify(r.Header, body, secret); err != nil {
			t.Error(err)
		}
		user, password, ok := r.BasicAuth()
		for name, want := range map[string]string{
			HeaderID: "b-1", HeaderSubscription: "shop", HeaderAttempt: "3", "Content-Type": "application/json", "User-Agent": "millrace/test",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if r.Method != http.MethodPost || string(body) != `[{"id":"a-1"}]` || user != "u-1" || password != "x" || !ok {
			t.Errorf("%s %q as %q %q", r.Method, body, user, password)
		}
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("asks for %s", got)
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thank you")
	})
	o := sender(t).Send(t.Context(), Delivery{
		URL: url, UUID: "u-1", Secrets: []string{NewSecret(), secret}, ID: "b-1", Subscription: "shop", Attempt: 3,
		ContentType: "application/json", Body: []byte(`[{"id":"a-1"}]`), Timeout: 10 * time.Second,
	})
	if !o.OK() || o.Status != http.StatusAccepted || o.Answer != "thank you" || o.Duration <= 0 {
		t.Errorf("%+v", o)
	}
}

func TestWhatAnAnswerMeans(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status  int
		after   string
		failure string
		gone    bool
		least   time.Duration
		most    time.Duration
	}{
		{status: 200}, {status: 204}, {status: 299},
		{status: 301, failure: FailedRedirect}, {status: 304, failure: FailedRedirect}, {status: 307, failure: FailedRedirect},
		{status: 400, failure: FailedStatus}, {status: 404, failure: FailedStatus}, {status: 500, failure: FailedStatus, after: "9"},
		{status: 410, failure: FailedStatus, gone: true},
		{status: 429, after: "7", failure: FailedStatus, least: 7 * time.Second, most: 7 * time.Second},
		{status: 503, after: soon, failure: FailedStatus, least: 59 * time.Minute, most: time.Hour},
		{status: 503, after: "999999999", failure: FailedStatus, least: 24 * time.Hour, most: 24 * time.Hour},
		{status: 503, after: "-5", failure: FailedStatus}, {status: 429, after: "soon", failure: FailedStatus},
	} {
		url := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
		})
		o := send(t, url, 10*time.Second)
		if o.Status != c.status || o.Failure != c.failure || o.Gone != c.gone || o.RetryAfter < c.least || o.RetryAfter > c.most {
			t.Errorf("%d with %q: %+v", c.status, c.after, o)
		}
	}
}

func TestAnEndlessAnswerIsNotReadToTheEnd(t *testing.T) {
	url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	if o := send(t, url, 20*time.Second); !o.OK() || len(o.Answer) != keptAnswer {
		t.Errorf("status %d, failure %q, %d bytes kept", o.Status, o.Failure, len(o.Answer))
	}
}

func TestACompressedAnswerIsNotInflated(t *testing.T) {
	url := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 10<<20))
		_ = z.Close()
	})
	if o := send(t, url, 20*time.Second); !o.OK() || strings.HasPrefix(o.Answer, "\x00\x00") {
		t.Errorf("%+v", o)
	}
}

func TestReceiversThatGiveNoAnswer(t *testing.T) {
	cut := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	})
	silent := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	drip := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		url, failure string
		timeout      time.Duration
	}{
		"reset":            {cut, FailedReset, 10 * time.Second},
		"silent":           {silent, FailedTimeout, 300 * time.Millisecond},
		"never ends":       {drip, FailedTimeout, 300 * time.Millisecond},
		"nobody there":     {"http://127.0.0.1:1/", FailedConnect, 10 * time.Second},
		"bad certificate":  {secure.URL, FailedTLS, 10 * time.Second},
		"not TLS":          {strings.Replace(cut, "http:", "https:", 1), FailedTLS, 10 * time.Second},
		"no such name":     {"https://no-such-name.invalid/", FailedConnect, 10 * time.Second},
		"not a URL at all": {"http://%zz", FailedConnect, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if o := send(t, c.url, c.timeout); o.Failure != c.failure {
				t.Errorf("%+v, want %s", o, c.failure)
			}
		})
	}
}

func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	s := newClient(NewGuard(), true, nil)
	if s.Transport.(*http.Transport).Proxy != nil {
		t.Error("the transport has a proxy")
	}
	url := receiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if o := send(t, url, 10*time.Second); !o.OK() {
		t.Errorf("%+v", o)
	}
}

func TestABatchGoesOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s := NewSender("millrace/test", NewGuard(netip.MustParsePrefix("127.0.0.0/8")))
	s.secure = newClient(NewGuard(netip.MustParsePrefix("127.0.0.0/8")), true, roots)
	t.Cleanup(s.Close)
	o := s.Send(context.Background(), Delivery{URL: server.URL, ID: "b", Secrets: []string{NewSecret()}, Timeout: 10 * time.Second})
	if !o.OK() {
		t.Errorf("%+v", o)
	}
}
