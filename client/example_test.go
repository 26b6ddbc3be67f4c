package client

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "api", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// asked is what a server was asked.
type asked struct{ method, uri, body string }

// saying returns a client of a server that gives one answer, and what it is asked.
func saying(t *testing.T, status int, answer string) (*Client, func() asked) {
	t.Helper()
	var last atomic.Pointer[asked]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		last.Store(&asked{r.Method, r.RequestURI, string(body)})
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return dial(t, server.URL+"/", Options{}), func() asked { return *last.Load() }
}

func TestTheClientAsksAsInTheExamples(t *testing.T) {
	delay := 10 * time.Second
	retry := []millrace.Settlement{{Receipt: "q5J", Delay: &delay, Error: "boom"}, {Receipt: "q6K", Error: "bang"}}
	for _, c := range []struct {
		answer string
		do     func(c *Client) error
		want   asked
	}{
		{"queue_out", func(c *Client) error {
			_, _, err := c.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(":email_event:"))
			return err
		}, asked{"PUT", "/v1/queues/emails", example(t, "queue_in")}},
		{"queues", func(c *Client) error {
			_, _, err := c.Queues().List(ctx, millrace.Page{Limit: 2, Cursor: "b3JkZXJz"})
			return err
		},
			asked{"GET", "/v1/queues?cursor=b3JkZXJz&limit=2", ""}},
		{"lease_out", func(c *Client) error {
			_, err := c.Queues().Lease(ctx, "emails", millrace.LeaseOptions{Max: 1, Wait: time.Second, Lease: 30 * time.Second})
			return err
		}, asked{"POST", "/v1/queues/emails/lease", `{"max":1,"wait":"1s","lease":"30s"}`}},
		{"settled", func(c *Client) error { _, err := c.Queues().Retry(ctx, "emails", retry...); return err },
			asked{"POST", "/v1/queues/emails/retry", example(t, "retry_in")}},
		{"extended", func(c *Client) error {
			_, err := c.Queues().Extend(ctx, "emails", time.Minute, "q5J", "q6K")
			return err
		},
			asked{"POST", "/v1/queues/emails/extend", example(t, "extend_in")}},
		{"topic", func(c *Client) error { _, err := c.Topics().Put(ctx, "orders", "shop"); return err },
			asked{"PUT", "/v1/topics/orders", example(t, "topic_in")}},
		{"stats", func(c *Client) error { _, err := c.Stats(ctx); return err }, asked{"GET", "/v1/stats", ""}},
		{"nodes", func(c *Client) error { _, err := c.Nodes(ctx); return err }, asked{"GET", "/v1/nodes", ""}},
	} {
		client, last := saying(t, http.StatusOK, example(t, c.answer))
		if err := c.do(client); err != nil {
			t.Errorf("%s: %v", c.answer, err)
		}
		equal(t, last().body, c.want.body)
		if got := last(); got.method != c.want.method || got.uri != c.want.uri {
			t.Errorf("asked %s %s, want %s %s", got.method, got.uri, c.want.method, c.want.uri)
		}
	}
}

func TestAProblemBecomesTheErrorOfItsCodeWithItsFaults(t *testing.T) {
	client, _ := saying(t, http.StatusUnprocessableEntity, example(t, "problem"))
	_, err := client.Stats(ctx)
	want := "invalid: 2 faults; body[1].tenant must not contain ':'; query.limit must be at most 1000"
	if millrace.CodeOf(err) != millrace.CodeInvalid || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
