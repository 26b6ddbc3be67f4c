package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// testTimeout bounds one run of a named test. A mutant may hang its test.
const testTimeout = 90 * time.Second

// scratch is a copy of the repository to break.
type scratch struct {
	dir string
}

// copyTree copies what git knows, and what it does not ignore, of the repository at root.
func copyTree(ctx context.Context, root string) (*scratch, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	dir, err := os.MkdirTemp("", "millrace-mutants-")
	if err != nil {
		return nil, fmt.Errorf("make scratch folder: %w", err)
	}
	s := &scratch{dir: dir}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			s.remove()
			return nil, err
		}
	}
	return s, nil
}

func (s *scratch) remove() { _ = os.RemoveAll(s.dir) }

// copyFile copies a file; one that was deleted but not yet committed is no error.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// passesAll demands that every named test is there and passes on the sound code:
// otherwise its failure under a mutant says nothing.
func (s *scratch) passesAll(ctx context.Context, mutants []mutant, out io.Writer) error {
	built, seen := map[string]string{}, map[string]bool{}
	for _, m := range mutants {
		if seen[m.pkg+" "+m.test] {
			continue
		}
		seen[m.pkg+" "+m.test] = true
		if built[m.pkg] == "" {
			binary, err := s.build(ctx, m.pkg)
			if err != nil {
				return fmt.Errorf("the tests of %s: %w", m.pkg, err)
			}
			built[m.pkg] = binary
		}
		began := time.Now()
		if err := s.passes(ctx, built[m.pkg], m); err != nil {
			return fmt.Errorf("the test of %s on the sound code: %w", m.name, err)
		}
		fmt.Fprintf(out, "sound   %-34s %6s  %s\n", m.pkg, time.Since(began).Round(100*time.Millisecond), m.test)
	}
	return nil
}

func (s *scratch) passes(ctx context.Context, binary string, m mutant) error {
	r, err := s.test(ctx, binary, m)
	switch {
	case err != nil:
		return err
	case len(r.failed) > 0:
		return fmt.Errorf("%s fails: %s", r.failed[0], tail(r.output))
	case r.passed == 0:
		return fmt.Errorf("%s in %s is not there", m.test, m.pkg)
	}
	return nil
}

// judge plants a mutant, runs its test and takes it out again. It returns the
// test that failed, or "" if none did. What does not apply or compile is an error.
func (s *scratch) judge(ctx context.Context, m mutant) (failed string, err error) {
	if err := s.apply(ctx, m); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.apply(context.WithoutCancel(ctx), m, "--reverse")) }()
	binary, err := s.build(ctx, m.pkg)
	if err != nil {
		return "", err
	}
	r, err := s.test(ctx, binary, m)
	if err != nil || len(r.failed) == 0 {
		return "", err
	}
	return r.failed[len(r.failed)-1], nil
}

func (s *scratch) apply(ctx context.Context, m mutant, flags ...string) error {
	git := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), m.path)...)
	git.Dir = s.dir
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(s.dir))
	if out, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch does not apply: %s", bytes.TrimSpace(out))
	}
	return nil
}

// build compiles the tests of a package and returns the program.
func (s *scratch) build(ctx context.Context, pkg string) (string, error) {
	binary := filepath.Join(s.dir, pkg, "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, pkg)
	compile.Dir = s.dir
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %s", tail(string(out)))
	}
	return binary, nil
}

// results is what a run of tests came to.
type results struct {
	passed int
	failed []string // outermost first
	output string
}

// test runs a mutant's test in a program that build made.
func (s *scratch) test(ctx context.Context, binary string, m mutant) (results, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout+time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "go", "tool", "test2json", binary,
		"-test.v=test2json", "-test.count=1", "-test.timeout="+testTimeout.String(), "-test.run="+m.test)
	run.Dir = filepath.Dir(binary)
	out, err := run.Output()
	r := readEvents(out)
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return r, fmt.Errorf("run the test: %w", err)
	case err != nil && len(r.failed) == 0:
		return r, fmt.Errorf("the program failed, but no test did: %s", tail(r.output))
	}
	return r, nil
}

// readEvents reads what test2json printed.
func readEvents(out []byte) (r results) {
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Action == "output":
			text.WriteString(e.Output)
		case e.Action == "pass" && e.Test != "":
			r.passed++
		case e.Action == "fail" && e.Test != "":
			r.failed = append([]string{e.Test}, r.failed...)
		}
	}
	r.output = text.String()
	return r
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 800 {
		s = "…" + s[len(s)-800:]
	}
	return s
}
