package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// waiting measures a node in which 5,000 leases wait on 50 queues. The node is
// a process of its own, so that its threads and its memory are nobody else's.
type waiting struct{ site }

const (
	waitingQueues = 50
	waitingLeases = 5000

	// The node looks everywhere once in thirty seconds, for what hints have
	// missed: a watch of that length sees exactly one such look.
	waitingWatch = 30 * time.Second

	connectionsGoal = 8
	threadsGoal     = 64
	memoryGoal      = 100 // MiB
	commandsGoal    = 2   // per second
	wakeGoal        = 50  // ms
)

func (w waiting) run(ctx context.Context, quick bool) (found []finding, err error) {
	store, redis, stop, err := w.store()
	if err != nil {
		return nil, err
	}
	defer stop()
	n, err := startNode(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	pause(ctx, nil, calm)
	if redis != nil {
		if found, err = watchRedis(ctx, redis); err != nil {
			return nil, err
		}
	}
	threads, memory, err := n.status()
	if err != nil {
		return nil, err
	}
	worst, middle, err := n.wakes(sized(quick, 50, 200))
	return append(found,
		atMost("threads of a node with 5,000 leases waiting on 50 queues", "", threads, threadsGoal),
		atMost("its resident memory", "MiB", memory, memoryGoal),
		atMost("publish → woken lease, the slowest of "+strconv.Itoa(sized(quick, 50, 200)), "ms", worst, wakeGoal),
		finding{What: "publish → woken lease, median", Unit: "ms", Value: middle},
	), err
}

// store makes an empty store for a node.
func (w waiting) store() (url string, redis *redistest.Server, stop func(), err error) {
	if w.site == onRedis {
		if redis, stop, err = startRedis(); err != nil {
			return "", nil, nil, err
		}
		return redis.URL(), redis, stop, nil
	}
	dir, err := os.MkdirTemp("", "bench-millrace-")
	if err != nil {
		return "", nil, nil, fmt.Errorf("make directory: %w", err)
	}
	return "embedded:" + dir, nil, func() { _ = os.RemoveAll(dir) }, nil
}

// watchRedis counts what the node costs its server while all of its leases wait.
func watchRedis(ctx context.Context, redis *redistest.Server) ([]finding, error) {
	begin, before := time.Now(), commandCalls(redis)
	pause(ctx, nil, waitingWatch)
	after, took := commandCalls(redis), time.Since(begin).Seconds()
	clients, err := strconv.Atoi(redis.Info("connected_clients"))
	if err != nil {
		return nil, fmt.Errorf("count connections: %w", err)
	}
	return []finding{
		atMost("connections of a node with 5,000 leases waiting on 50 queues", "", float64(clients-1), connectionsGoal), // one is ours, that asks
		atMost("its commands, those that scripts call counted too", "/s", float64(total(after)-total(before))/took, commandsGoal),
		{What: "its calls of scripts", Unit: "/s", Value: float64(after["evalsha"]-before["evalsha"]) / took},
	}, ctx.Err()
}

// node is a process in which leases wait.
type node struct {
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// startNode starts this program again as a node, and returns when its leases wait.
func startNode(ctx context.Context, store string) (*node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	n := &node{process: exec.CommandContext(ctx, self, waitingNode, store)}
	n.process.Stderr = os.Stderr
	if n.orders, err = n.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("connect to the node: %w", err)
	}
	out, err := n.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connect to the node: %w", err)
	}
	n.answers = bufio.NewScanner(out)
	if err := n.process.Start(); err != nil {
		return nil, fmt.Errorf("start the node: %w", err)
	}
	if answer, err := n.answer(); err != nil || answer != nodeReady {
		return nil, errors.Join(fmt.Errorf("start the node: it says %q", answer), err, n.stop())
	}
	return n, nil
}

func (n *node) answer() (string, error) {
	if n.answers.Scan() {
		return n.answers.Text(), nil
	}
	return "", errors.Join(errors.New("the node has ended"), n.answers.Err())
}

// stop ends the node: it stops when it gets no more orders.
func (n *node) stop() error {
	_ = n.orders.Close()
	if err := n.process.Wait(); err != nil {
		return fmt.Errorf("stop the node: %w", err)
	}
	return nil
}

// wakes has the node publish and returns the slowest and the median wake-up in
// milliseconds.
func (n *node) wakes(times int) (worst, middle float64, err error) {
	waits := make([]float64, times)
	for i := range waits {
		if _, err := io.WriteString(n.orders, "wake\n"); err != nil {
			return 0, 0, fmt.Errorf("order a wake-up: %w", err)
		}
		answer, err := n.answer()
		if err != nil {
			return 0, 0, err
		}
		micros, err := strconv.ParseFloat(answer, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read the wake-up: %w", err)
		}
		waits[i] = micros / 1000
	}
	return quantile(waits, 1), median(waits), nil
}

// status asks the kernel for the node's threads and resident MiB.
func (n *node) status() (threads, memory float64, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(n.process.Process.Pid) + "/status")
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the node's threads and memory, which only Linux tells: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		name, value, _ := strings.Cut(line, ":")
		number, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch {
		case err != nil: // a line that is no number
		case name == "Threads":
			threads = number
		case name == "VmRSS":
			memory = number / 1024
		}
	}
	if threads == 0 || memory == 0 {
		return 0, 0, errors.New("the kernel does not tell the node's threads and memory")
	}
	return threads, memory, nil
}
