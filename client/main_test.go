package client

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheClientKnowsTheWordsAndTheWire(t *testing.T) {
	importguard.Check(t, ".", "api", "internal/tracing")
}

func openBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Open(context.Background(), "memory:", broker.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// connect serves a broker, behind around if it is given, and returns a client of it.
func connect(t *testing.T, b httpapi.Backend, o Options, around func(http.Handler) http.Handler) *Client {
	t.Helper()
	h := httpapi.Handler(b, httpapi.Options{RootToken: o.Token, Logger: slog.New(slog.DiscardHandler)})
	if around != nil {
		h = around(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return dial(t, server.URL, o)
}

func dial(t *testing.T, url string, o Options) *Client {
	t.Helper()
	c, err := New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
