// Mutants plants each kept bug in a scratch copy of the repository, one at a
// time, and demands that the test named with it fails there.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: "+err.Error())
		os.Exit(1)
	}
}

// run judges the mutants that the arguments choose and prints how many were caught.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "only mutants whose name contains this")
	trust := flags.Bool("trust", false, "do not check first that the tests pass on the sound code")
	if err := flags.Parse(args); err != nil {
		return err
	}
	mutants, err := load("mutants", *only)
	if err != nil {
		return err
	}
	s, err := copyTree(ctx, ".")
	if err != nil {
		return err
	}
	defer s.remove()
	if !*trust {
		if err := s.passesAll(ctx, mutants, out); err != nil {
			return err
		}
	}
	return judgeAll(ctx, s, mutants, out)
}

// load reads the mutants of a folder, in the order of their names.
func load(folder, only string) (mutants []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !strings.Contains(filepath.Base(file), only) {
			continue
		}
		m, err := readMutant(file)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutant in %s is named like %q; run it from the root of the repository", folder, only)
	}
	return mutants, nil
}

// judgeAll plants the mutants one after the other.
func judgeAll(ctx context.Context, s *scratch, mutants []mutant, out io.Writer) error {
	caught, loose := 0, []string{}
	for _, m := range mutants {
		began := time.Now()
		verdict, err := s.judge(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(began).Round(100 * time.Millisecond)
		switch {
		case err != nil:
			fmt.Fprintf(out, "ERROR   %-34s %6s  %v\n", m.name, took, err)
			loose = append(loose, m.name)
		case verdict == "":
			fmt.Fprintf(out, "MISSED  %-34s %6s  guarantee %s: %s in %s passes\n", m.name, took, m.guarantee, m.test, m.pkg)
			loose = append(loose, m.name)
		default:
			fmt.Fprintf(out, "caught  %-34s %6s  guarantee %s: %s\n", m.name, took, m.guarantee, verdict)
			caught++
		}
	}
	fmt.Fprintf(out, "caught %d of %d\n", caught, len(mutants))
	if len(loose) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(loose, ", "))
	}
	return nil
}
