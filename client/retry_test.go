package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// failing answers the first n requests with what fail does, and then serves.
func failing(n int64, count *atomic.Int64, fail func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if count.Add(1) <= n {
				fail(w, r, h)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

func answerWith(code millrace.Code) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(api.StatusOf(code))
		_, _ = w.Write(api.AppendProblem(nil, millrace.Errorf(code, "not now"), "r"))
	}
}

// cutAfter serves the request and then cuts the connection instead of answering.
func cutAfter(_ http.ResponseWriter, r *http.Request, h http.Handler) {
	h.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func TestASafeCallIsRepeatedUntilTheServerIsBack(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"unavailable": answerWith(millrace.CodeUnavailable), "draining": answerWith(millrace.CodeDraining), "cut": cutAfter,
	} {
		t.Run(name, func(t *testing.T) {
			b := openBroker(t)
			if _, _, err := b.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(".")); err != nil {
				t.Fatal(err)
			}
			for _, do := range []func(c *Client) error{
				func(c *Client) error {
					_, err := c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"})
					return err
				},
				func(c *Client) error { _, err := c.Stats(ctx); return err },
				func(c *Client) error {
					_, _, err := c.Queues().Put(ctx, "sms", millrace.DefaultQueueSpec("x"))
					return err
				},
				func(c *Client) error {
					_, err := c.Queues().Ack(ctx, "emails", millrace.Settlement{Receipt: "x"})
					return err
				},
				func(c *Client) error { return c.Queues().Delete(ctx, "sms", false) },
			} {
				var count atomic.Int64
				c := connect(t, b, Options{}, failing(2, &count, fail))
				if err := do(c); err != nil || count.Load() != 3 {
					t.Errorf("after %d tries: %v", count.Load(), err)
				}
			}
			if n := must[millrace.Queue](t)(b.Queues().Get(ctx, "emails")).Ready; n != 1 {
				t.Errorf("the event is there %d times", n)
			}
		})
	}
}

