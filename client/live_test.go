package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

// watched is what a backbone shows for a filter, and how it ends.
func watched(b millrace.Backbone, f millrace.LiveFilter) (items []millrace.LiveItem, end error) {
	seq, err := b.Live(ctx, f)
	if err != nil {
		return nil, err
	}
	for item, err := range seq {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

func TestLiveMeansTheSameThroughTheClient(t *testing.T) {
	direct, served := &scripted{}, &scripted{}
	c := connect(t, served, Options{Token: "secret"}, nil)
	for _, f := range []millrace.LiveFilter{{}, {Match: ":orders:[a&b=]+", Tenant: "acme", Key: "a:1/ü #?"}} {
		want, wantEnd := watched(direct, f)
		got, gotEnd := watched(c, f)
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
			t.Errorf("items (-in-process +remote):\n%s", diff)
		}
		if millrace.CodeOf(gotEnd) != millrace.CodeOf(wantEnd) || gotEnd == nil {
			t.Errorf("in-process %v, remote %v", wantEnd, gotEnd)
		}
		if diff := cmp.Diff(direct.taken(), served.taken()); diff != "" {
			t.Errorf("asked (-in-process +remote):\n%s", diff)
		}
	}
}

func TestAWatchThatIsRefusedSaysWhy(t *testing.T) {
	c := connect(t, &scripted{err: millrace.Errorf(millrace.CodeDraining, "so it is")}, Options{}, nil)
	if _, err := c.Live(ctx, millrace.LiveFilter{}); millrace.CodeOf(err) != millrace.CodeDraining {
		t.Errorf("got %v", err)
	}
	if _, err := c.Live(ctx, millrace.LiveFilter{Match: "(", Tenant: "a:b"}); millrace.CodeOf(err) != millrace.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

func TestAWatchOfABrokerSeesWhatIsPublishedAfterItStands(t *testing.T) {
	b := openBroker(t)
	c := connect(t, b, Options{}, nil)
	if _, err := c.Publish(ctx, millrace.Event{Topic: "orders", Type: "before"}); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithCancel(t.Context())
	defer cancel()
	seq, err := c.Live(within, millrace.LiveFilter{Match: ":orders:"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, millrace.Event{ID: "a-1", Topic: "orders", Type: "created", Key: "k", Data: []byte(`{ "n":1 }`)}); err != nil {
		t.Fatal(err)
	}
	for item, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if e := item.Event; e.ID != "a-1" || string(e.Data) != `{ "n":1 }` || e.Seq == 0 {
			t.Errorf("got %+v", item)
		}
		cancel()
	}
}

// streaming answers with a stream of the test's own making.
func streaming(t *testing.T, send func(w io.Writer)) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send(w)
	}))
	t.Cleanup(server.Close)
	return dial(t, server.URL, Options{})
}

func TestWhatIsNotKnownInAStreamIsPassedOver(t *testing.T) {
	c := streaming(t, func(w io.Writer) {
		_, _ = fmt.Fprint(w, ": open\n\n: beat\n\nretry: 10\nevent: other\ndata: x\n\nnonsense\n\nevent: missed\ndata: {\"missed\":\ndata: 3,\"more\":1}\n\nevent: missed\ndata: {\"mis")
	})
	items, err := watched(c, millrace.LiveFilter{})
	if len(items) != 1 || items[0].Missed != 3 || millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("got %v, %v", items, err)
	}
}

func TestAStreamWithoutAnOpenOrABoundIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "no open": "event: missed\n\n", "page": "<html>"} {
		c := streaming(t, func(w io.Writer) { _, _ = io.WriteString(w, text) })
		if _, err := c.Live(ctx, millrace.LiveFilter{}); millrace.CodeOf(err) != millrace.CodeUnavailable {
			t.Errorf("%s: got %v", name, err)
		}
	}
	line := strings.Repeat("x", maxFrame)
	for name, text := range map[string]string{"line": "data: " + line, "lines": "data: " + line[:maxFrame/2] + "\ndata: " + line[:maxFrame/2] + "\ndata: x\n\n", "text": "event: event\ndata: x\n\n"} {
		c := streaming(t, func(w io.Writer) { _, _ = io.WriteString(w, ": open\n\n"+text) })
		if items, err := watched(c, millrace.LiveFilter{}); len(items) != 0 || err == nil {
			t.Errorf("%s: got %v, %v", name, items, err)
		}
	}
}

func TestAServerThatNeverAnswersAWatchIsGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	c := dial(t, server.URL, Options{Timeout: 50 * time.Millisecond})
	_, err := c.Live(ctx, millrace.LiveFilter{})
	if millrace.CodeOf(err) != millrace.CodeUnavailable || !errors.Is(err, errSilent) {
		t.Errorf("got %v", err)
	}
}

func TestACallerThatTakesItsTimeIsNotToldThatTheServerIsSilent(t *testing.T) {
	c := streaming(t, func(w io.Writer) {
		_, _ = io.WriteString(w, ": open\n\n"+strings.Repeat("event: missed\ndata: {\"missed\":3}\n\n", 2))
	})
	c.silence = 50 * time.Millisecond
	seq, err := c.Live(ctx, millrace.LiveFilter{})
	if err != nil {
		t.Fatal(err)
	}
	items := 0
	for _, err = range seq {
		if err == nil {
			items++
			time.Sleep(4 * c.silence) // nothing must come of it
		}
	}
	if items != 2 || errors.Is(err, errSilent) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after %d items: %v", items, err)
	}
}

func TestAStreamWhoseServerGoesSilentEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, ": open\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	c := dial(t, server.URL, Options{})
	c.silence = 50 * time.Millisecond
	if items, err := watched(c, millrace.LiveFilter{}); len(items) != 0 || millrace.CodeOf(err) != millrace.CodeUnavailable || !errors.Is(err, errSilent) {
		t.Errorf("got %v, %v", items, err)
	}
}
