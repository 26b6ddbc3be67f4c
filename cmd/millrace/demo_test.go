package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/millrace-dev/millrace/millracetest"
)

// audience watches the demo and has it stopped when it has seen two pictures.
type audience struct {
	bytes.Buffer
	stop func()
}

func (a *audience) Write(p []byte) (int, error) {
	n, err := a.Buffer.Write(p)
	if strings.Count(a.String(), "TENANT") >= 2 && strings.Contains(a.String(), "last turns: ") {
		a.stop()
	}
	return n, err
}

func TestTheDemoShowsEveryTenant(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out := &audience{stop: stop}
	var errs bytes.Buffer
	code := run(ctx, []string{"demo", "--plain", "--listen", "127.0.0.1:0"}, strings.NewReader(""), out, &errs)
	if code != exitOK {
		t.Fatalf("exit %d, %q", code, errs.String())
	}
	for _, want := range append(demoTenants(), "P99 WAIT", "last turns: ", "storm on, weight 1") {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
	if strings.Count(out.String(), "TENANT") < 2 {
		t.Errorf("fewer than two pictures in a minute: %s", out.String())
	}
}

func TestTheDemoEndsByItselfAfterItsTime(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var errs bytes.Buffer
	code := run(ctx, []string{"demo", "--plain", "--for", "1ms", "--listen", "127.0.0.1:0"}, strings.NewReader(""), io.Discard, &errs)
	if code != exitOK || ctx.Err() != nil {
		t.Errorf("exit %d, %q, %v", code, errs.String(), ctx.Err())
	}
}

// The point of the demo: the noisy tenant waits behind itself, the others do not.
func TestTheNoisyTenantOfTheDemoWaitsBehindItself(t *testing.T) {
	s := newStage(millracetest.New(t), "")
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	var all sync.WaitGroup
	if err := s.start(ctx, &all); err != nil {
		t.Fatal(err)
	}
	p := s.look(ctx)
	for p.rows[0].served < 60 && wait(ctx, 50*time.Millisecond) {
		p = s.look(ctx)
	}
	stop()
	all.Wait()
	noisy := p.rows[0]
	for _, quiet := range p.rows[1:] {
		if quiet.served == 0 || quiet.p50 >= noisy.p99 {
			t.Errorf("%s was served %d times and waited %s; the noisy one waited up to %s", quiet.tenant, quiet.served, quiet.p50, noisy.p99)
		}
	}
}

func TestTheKeysOfTheDemoChangeTheNoisyTenant(t *testing.T) {
	b := millracetest.New(t)
	millracetest.Queue(t, b, demoQueue, ":orders:")
	s := newStage(b, "http://127.0.0.1:7070")
	v := &demoView{ctx: t.Context(), stage: s, columns: 100, picture: s.look(t.Context())}
	for _, step := range []struct {
		key  rune
		want string
	}{
		{'s', "storm off, weight 1"}, {'s', "storm on, weight 1"}, {'w', "weight 2"}, {'w', "weight 4"},
		{'p', "weight 0"}, {'p', "weight 1"},
	} {
		v.Update(tea.KeyPressMsg{Code: step.key, Text: string(step.key)})
		v.Update(lookAgain{})
		if got := v.View().Content; !strings.Contains(got, step.want) {
			t.Errorf("after %c: %q is not in %s", step.key, step.want, got)
		}
	}
	if _, quit := v.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); quit == nil {
		t.Error("q does not quit")
	}
}
