package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

func TestSidesTakeTurnsAndTheFirstRoundDoesNotCount(t *testing.T) {
	var order []string
	named := func(name string) side {
		return side{
			chunk: func(context.Context) (int, error) { order = append(order, name); return 1, nil },
			after: func(context.Context) error { order = append(order, "after "+name); return nil },
		}
	}
	p, err := interleave(t.Context(), 2, named("a"), named("b"))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Repeat([]string{"a", "after a", "b", "after b", "b", "after b", "a", "after a"}, 3)
	if !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	if len(p.ours) != 2 || len(p.base) != 2 {
		t.Errorf("got %d and %d rounds, want 2 of each", len(p.ours), len(p.base))
	}
}

func TestAChunkThatDoesNothingIsNoMeasurement(t *testing.T) {
	idle := side{chunk: func(context.Context) (int, error) { return 0, nil }}
	if _, err := interleave(t.Context(), 1, idle, idle); err == nil {
		t.Error("got no error")
	}
}

func TestWhatCountsIsTheMedianOfTheRatios(t *testing.T) {
	p := pairs{
		ours: []cost{{wall: 2}, {wall: 30}, {wall: 4}},
		base: []cost{{wall: 1}, {wall: 10}, {wall: 4}},
	}
	f := p.compare("x", byWall).ratioAtMost(2)
	if f.Value != 4 || f.Against != 4 || f.Ratio != 2 || metText(f.Met) != "yes" {
		t.Errorf("got %+v, want 4 against 4, a ratio of 2, met", f)
	}
	if f = f.ratioAtMost(1.9); metText(f.Met) != "NO" {
		t.Errorf("a ratio of 2 meets a goal of 1.9")
	}
	if f = (pairs{ours: []cost{{wall: 1}}, base: []cost{{}}}).compare("x", byWall).ratioAtMost(2); metText(f.Met) != "NO" {
		t.Error("what cannot be compared meets its goal")
	}
	if f = p.extra("x", byWall, 1); f.Value != 1 || f.Ratio != 2 || metText(f.Met) != "yes" {
		t.Errorf("got %+v, want 1 more, met", f)
	}
}

func TestARowThatFailsDoesNotKeepTheOthersFromBeingMeasured(t *testing.T) {
	list := []promise{
		{"bad", embedded, "", func(context.Context, bool) ([]finding, error) { return nil, errors.New("it broke") }},
		{"good", onRedis, "", func(context.Context, bool) ([]finding, error) { return []finding{{What: "x"}}, nil }},
	}
	found, err := options{}.keep(t.Context(), list, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "measure bad: it broke") {
		t.Errorf("got error %v, want that of the bad one", err)
	}
	if len(found) != 1 || found[0].ID != "good" || found[0].What != "redis: x" {
		t.Errorf("got %+v, want what the good one found", found)
	}
}

func TestARowIsChosenByItsID(t *testing.T) {
	all := plan(options{}, nil, nil)
	for only, want := range map[string]int{"ordered-embedded": 1, "depth": 2, "noisy-redis,sinks": 3} {
		c, err := options{only: only}.choose(all, promises())
		if err != nil {
			t.Fatal(err)
		}
		if len(c.promises) != want || len(c.entries) != 0 || c.idle {
			t.Errorf("-only %s: got %d promises, %d beside peers, idle %v; want %d promises alone", only, len(c.promises), len(c.entries), c.idle, want)
		}
	}
	if _, err := (options{only: "no-such-row"}).choose(all, promises()); err == nil {
		t.Error("an id that nothing has is accepted")
	}
	c, err := options{idle: time.Second}.choose(all, promises())
	if err != nil || !c.idle || len(c.entries) != len(all) || len(c.promises) != len(promises()) {
		t.Errorf("without -only something is left out: %v", err)
	}
}

func TestNoIDIsPartOfAnother(t *testing.T) {
	ids := []string{idleID}
	for _, e := range plan(options{}, nil, nil) {
		ids = append(ids, e.id)
	}
	for _, p := range promises() {
		ids = append(ids, p.id)
	}
	for i, a := range ids {
		for j, b := range ids {
			if i != j && strings.Contains(b, a) {
				t.Errorf("-only %s also chooses %s", a, b)
			}
		}
	}
}

func TestOnlyOneOfTheSinksTakesWhatIsPublished(t *testing.T) {
	for _, nameless := range []int{0, manySinks / 10} {
		tried := 0
		for i := range manySinks - 1 {
			pattern := sinkPattern(i, nameless)
			m, err := millrace.CompileMatch(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if m.Matches(millrace.Address(millrace.DefaultTenant, "orders", "order-17")) {
				t.Errorf("%s takes it", pattern)
			}
			if topic := m.Topic(); topic == "" || topic == "orders" {
				tried++
			}
		}
		if want := manySinks/sinkTopics - nameless/sinkTopics + nameless; tried != want {
			t.Errorf("%d patterns are tried on a cold address, want %d", tried, want)
		}
	}
}

func TestAMessageThatNobodyTookCountsAsALongWait(t *testing.T) {
	s := &stopwatch{from: time.Now().Add(-time.Minute)}
	early := s.from.Add(-time.Second)
	for i := range 200 {
		at := s.from.Add(time.Second)
		s.published(at)
		s.published(early)
		if i > 0 {
			s.leased(&millrace.Event{Tenant: "quiet-1", Data: strconv.AppendInt(nil, at.UnixNano(), 10)})
		}
	}
	s.leased(&millrace.Event{Tenant: "quiet-1", Data: strconv.AppendInt(nil, early.UnixNano(), 10)})
	s.leased(&millrace.Event{Tenant: noisyTenant, Data: payload()})
	waits, err := s.all()
	if err != nil {
		t.Fatal(err)
	}
	if len(waits) != 200 || waits[199] != float64(grace.Milliseconds()) {
		t.Errorf("got %d waits, the last %v; want 200, the last of %v", len(waits), waits[199], grace)
	}
	if waits[0] < 50_000 {
		t.Errorf("a message that waited nearly a minute counts %v ms", waits[0])
	}
}

func TestAQuantileIsAValueThatWasSeen(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %g: got %g, want %g", q, got, want)
		}
	}
}

func TestAWaitingNodeIsWokenByEachPublish(t *testing.T) {
	orders, order := io.Pipe()
	answer, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- runWaitingNode(t.Context(), "memory:", orders, answers)
		_ = answers.Close()
	}()
	go func() {
		_, _ = io.WriteString(order, strings.Repeat("wake\n", 3))
		_ = order.Close()
	}()
	text, err := io.ReadAll(answer)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^ready\n(\d+\n){3}$`).Match(text) {
		t.Errorf("got %q, want ready and three numbers", text)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAReportSaysWhichCommandMakesEachFigure(t *testing.T) {
	r := report{
		Machine:  machine{Command: makeCommand("-quick"), Cores: 2},
		Findings: []finding{atMost("threads", "", 8, 64), atMost("memory", "MiB", 101.25, 100)},
	}
	r.Findings[0].ID, r.Findings[1].ID = "waiting-redis", "waiting-redis"
	var b bytes.Buffer
	if err := r.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| threads | 8 |  |  | ≤ 64 | yes | waiting-redis |",
		"| memory | 101.2 MiB |  |  | ≤ 100 MiB | NO | waiting-redis |",
		`Made by make bench BENCH_FLAGS="-quick"; one row alone by adding -only`,
		"2 cores",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
}