func TestARepeatedPublishAnswersAsADuplicate(t *testing.T) {
	var count atomic.Int64
	c := connect(t, openBroker(t), Options{}, failing(1, &count, cutAfter))
	r := must[[]millrace.Published](t)(c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"}))
	if !r[0].Duplicate || r[0].Seq == 0 {
		t.Errorf("got %+v", r)
	}
}

func TestWhatIsNotSafeOrNotPassingIsNotRepeated(t *testing.T) {
	b := openBroker(t)
	for name, k := range map[string]struct {
		code millrace.Code
		do   func(c *Client) error
	}{
		"lease":    {millrace.CodeUnavailable, func(c *Client) error { _, err := c.Queues().Lease(ctx, "q", millrace.LeaseOptions{}); return err }},
		"full":     {millrace.CodeStoreFull, func(c *Client) error { _, err := c.Publish(ctx, millrace.Event{Topic: "a", Type: "b"}); return err }},
		"internal": {millrace.CodeInternal, func(c *Client) error { _, err := c.Stats(ctx); return err }},
		"unknown":  {millrace.CodeOutcomeUnknown, func(c *Client) error { _, err := c.Publish(ctx, millrace.Event{Topic: "a", Type: "b"}); return err }},
	} {
		var count atomic.Int64
		c := connect(t, b, Options{}, failing(100, &count, answerWith(k.code)))
		if err := k.do(c); millrace.CodeOf(err) != k.code || count.Load() != 1 {
			t.Errorf("%s: %d tries, %v", name, count.Load(), err)
		}
	}
}

func TestRepeatingEndsWithTheBudgetOrTheContext(t *testing.T) {
	var count atomic.Int64
	down := failing(1<<60, &count, answerWith(millrace.CodeUnavailable))
	b := openBroker(t)
	none := connect(t, b, Options{RetryFor: -1}, down)
	if _, err := none.Stats(ctx); !errors.Is(err, millrace.ErrUnavailable) || count.Load() != 1 {
		t.Errorf("%d tries, %v", count.Load(), err)
	}
	short := connect(t, b, Options{RetryFor: 200 * time.Millisecond}, down)
	start := time.Now()
	if _, err := short.Stats(ctx); !errors.Is(err, millrace.ErrUnavailable) || time.Since(start) > 5*time.Second || count.Load() < 3 {
		t.Errorf("%d tries, %v", count.Load(), err)
	}
	patient := connect(t, b, Options{RetryFor: time.Hour}, down)
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := patient.Stats(brief); !errors.Is(err, millrace.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAServerACallSaysSo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, url, Options{RetryFor: -1})
	if _, err := c.Publish(ctx, millrace.Event{Topic: "a", Type: "b"}); !errors.Is(err, millrace.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestACallWithoutAnAnswerHasAnUnknownOutcome(t *testing.T) {
	var count atomic.Int64
	c := connect(t, openBroker(t), Options{RetryFor: -1}, failing(100, &count, cutAfter))
	if _, err := c.Publish(ctx, millrace.Event{Topic: "a", Type: "b"}); !errors.Is(err, millrace.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Stats(ctx); !errors.Is(err, millrace.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestALeaseEndsWithItsContext(t *testing.T) {
	c := connect(t, openBroker(t), Options{}, nil)
	if _, _, err := c.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(".")); err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.Queues().Lease(brief, "emails", millrace.LeaseOptions{Wait: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	var count atomic.Int64
	c := connect(t, openBroker(t), Options{Timeout: 50 * time.Millisecond, RetryFor: -1}, failing(100, &count, func(http.ResponseWriter, *http.Request, http.Handler) { <-release }))
	t.Cleanup(func() { close(release) })
	if _, err := c.Stats(ctx); !errors.Is(err, millrace.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestEventsOfSeveralTopicsGoInOneCall(t *testing.T) {
	b := openBroker(t)
	var count atomic.Int64
	c := connect(t, b, Options{}, failing(0, &count, nil))
	r := must[[]millrace.Published](t)(c.Publish(ctx,
		millrace.Event{ID: "1", Topic: "a", Type: "x"}, millrace.Event{ID: "2", Topic: "b", Type: "x"}, millrace.Event{ID: "3", Topic: "a", Type: "x"}))
	if r[0].ID != "1" || r[1].ID != "2" || r[2].ID != "3" || r[2].Seq == 0 || count.Load() != 2 {
		t.Errorf("%d requests: %+v", count.Load(), r)
	}
}

func TestEventsThatDoNotFitOneRequestGoInSeveral(t *testing.T) {
	b := openBroker(t)
	var count atomic.Int64
	c := connect(t, b, Options{}, failing(0, &count, nil))
	events := make([]millrace.Event, 20)
	for i := range events {
		events[i] = millrace.Event{Topic: "a", Type: "x", ContentType: "text/plain", Data: make([]byte, 250<<10)}
	}
	r := must[[]millrace.Published](t)(c.Publish(ctx, events...))
	if len(r) != 20 || r[19].Seq <= r[0].Seq || count.Load() != 2 {
		t.Errorf("%d requests for %d events", count.Load(), len(r))
	}
	if events[0].ID != "" {
		t.Error("the caller's events have changed")
	}
}

func TestAPublishThatFailsHalfWayIsPartlyCommitted(t *testing.T) {
	b := openBroker(t)
	refuse := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/topics/b/") {
				answerWith(millrace.CodeStoreFull)(w, r, h)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	c := connect(t, b, Options{}, refuse)
	_, err := c.Publish(ctx, millrace.Event{ID: "1", Topic: "a", Type: "x"}, millrace.Event{ID: "2", Topic: "b", Type: "x"}, millrace.Event{ID: "3", Topic: "c", Type: "x"})
	var e *millrace.Error
	if !errors.As(err, &e) || e.Code != millrace.CodePartlyCommitted || len(e.Events) != 3 {
		t.Fatalf("got %v", err)
	}
	if e.Events[0].Err != nil || e.Events[0].Seq == 0 || !errors.Is(e.Events[1].Err, millrace.ErrStoreFull) || !errors.Is(e.Events[2].Err, millrace.ErrUnavailable) {
		t.Errorf("got %+v", e.Events)
	}
	_, err = c.Publish(ctx, millrace.Event{ID: "4", Topic: "b", Type: "x"}, millrace.Event{ID: "5", Topic: "a", Type: "x"})
	if !errors.Is(err, millrace.ErrStoreFull) {
		t.Errorf("nothing was stored, but: %v", err)
	}
}

func TestAPartlyCommittedAnswerKeepsItsEvents(t *testing.T) {
	var count atomic.Int64
	partly := &millrace.Error{Code: millrace.CodePartlyCommitted, Detail: "some", Events: []millrace.Published{{ID: "1", Seq: 7}, {ID: "2", Err: millrace.ErrUnavailable}}}
	c := connect(t, openBroker(t), Options{}, failing(9, &count, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write(api.AppendProblem(nil, partly, "r"))
	}))
	_, err := c.Publish(ctx, millrace.Event{ID: "1", Topic: "a", Type: "x"}, millrace.Event{ID: "2", Topic: "a", Type: "x"})
	var e *millrace.Error
	if !errors.As(err, &e) || e.Code != millrace.CodePartlyCommitted || len(e.Events) != 2 || e.Events[0].Seq != 7 || !errors.Is(e.Events[1].Err, millrace.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerThatIsNotUnderstoodIsAnInternalError(t *testing.T) {
	for _, text := range []string{"<html>", `{"events":7}`, `{"events":[]}`, "[]", ""} {
		c := connect(t, openBroker(t), Options{}, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
		})
		if _, err := c.Publish(ctx, millrace.Event{Topic: "a", Type: "b"}); millrace.CodeOf(err) != millrace.CodeInternal {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	c := connect(t, openBroker(t), Options{}, func(http.Handler) http.Handler { return http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect) })
	if _, err := c.Stats(ctx); err == nil || stolen.Load() != 0 {
		t.Errorf("followed %d times: %v", stolen.Load(), err)
	}
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	c := connect(t, openBroker(t), Options{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			chunk := make([]byte, 1<<20)
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})
	})
	if _, err := c.Stats(ctx); millrace.CodeOf(err) != millrace.CodeInternal {
		t.Errorf("got %v", err)
	}
}
