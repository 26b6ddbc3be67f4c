package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAHeaderMustBeComplete(t *testing.T) {
	file := filepath.Join(t.TempDir(), "01-x.patch")
	write(t, file, "Guarantee: 1\nSays: it is broken\nPackage: ./broker\n\n--- a/x\n+++ b/x\n")
	if _, err := readMutant(file); err == nil || !strings.Contains(err.Error(), "no Test") {
		t.Errorf("got %v, want a fault about Test", err)
	}
	write(t, file, "Guarantee: 1\nSays: it is broken\nPackage: ./broker\nTest: ^TestX$\n\n--- a/x\n+++ b/x\n")
	m, err := readMutant(file)
	if err != nil {
		t.Fatal(err)
	}
	if m.name != "01-x" || m.guarantee != "1" || m.pkg != "./broker" || m.test != "^TestX$" {
		t.Errorf("got %+v", m)
	}
}

func TestTheOutcomeOfATestIsRead(t *testing.T) {
	out := `{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/b"}
{"Action":"output","Test":"TestA/b","Output":"wrong\n"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestC"}
{"Action":"fail"}
`
	r := readEvents([]byte(out))
	if r.passed != 1 || strings.Join(r.failed, " ") != "TestA TestA/b" || r.output != "wrong\n" {
		t.Errorf("got %+v", r)
	}
}

// A mutant whose patch no longer applies proves nothing: mend it in the same change.
func TestEveryMutantStillApplies(t *testing.T) {
	mutants, err := load(".", "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := copyTree(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	for _, m := range mutants {
		if err := s.apply(t.Context(), m, "--check"); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestEveryGuaranteeNamesItsTestAndItsMutant(t *testing.T) {
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(".", "")
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, m := range mutants {
		covered[m.guarantee] = true
		if !strings.Contains(string(text), "`"+m.name+"`") {
			t.Errorf("docs/guarantees.md does not name the mutant %s", m.name)
		}
	}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		number, _, _ := strings.Cut(section, ".")
		if !covered[number] {
			t.Errorf("guarantee %s has no mutant", number)
		}
		if !strings.Contains(section, "Proved by") {
			t.Errorf("guarantee %s names no test", number)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
