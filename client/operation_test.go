package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

var (
	storedOperation = millrace.TrackedOperation{ID: "Zt8", Operation: millrace.Operation{
		Queue: "sync", Tenant: "u1", Type: "MANUAL", Subject: "link:456", Event: "01K0E", Payload: []byte(`{ "n" : 1.0 }`), Status: millrace.OperationRunning, Attempts: 2,
		QueuedAt: moment, StartedAt: moment.Add(time.Second), Progress: &millrace.Progress{Percent: 40, Note: "cloning\n"}, Error: "boom", CancelRequested: true,
	}}
	storedCounts = millrace.OperationCounts{
		Queue: "sync", Bucket: millrace.Hours, Since: moment.Truncate(time.Hour), Until: moment.Truncate(time.Hour).Add(time.Hour), Total: millrace.Tally{Success: 9, Error: 8, Cancelled: 7, Retried: 6},
		Counts: []millrace.OperationCount{{
			At: moment.Truncate(time.Hour), Tally: millrace.Tally{Success: 1, Error: 2, Cancelled: 3, Retried: 4},
			Queued: millrace.Spans{}, Running: millrace.Spans{millrace.SpanIndex(40): 50, millrace.SpanIndex(90): 50},
		}},
	}
	storedTrigger = millrace.Trigger{Name: "resync", Version: 2, Fired: 3, LastAt: moment, Spec: millrace.TriggerSpec{
		PerMinute: 60, Enabled: true, Operation: &millrace.OperationRequest{Queue: "sync", Type: "MANUAL", Subject: "link:456", Payload: []byte(`{"a": 1}`), Delay: time.Minute},
	}}
)

func finishedOperation() millrace.TrackedOperation {
	o := storedOperation
	o.Status, o.FinishedAt, o.ExpiresAt, o.Output, o.Progress = millrace.OperationSuccess, moment, moment.Add(time.Hour), []byte(`[1]`), nil
	return o
}

func (s *scripted) Operations() millrace.OperationService { return scriptedOperations{s} }
func (s *scripted) Triggers() millrace.TriggerService     { return scriptedTriggers{s} }

type scriptedOperations struct{ *scripted }

func (s scriptedOperations) Start(_ context.Context, r millrace.OperationRequest) (millrace.StartedOperation, error) {
	return millrace.StartedOperation{ID: "Zt8", Status: millrace.OperationRunning, Existing: true}, s.note("start %+v", r)
}

func (s scriptedOperations) Get(_ context.Context, id string) (millrace.TrackedOperation, error) {
	return storedOperation, s.note("get operation %q", id)
}

func (s scriptedOperations) Await(_ context.Context, id string, seen millrace.OperationStatus, wait time.Duration) (millrace.TrackedOperation, error) {
	return storedOperation, s.note("await %q %q %s", id, seen, wait)
}

func (s scriptedOperations) Watch(_ context.Context, id string) (iter.Seq2[millrace.TrackedOperation, error], error) {
	if err := s.note("watch %q", id); err != nil {
		return nil, err
	}
	return func(yield func(millrace.TrackedOperation, error) bool) {
		_ = yield(storedOperation, nil) && yield(finishedOperation(), nil)
	}, nil
}

func (s scriptedOperations) List(_ context.Context, q millrace.OperationQuery) ([]millrace.TrackedOperation, string, error) {
	return []millrace.TrackedOperation{storedOperation, finishedOperation()}, "", s.note("list operations %+v", q)
}

func (s scriptedOperations) Cancel(_ context.Context, id string) (millrace.TrackedOperation, error) {
	return storedOperation, s.note("cancel operation %q", id)
}

func (s scriptedOperations) Report(_ context.Context, id, receipt string, p millrace.Progress) error {
	return s.note("report %q %q %+v", id, receipt, p)
}

func (s scriptedOperations) Counts(_ context.Context, q millrace.OperationCountQuery) (millrace.OperationCounts, error) {
	return storedCounts, s.note("counts %+v", q)
}

type scriptedTriggers struct{ *scripted }

func (s scriptedTriggers) Put(_ context.Context, name string, spec millrace.TriggerSpec) (millrace.Trigger, bool, error) {
	t := storedTrigger
	t.Secret = "2Fq"
	return t, true, s.note("put trigger %q %+v %+v", name, spec.Operation, spec.Event)
}

func (s scriptedTriggers) Get(_ context.Context, name string) (millrace.Trigger, error) {
	return storedTrigger, s.note("get trigger %q", name)
}

func (s scriptedTriggers) List(_ context.Context, page millrace.Page) ([]millrace.Trigger, string, error) {
	return []millrace.Trigger{storedTrigger}, "", s.note("list triggers %+v", page)
}

