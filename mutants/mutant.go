package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one kept bug: a patch, and the test that must fail under it.
type mutant struct {
	name      string
	path      string // of the patch, absolute
	guarantee string // its number in docs/guarantees.md
	says      string // what the bug does
	pkg       string // the package of the test, as in ./broker
	test      string // the test, as -run takes it
}

// readMutant reads the header of a patch: lines of "Name: value" before the
// first difference. Each field is required, once.
func readMutant(file string) (mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, fmt.Errorf("read mutant: %w", err)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return mutant{}, fmt.Errorf("find mutant: %w", err)
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), path: path}
	fields := map[string]*string{"Guarantee": &m.guarantee, "Says": &m.says, "Package": &m.pkg, "Test": &m.test}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		field, ok := fields[name]
		if !ok {
			continue
		}
		if *field != "" {
			return mutant{}, fmt.Errorf("%s: %s is there twice", file, name)
		}
		*field = strings.TrimSpace(value)
	}
	for name, field := range fields {
		if *field == "" {
			return mutant{}, fmt.Errorf("%s: the header has no %s", file, name)
		}
	}
	if _, err := regexp.Compile(m.test); err != nil {
		return mutant{}, fmt.Errorf("%s: Test: %w", file, err)
	}
	return m, nil
}
