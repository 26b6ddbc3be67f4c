package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// machine says where and by what the figures of a run were made. What the
// system does not tell is "unknown".
type machine struct {
	Command    string `json:"command"`
	Revision   string `json:"revision"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	System     string `json:"system"`
	Versions   string `json:"versions"`
	LoadBefore string `json:"load_before"` // the averages of 1, 5 and 15 minutes
	LoadAfter  string `json:"load_after"`
}

const unknown = "unknown"

// makeCommand is the command that measures, with these flags.
func makeCommand(flags string) string {
	if flags == "" {
		return "make bench"
	}
	return fmt.Sprintf("make bench BENCH_FLAGS=%q", flags)
}

func describe(ctx context.Context, redis *redistest.Server, args []string) machine {
	return machine{
		Command:    makeCommand(strings.Join(args, " ")),
		Revision:   revision(ctx),
		CPU:        fieldOf("/proc/cpuinfo", "model name"),
		Cores:      runtime.GOMAXPROCS(0),
		System:     runtime.GOOS + "/" + runtime.GOARCH + ", memory " + fieldOf("/proc/meminfo", "MemTotal"),
		Versions:   versions(redis),
		LoadBefore: loadAverage(),
	}
}

// revision is the commit that is measured.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(out))
}

// versions are those of what runs here: Go, Redis, and the libraries measured.
func versions(redis *redistest.Server) string {
	list := []string{runtime.Version(), "redis " + redis.Info("redis_version")}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return strings.Join(list, ", ")
	}
	for _, m := range info.Deps {
		for _, name := range []string{"pebble/v2", "rueidis", "asynq", "nats-server/v2"} {
			if strings.HasSuffix(m.Path, "/"+name) {
				list = append(list, strings.TrimSuffix(name, "/v2")+" "+m.Version)
			}
		}
	}
	return strings.Join(list, ", ")
}

// fieldOf reads "name: value" from a file.
func fieldOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return unknown
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// lines are the description for a reader.
func (m machine) lines() []string {
	return []string{
		fmt.Sprintf("%s, %d cores, %s; load average %s before, %s after.", m.CPU, m.Cores, m.System, m.LoadBefore, m.LoadAfter),
		fmt.Sprintf("Millrace %s; %s.", m.Revision, m.Versions),
		"Made by " + m.Command + "; one row alone by adding -only and its id.",
	}
}
