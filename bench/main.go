// Command bench measures Millrace beside its peers, and then what it promises
// by itself, in one run. Beside the peers each round measures everything once,
// one after the other, so that noise hits all alike, and what is compared are
// the medians over the rounds; every measurement has an empty store of its own.
// A promise interleaves its two sides, and what counts is the median of the
// rounds' ratios. CPU per message is measured too: on a machine that others use
// it says more than the rate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/millrace-dev/millrace/internal/redistest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the settings of a run.
type options struct {
	quick    bool
	list     bool          // only say what there is to measure
	rounds   int           // at most
	within   time.Duration // no round begins that would end later
	window   time.Duration
	idle     time.Duration // 0: not measured
	backlog  int           // messages that wait when leasing begins
	fsync    bool          // also on a Redis that fsyncs each command
	only     string        // part of the ids to measure
	profile  string        // directory
	json     bool
	markdown bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "fewer, shorter and smaller rounds: a minute beside the peers, at most about half a minute for each promise")
	f.BoolVar(&o.list, "list", false, "list what there is to measure, with the ids that -only takes")
	f.IntVar(&o.rounds, "rounds", 5, "how often everything is measured beside the peers, at most")
	f.DurationVar(&o.within, "within", 4*time.Minute, "how long the peers may take; they end after fewer rounds if they must, but never without one")
	f.DurationVar(&o.window, "window", time.Second, "how long each measurement beside the peers lasts")
	f.DurationVar(&o.idle, "idle", 10*time.Second, "how long an idle node is watched; 0 for not at all")
	f.IntVar(&o.backlog, "backlog", 200000, "messages that wait when leasing begins")
	f.BoolVar(&o.fsync, "fsync", false, "measure also on a Redis with appendfsync always")
	f.StringVar(&o.only, "only", "", "measure only what has this in its id; several are separated by commas")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles to this directory: of the first round beside the peers, and of each promise, its chunks tagged side=ours and side=base")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.within, o.window, o.idle, o.backlog = 3, time.Minute, 400*time.Millisecond, 5*time.Second, 120000
	}
	if o.rounds < 1 || o.window <= 0 || o.backlog < hundred {
		return o, errors.New("rounds and window must be above 0, and backlog at least 100")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == waitingNode {
		return runWaitingNode(ctx, args[1], stdin, stdout)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	plain, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	var fsync *redistest.Server
	if o.fsync {
		var stop func()
		if fsync, stop, err = startRedis("--appendonly", "yes", "--appendfsync", "always"); err != nil {
			return err
		}
		defer stop()
	}
	c, err := o.choose(plan(o, plain, fsync), promises())
	if err != nil {
		return err
	}
	if o.list {
		return c.write(stdout)
	}
	r := &report{Machine: describe(ctx, plain, args)}
	// What was measured before something failed is worth reading.
	return errors.Join(o.measure(ctx, c, r, stderr), o.print(r, stdout))
}

// measure measures what was chosen.
func (o options) measure(ctx context.Context, c choice, r *report, progress io.Writer) error {
	if len(c.entries) > 0 {
		if err := o.measurePeers(ctx, c.entries, r, progress); err != nil {
			return err
		}
	}
	if c.idle {
		idle, err := measureIdle(ctx, o.idle)
		if err != nil {
			return fmt.Errorf("measure %s: %w", idleID, err)
		}
		r.judgeIdle(idle)
	}
	var err error
	r.Findings, err = o.keep(ctx, c.promises, progress)
	r.Machine.LoadAfter = loadAverage()
	return err
}

// measurePeers runs as many rounds as there is time for.
func (o options) measurePeers(ctx context.Context, list []entry, r *report, progress io.Writer) error {
	samples := make([][]sample, len(list))
	for begin := time.Now(); r.Rounds < o.rounds && (r.Rounds == 0 || o.timeForAnother(time.Since(begin), r.Rounds)); r.Rounds++ {
		if err := o.round(ctx, r.Rounds, list, samples, progress); err != nil {
			return err
		}
	}
	for i, e := range list {
		r.Figures = append(r.Figures, figureOf(e, samples[i]))
	}
	r.judge(comparisons())
	return nil
}

// timeForAnother reports whether one more round, as long as those so far, and
// the idle watch still end in time.
func (o options) timeForAnother(spent time.Duration, rounds int) bool {
	rest := o.idle
	if o.idle > 0 {
		rest += 2 * calm
	}
	return spent+spent/time.Duration(rounds)+rest <= o.within
}

// round measures everything once.
func (o options) round(ctx context.Context, no int, list []entry, samples [][]sample, progress io.Writer) error {
	for i, e := range list {
		w := &window{length: o.window, redis: e.on}
		if no == 0 && o.profile != "" {
			w.profile = filepath.Join(o.profile, e.id)
		}
		settle()
		if err := e.run(ctx, w); err != nil {
			return fmt.Errorf("measure %s: %w", e.id, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(progress, "round %d: %s %s/s\n", no+1, e.id, count(w.Rate))
		samples[i] = append(samples[i], w.sample)
	}
	return nil
}

func (o options) print(r *report, w io.Writer) error {
	switch {
	case o.json:
		return r.writeJSON(w)
	case o.markdown:
		return r.writeMarkdown(w)
	}
	return r.writeText(w)
}
