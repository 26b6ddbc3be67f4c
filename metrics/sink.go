package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/common/expfmt"
)

// Sink is where readings go.
type Sink interface {
	Take(ctx context.Context, r Reading) error
}

const (
	pushTimeout = 10 * time.Second // of one reading handed to a sink
	lastTimeout = 3 * time.Second  // of the last one: somebody waits for the end
)

// Push hands a reading to a sink at every interval until ctx ends, then a last
// one, and returns. What a sink does not take is logged, and lost.
func (m *Metrics) Push(ctx context.Context, every time.Duration, to Sink) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.push(ctx, pushTimeout, to)
		case <-ctx.Done():
			m.push(context.WithoutCancel(ctx), lastTimeout, to)
			return
		}
	}
}

func (m *Metrics) push(ctx context.Context, within time.Duration, to Sink) {
	try, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := to.Take(try, m.Read()); err != nil && ctx.Err() == nil {
		m.log.Warn("metrics were not taken", "error", err)
	}
}

// Text writes readings as Prometheus reads them.
type Text struct{ To io.Writer }

func textFormat() expfmt.Format { return expfmt.NewFormat(expfmt.TypeTextPlain) }

// Take writes a reading.
func (t Text) Take(_ context.Context, r Reading) error {
	e := expfmt.NewEncoder(t.To, textFormat())
	for _, family := range r.Families {
		if err := e.Encode(family); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}

// Log writes one line a reading: what the node did since the last one, and what
// the store holds. Use one for one log.
type Log struct {
	to   *slog.Logger
	last Reading
}

// NewLog returns a sink that begins to count now.
func NewLog(to *slog.Logger, m *Metrics) *Log {
	return &Log{to: to, last: Reading{
		At: time.Now(), Published: m.totals.published.Load(), Leased: m.totals.leased.Load(), Settled: m.totals.settled.Load(),
	}}
}

// Take logs a reading.
func (l *Log) Take(ctx context.Context, r Reading) error {
	took := r.At.Sub(l.last.At)
	attrs := []slog.Attr{
		slog.Float64("published_per_s", rate(r.Published-l.last.Published, took)),
		slog.Float64("leased_per_s", rate(r.Leased-l.last.Leased, took)),
		slog.Float64("settled_per_s", rate(r.Settled-l.last.Settled, took)),
	}
	if r.Store {
		attrs = append(attrs, slog.Int64("ready", r.Ready), slog.Duration("oldest", r.Oldest.Round(time.Second)))
	}
	l.last = r
	l.to.LogAttrs(ctx, slog.LevelInfo, "metrics", attrs...)
	return nil
}

// rate is how many there were a second, to a tenth.
func rate(n int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(int64(float64(n)/took.Seconds()*10+0.5)) / 10
}