func (s scriptedTriggers) Delete(_ context.Context, name string) error {
	return s.note("delete trigger %q", name)
}

func (s scriptedTriggers) Rotate(_ context.Context, name string) (millrace.Trigger, error) {
	t := storedTrigger
	t.Secret = "3Gr"
	return t, s.note("rotate trigger %q", name)
}

func (s scriptedTriggers) Fire(_ context.Context, secret string, request []byte) (millrace.TriggerResult, error) {
	return millrace.TriggerResult{Event: &millrace.Published{ID: "a-1", Seq: 41, Prev: 38, HasKey: true, Sinks: 3}}, s.note("fire %q %q", secret, request)
}

// operationCalls is every method of operations and triggers.
func operationCalls() map[string]func(millrace.Backbone) []any {
	ctx := context.Background()
	page := millrace.Page{Limit: 7}
	return map[string]func(millrace.Backbone) []any{
		"start operation": func(b millrace.Backbone) []any {
			return list(b.Operations().Start(ctx, millrace.OperationRequest{Queue: "sync", Type: "MANUAL", Subject: "link:456", Tenant: "u1", Payload: []byte(`{ "n" : 1.0 }`), DedupeKey: "k", Delay: time.Second}))
		},
		"get operation":   func(b millrace.Backbone) []any { return list(b.Operations().Get(ctx, "Zt8")) },
		"await operation": func(b millrace.Backbone) []any { return list(b.Operations().Await(ctx, "Zt8", "QUEUED", time.Second)) },
		"watch operation": func(b millrace.Backbone) []any { return watchedOperation(b, "Zt8") },
		"list operations": func(b millrace.Backbone) []any {
			return list3(b.Operations().List(ctx, millrace.OperationQuery{Subject: "a:b/c", Queue: "sync", Status: "ERROR", Tenant: "u1", Page: page}))
		},
		"cancel operation": func(b millrace.Backbone) []any { return list(b.Operations().Cancel(ctx, "Zt8")) },
		"report": func(b millrace.Backbone) []any {
			return []any{b.Operations().Report(ctx, "Zt8", "q5J", millrace.Progress{Percent: 40, Note: "ü"})}
		},
		"counts": func(b millrace.Backbone) []any {
			return list(b.Operations().Counts(ctx, millrace.OperationCountQuery{Queue: "sync", Bucket: millrace.Hours, Since: moment, Until: moment.Add(time.Hour)}))
		},
		"ack with an output": func(b millrace.Backbone) []any {
			return list(b.Queues().Ack(ctx, "sync", millrace.Settlement{Receipt: "q5J", Output: []byte(`{ "pr" : 12 }`)}, millrace.Settlement{Receipt: "q6K"}))
		},
		"put trigger":    func(b millrace.Backbone) []any { return list3(b.Triggers().Put(ctx, "resync", storedTrigger.Spec)) },
		"get trigger":    func(b millrace.Backbone) []any { return list(b.Triggers().Get(ctx, "resync")) },
		"list triggers":  func(b millrace.Backbone) []any { return list3(b.Triggers().List(ctx, page)) },
		"delete trigger": func(b millrace.Backbone) []any { return []any{b.Triggers().Delete(ctx, "resync")} },
		"rotate trigger": func(b millrace.Backbone) []any { return list(b.Triggers().Rotate(ctx, "resync")) },
		"fire trigger":   func(b millrace.Backbone) []any { return list(b.Triggers().Fire(ctx, "2Fq", []byte(`{"ref": "main"}`))) },
	}
}

func list[A any](a A, err error) []any          { return []any{a, err} }
func list3[A, B any](a A, b B, err error) []any { return []any{a, b, err} }

// watchedOperation is all that a watch shows, and why it ended.
func watchedOperation(b millrace.Backbone, id string) []any {
	items, err := b.Operations().Watch(context.Background(), id)
	if err != nil {
		return []any{err}
	}
	var all []millrace.TrackedOperation
	for o, err := range items {
		if err != nil {
			return []any{all, err}
		}
		all = append(all, o)
	}
	return []any{all, nil}
}

func TestEveryMethodOfOperationsMeansTheSameThroughTheClient(t *testing.T) {
	direct, served := &scripted{}, &scripted{}
	c := connect(t, served, Options{Token: "secret"}, nil)
	for name, ask := range operationCalls() {
		want, got := ask(direct), ask(c)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: results (-in-process +remote):\n%s", name, diff)
		}
		if diff := cmp.Diff(direct.taken(), served.taken()); diff != "" {
			t.Errorf("%s: asked (-in-process +remote):\n%s", name, diff)
		}
	}
}

