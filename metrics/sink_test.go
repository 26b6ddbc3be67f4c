package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/metrics"
)

// timeless is a log without times.
func timeless(to *log) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestALineEveryTenSecondsTellsRatesAndWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines log
		m := metrics.New(metrics.Options{Logger: timeless(&lines)})
		o := holds("a", 0)
		o.Queues = append(o.Queues, o.Queues[0])
		o.Queues[1].Name = "sms"
		o.Queues[0].Oldest = time.Now().Add(-time.Minute)
		m.Watch(&scripted{answer: o})
		m.Published(1000, 0, 0) // before anybody looked
		line := metrics.NewLog(timeless(&lines), m)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Push(ctx, 10*time.Second, line) }()
		m.Published(25, 5, 2)
		m.Leased("emails", 20)
		m.Settled("emails", millrace.Ack, millrace.SettleResult{Settled: 10, Lost: []string{"x"}})
		time.Sleep(15 * time.Second)
		m.Published(100, 0, 0)
		time.Sleep(10 * time.Second)
		m.Leased("emails", 5)
		cancel()
		<-done
		want := []string{
			`level=INFO msg=metrics published_per_s=2.5 leased_per_s=2 settled_per_s=1 ready=14 oldest=1m10s`,
			`level=INFO msg=metrics published_per_s=10 leased_per_s=0 settled_per_s=0 ready=14 oldest=1m20s`,
			`level=INFO msg=metrics published_per_s=0 leased_per_s=1 settled_per_s=0 ready=14 oldest=1m25s`,
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(lines.String()), "\n")); diff != "" {
			t.Error(diff)
		}
	})
}

// stuck is a sink that takes nothing until its time is over.
type stuck struct{}

func (stuck) Take(ctx context.Context, _ metrics.Reading) error {
	<-ctx.Done()
	return errors.New("nobody there")
}

func TestASinkThatTakesNothingIsLoggedAndHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines log
		m := metrics.New(metrics.Options{Logger: timeless(&lines)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Push(ctx, time.Minute, stuck{}) }()
		time.Sleep(90 * time.Second)
		if got, want := lines.String(), "level=WARN msg=\"metrics were not taken\" error=\"nobody there\"\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		cancel()
		began := time.Now()
		<-done
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}
