package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct {
	bars  *mpb.Progress
	bar   *mpb.Bar
	began time.Time
	sent  atomic.Int64
}

func newProgress(w io.Writer, size int64) *progress {
	p := &progress{began: time.Now()}
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	rate := decor.Any(func(decor.Statistics) string {
		sent := p.sent.Load()
		return fmt.Sprintf(" %d events, %.0f/s", sent, float64(sent)/max(time.Since(p.began).Seconds(), 1e-3))
	})
	p.bar = p.bars.New(size, mpb.BarStyle(), mpb.PrependDecorators(decor.Percentage()), mpb.AppendDecorators(rate))
	return p
}

func (p *progress) add(sent, bytes int) {
	if p.bar != nil {
		p.sent.Store(int64(sent))
		p.bar.IncrBy(bytes)
	}
}

func (p *progress) done() {
	if p.bar != nil {
		p.bar.SetTotal(-1, true)
		p.bars.Wait()
	}
}
