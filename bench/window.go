package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// warmUp passes before anything counts: connections are made, caches filled.
const warmUp = 150 * time.Millisecond

// sample is what one window has seen.
type sample struct {
	Rate  float64 // messages per second
	Self  float64 // CPU of this process, in microseconds per message
	Redis float64 // CPU of the Redis server, in microseconds per message
}

// window counts what is done between two moments.
type window struct {
	length  time.Duration
	profile string            // the file for the CPU profile, without its extension; none if empty
	redis   *redistest.Server // whose CPU counts too; may be nil

	done atomic.Int64 // messages so far
	last atomic.Int64 // when the last of them was done, in nanoseconds
	sample
}

// add counts messages that are done.
func (w *window) add(n int) {
	w.done.Add(int64(n))
	w.last.Store(time.Now().UnixNano())
}

// crew is a number of goroutines that do the same step again and again until
// the window closes or the step has nothing more to do and returns false.
type crew struct {
	size int
	step func(ctx context.Context, member int) (more bool, err error)
}

// drive lets crews work and measures them.
func (w *window) drive(ctx context.Context, crews ...crew) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var working sync.WaitGroup
	member := 0
	for _, c := range crews {
		for range c.size {
			id := member
			member++
			working.Go(func() {
				if err := c.work(ctx, id); err != nil {
					stop(err)
				}
			})
		}
	}
	finished := make(chan struct{})
	go func() {
		working.Wait()
		close(finished)
	}()
	err := w.watch(ctx, finished)
	cause := context.Cause(ctx)
	stop(nil)
	<-finished
	return errors.Join(err, cause)
}

func (c crew) work(ctx context.Context, member int) error {
	for ctx.Err() == nil {
		more, err := c.step(ctx, member)
		if err != nil {
			if ctx.Err() != nil {
				return nil // the window has closed over a call under way
			}
			return err
		}
		if !more {
			return nil
		}
	}
	return nil
}

// watch waits out the warm-up and the window, or until all is finished, and
// works out the sample.
func (w *window) watch(ctx context.Context, finished <-chan struct{}) error {
	if pause(ctx, finished, warmUp); ctx.Err() != nil {
		return nil
	}
	stopProfile, err := w.startProfile()
	if err != nil {
		return err
	}
	redis, self, begin, before := w.redisCPU(), selfCPU(), time.Now(), w.done.Load()
	pause(ctx, finished, w.length)
	end, after := time.Now(), w.done.Load()
	select {
	case <-finished: // the rest of the window was idle
		end = time.Unix(0, w.last.Load())
	default:
	}
	self, redis = selfCPU()-self, w.redisCPU()-redis
	if err := stopProfile(); err != nil {
		return err
	}
	n, took := float64(after-before), end.Sub(begin)
	if n == 0 || took <= 0 {
		return fmt.Errorf("nothing was done in %v", w.length)
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / n }
	w.sample = sample{Rate: n / took.Seconds(), Self: micros(self), Redis: micros(redis)}
	return nil
}

// pause waits for a time, but not when all is finished or the run is over.
func pause(ctx context.Context, finished <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-finished:
	case <-ctx.Done():
	}
}

// startProfile profiles until the function it returns is called.
func (w *window) startProfile() (stop func() error, err error) {
	if w.profile == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(w.profile), 0o755); err != nil {
		return nil, fmt.Errorf("make profile directory: %w", err)
	}
	f, err := os.Create(w.profile + ".pprof")
	if err != nil {
		return nil, fmt.Errorf("create profile: %w", err)
	}
	if w.redis != nil {
		w.redis.Do("CONFIG", "RESETSTAT")
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("start profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(w.writeAllocations(), w.writeCommandStats(), f.Close())
	}, nil
}

// writeAllocations keeps what was allocated since the process began; the
// difference to an earlier file is what happened in between.
func (w *window) writeAllocations() error {
	f, err := os.Create(w.profile + ".allocs.pprof")
	if err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// writeCommandStats keeps what the Redis server says of its commands' times.
func (w *window) writeCommandStats() error {
	if w.redis == nil {
		return nil
	}
	text := w.redis.Do("INFO", "commandstats")
	return os.WriteFile(w.profile+".commandstats.txt", []byte(text), 0o644)
}

func selfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (w *window) redisCPU() time.Duration {
	if w.redis == nil {
		return 0
	}
	return infoSeconds(w.redis, "used_cpu_user") + infoSeconds(w.redis, "used_cpu_sys")
}

func infoSeconds(s *redistest.Server, field string) time.Duration {
	d, err := time.ParseDuration(s.Info(field) + "s")
	if err != nil {
		return 0
	}
	return d
}

// settle lets what an earlier measurement left behind end before the next begins.
func settle() { runtime.GC() }
