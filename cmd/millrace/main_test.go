//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestASecondSignalKillsACommandThatWaitsForItsInput(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "apply", "-f", "-")
	cmd.Env = append(os.Environ(), asItself+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: written, it is being read, and signals are heard.
	if _, err := io.WriteString(stdin, strings.Repeat("#", 1<<20)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	giveUp := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	for waits := true; waits; {
		_ = cmd.Process.Signal(os.Interrupt) // two that come close together may count as one
		select {
		case err = <-ended:
			waits = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", err)
	}
}