func TestEveryErrorOfOperationsIsTheSameThroughTheClient(t *testing.T) {
	for _, code := range []millrace.Code{millrace.CodeNotFound, millrace.CodeNotTracked, millrace.CodeFinished, millrace.CodeLost, millrace.CodeRateLimited} {
		failure := &millrace.Error{Code: code, Detail: "so it is"}
		if code == millrace.CodeRateLimited {
			failure.RetryAfter = 1500 * time.Millisecond
		}
		c := connect(t, &scripted{err: failure}, Options{RetryFor: -1}, nil)
		for name, ask := range operationCalls() {
			got := ask(c)
			err, _ := got[len(got)-1].(error)
			var e *millrace.Error
			if !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s: %v", name, err)
			} else if code == millrace.CodeRateLimited && name != "watch operation" && e.RetryAfter != 2*time.Second {
				t.Errorf("%s: again after %s", name, e.RetryAfter)
			}
		}
	}
}

// A call whose answer is lost is repeated only where that does nothing twice.
func TestOnlyWhatIsSafeIsAskedAgain(t *testing.T) {
	for name, want := range map[string]int64{
		"start operation": 2, "start without a key": 1, "get operation": 2, "await operation": 2, "list operations": 2, "cancel operation": 2, "report": 2, "counts": 2,
		"put trigger": 1, "get trigger": 2, "list triggers": 2, "delete trigger": 2, "rotate trigger": 1, "fire trigger": 1,
	} {
		calls := operationCalls()
		calls["start without a key"] = func(b millrace.Backbone) []any {
			return list(b.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "sync", Type: "MANUAL"}))
		}
		var asked atomic.Int64
		c := connect(t, &scripted{}, Options{}, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					panic(http.ErrAbortHandler) // it was carried out, for all that the caller knows
				}
				h.ServeHTTP(w, r)
			})
		})
		got := calls[name](c)
		if err, failed := got[len(got)-1].(error); failed != (want == 1) || asked.Load() != want {
			t.Errorf("%s: asked %d times, want %d: %v", name, asked.Load(), want, err)
		}
	}
}

func TestACancelThatIsAskedAgainFindsWhatItDid(t *testing.T) {
	b := openBroker(t)
	var cancels atomic.Int64
	c := connect(t, b, Options{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if r.Method == http.MethodPost && r.URL.Path != "/v1/operations" && cancels.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
		})
	})
	spec := millrace.DefaultQueueSpec("x")
	spec.Tracked = true
	if _, _, err := b.Queues().Put(t.Context(), "sync", spec); err != nil {
		t.Fatal(err)
	}
	started, err := c.Operations().Start(t.Context(), millrace.OperationRequest{Queue: "sync", Type: "MANUAL"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Operations().Cancel(t.Context(), started.ID)
	if err != nil || o.Status != millrace.OperationCancelled {
		t.Errorf("%s, %v", o.Status, err)
	}
	if _, err := c.Operations().Cancel(t.Context(), started.ID); millrace.CodeOf(err) != millrace.CodeFinished {
		t.Errorf("then %v", err)
	}
}

func TestAnOutputThatIsNoJSONIsNotSent(t *testing.T) {
	served := &scripted{}
	c := connect(t, served, Options{}, nil)
	for _, bad := range []string{"{", `1},{"receipt":"q6K"`} {
		if _, err := c.Queues().Ack(t.Context(), "sync", millrace.Settlement{Receipt: "q5J", Output: []byte(bad)}); millrace.CodeOf(err) != millrace.CodeInvalid || len(served.taken()) != 0 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAWatchThatBreaksBeforeTheEndSaysSo(t *testing.T) {
	c := connect(t, &scripted{}, Options{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(": open\n\nevent: operation\ndata: {\"id\":\"Zt8\",\"status\":\"RUNNING\"}\n\n"))
		})
	})
	got := watchedOperation(c, "Zt8")
	if err, _ := got[1].(error); millrace.CodeOf(err) != millrace.CodeUnavailable || len(got[0].([]millrace.TrackedOperation)) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestATriggersSecretIsNotInTheErrorOfACallThatFailed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	url := server.URL
	c := dial(t, url, Options{})
	_, err := c.Triggers().Fire(t.Context(), "s3cret", nil)
	if millrace.CodeOf(err) != millrace.CodeOutcomeUnknown || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("cut off: %v", err)
	}
	server.Close()
	if _, err = c.Triggers().Fire(t.Context(), "s3cret", nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("unreachable: %v", err)
	}
}
