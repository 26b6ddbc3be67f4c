package redis

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// slowCalls is a gatherer whose calls wait until they are let go.
type slowCalls struct {
	gatherer[int, int]
	batches chan []int
	release chan struct{}
	wg      sync.WaitGroup
}

func newSlowCalls(limit int) *slowCalls {
	s := &slowCalls{batches: make(chan []int, 100), release: make(chan struct{})}
	s.gatherer = gatherer[int, int]{
		ctx: context.Background(), wg: &s.wg,
		take: func(waiting []*request[int, int]) int { return min(limit, len(waiting)) },
		call: func(_ context.Context, batch []*request[int, int]) {
			var asks []int
			for _, r := range batch {
				asks = append(asks, r.ask)
				r.answer = 10 * r.ask
			}
			s.batches <- asks
			<-s.release
		},
	}
	return s
}

// begin hands requests in and waits until they are there.
func (s *slowCalls) begin(ctx context.Context, t *testing.T, ask int, waiting int) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		got, err := s.do(ctx, ask)
		if err == nil && got != 10*ask {
			err = millrace.Errorf(millrace.CodeInternal, "got %d", got)
		}
		done <- err
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(5 * time.Second); ; {
		s.mu.Lock()
		n := len(s.waiting)
		s.mu.Unlock()
		if n == waiting {
			return done
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d requests wait, want %d", n, waiting)
		}
	}
}

func TestRequestsGatherWhileCallsAreInFlight(t *testing.T) {
	s := newSlowCalls(100)
	var outcomes []<-chan error
	for i := range inFlight {
		outcomes = append(outcomes, s.begin(t.Context(), t, i, 0))
		if got := <-s.batches; len(got) != 1 {
			t.Errorf("call %d has %v", i, got)
		}
	}
	for i := range 5 {
		outcomes = append(outcomes, s.begin(t.Context(), t, 10+i, i+1))
	}
	s.release <- struct{}{}
	if got := <-s.batches; len(got) != 5 {
		t.Errorf("gathered %v, want all 5", got)
	}
	close(s.release)
	for _, done := range outcomes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s.wg.Wait()
}

func TestARequestGivenUpBeforeItsCallDidNotHappen(t *testing.T) {
	s := newSlowCalls(1)
	ctx, cancel := context.WithCancel(t.Context())
	var flying []<-chan error
	for i := range inFlight {
		flying = append(flying, s.begin(ctx, t, i, 0))
		<-s.batches
	}
	waiting := s.begin(ctx, t, 7, 1)
	cancel()
	if err := <-waiting; millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("waiting: %v", err)
	}
	for _, done := range flying {
		if err := <-done; millrace.CodeOf(err) != millrace.CodeOutcomeUnknown {
			t.Errorf("in flight: %v", err)
		}
	}
	close(s.release)
	s.wg.Wait()
	if len(s.batches) != 0 {
		t.Errorf("%v was sent though it was withdrawn", <-s.batches)
	}
}

func TestAClosedGathererRefusesWhatWaits(t *testing.T) {
	s := newSlowCalls(1)
	for i := range inFlight {
		s.begin(t.Context(), t, i, 0)
		<-s.batches
	}
	waiting := s.begin(t.Context(), t, 7, 1)
	s.close()
	if err := <-waiting; millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("waiting: %v", err)
	}
	if _, err := s.do(t.Context(), 8); millrace.CodeOf(err) != millrace.CodeUnavailable {
		t.Errorf("after: %v", err)
	}
	close(s.release)
	s.wg.Wait()
}

func TestACallIsBoundedAndOfOneTime(t *testing.T) {
	request := func(now time.Time, events, queues, bytes int) *commitRequest {
		c := millrace.Commit{Now: now}
		for range events {
			c.Events = append(c.Events, millrace.CommitEvent{Body: make([]byte, bytes), Queues: make([]string, queues)})
		}
		return &commitRequest{ask: c}
	}
	now := time.UnixMilli(1_800_000_000_000)
	many := func(n int, r *commitRequest) []*commitRequest {
		list := make([]*commitRequest, n)
		for i := range list {
			list[i] = r
		}
		return list
	}
	for name, c := range map[string]struct {
		waiting []*commitRequest
		want    int
	}{
		"requests":  {many(150, request(now, 1, 1, 1)), maxRequests},
		"bytes":     {many(10, request(now, 1, 1, 300<<10)), 3},
		"appends":   {many(10, request(now, 100, 40, 1)), 2},
		"one large": {many(3, request(now, 10, 1, 256<<10)), 1},
		"times":     {append(many(2, request(now, 1, 1, 1)), request(now.Add(time.Second), 1, 1, 1)), 2},
	} {
		if got := takeCommits(c.waiting); got != c.want {
			t.Errorf("%s: took %d, want %d", name, got, c.want)
		}
	}
}

func TestAcksOfOneQueueShareACallWhateverIsBetweenThem(t *testing.T) {
	var waiting []*settleRequest
	for _, queue := range []string{"a", "b", "a", "c", "b", "a"} {
		waiting = append(waiting, &settleRequest{ask: millrace.Settle{Queue: queue, Items: make([]millrace.SettleItem, 100)}})
	}
	var calls []string
	for len(waiting) > 0 {
		n := takeAcks(waiting)
		call := ""
		for _, r := range waiting[:n] {
			call += r.ask.Queue
		}
		calls, waiting = append(calls, call), waiting[n:]
	}
	if want := []string{"aaa", "bb", "c"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v: the one that waits longest first", calls, want)
	}
	large := make([]*settleRequest, 20)
	for i := range large {
		large[i] = &settleRequest{ask: millrace.Settle{Queue: "a", Items: make([]millrace.SettleItem, 300)}}
	}
	if n := takeAcks(large); n != 3 {
		t.Errorf("took %d of 300 items each, want 3", n)
	}
}
