package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheREADMEIsShort(t *testing.T) {
	if n := strings.Count(read(t, "../README.md"), "\n"); n >= 150 {
		t.Errorf("the README has %d lines; it is to stay under 150", n)
	}
}

func TestEveryLinkBetweenTheDocumentsLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, file := range files(t, "../*.md", "../docs/*.md", "../docs/*/*.md", "../mutants/*.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
			}
		}
	}
}

func TestTheArchitectureNamesFilesThatAreThere(t *testing.T) {
	named := regexp.MustCompile(`\b(?:broker|engine|api|httpapi|client|worker|internal|cmd|acceptance)/[a-z_/]+\.(?:go|lua)\b`)
	for _, file := range named.FindAllString(read(t, "../docs/architecture.md"), -1) {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			t.Errorf("docs/architecture.md names %s: %v", file, err)
		}
	}
}

// Every kind of key that the sources of the Redis engine name is documented.
func TestEveryKindOfRedisKeyIsDocumented(t *testing.T) {
	page := read(t, "../docs/redis-keys.md")
	kinds := map[string]string{}
	inGo := regexp.MustCompile(`(?m)^\s+[a-z][A-Za-z]*Key\s*= ":([a-z]+)`)
	inLua := regexp.MustCompile(`(?:\bT|\.key|\bkey) \.\. ':([a-z]+)`)
	for _, file := range files(t, "../engine/redis/keys.go", "../engine/redis/lua/*.lua") {
		text := read(t, file)
		for _, m := range append(inGo.FindAllStringSubmatch(text, -1), inLua.FindAllStringSubmatch(text, -1)...) {
			kinds[m[1]] = file
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("found only %d kinds of keys; has their notation changed?", len(kinds))
	}
	for kind, file := range kinds {
		if !regexp.MustCompile("`[LCQS]:" + kind + "[01:`]").MatchString(page) {
			t.Errorf("docs/redis-keys.md does not name :%s, which %s uses", kind, file)
		}
	}
}

// What the documents call a test must be one.
func TestEveryTestThatTheGuaranteesNameIsThere(t *testing.T) {
	sources := ""
	for _, file := range files(t, "../*_test.go", "../*/*_test.go", "../*/*/*_test.go", "../engine/enginetest/*.go") {
		sources += read(t, file)
	}
	named := regexp.MustCompile("`((?:Test[A-Z]\\w+|[A-Z][a-z]+/[A-Z]\\w+))`")
	found := named.FindAllStringSubmatch(read(t, "../docs/guarantees.md"), -1)
	if len(found) < 9 {
		t.Fatalf("docs/guarantees.md names only %d tests", len(found))
	}
	for _, m := range found {
		name := m[1][strings.LastIndex(m[1], "/")+1:]
		if !strings.Contains(sources, "func "+name+"(") && !strings.Contains(sources, `"`+name+`"`) {
			t.Errorf("docs/guarantees.md names the test %s, which is not there", m[1])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func files(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		t.Fatalf("no file is like %v", patterns)
	}
	return all
}

// Every module that this one asks for stands on the page that says why.
func TestEveryDependencyHasAReason(t *testing.T) {
	page := read(t, "../docs/decisions/0014-dependencies.md")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)
	found := direct.FindAllStringSubmatch(read(t, "../go.mod"), -1)
	if len(found) < 20 {
		t.Fatalf("found only %d modules", len(found))
	}
	named := map[string]bool{}
	for _, m := range found {
		named[m[1]] = true
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("%s has no reason", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+\\.[a-z]+[a-z.]*/[^`]+)`").FindAllStringSubmatch(page, -1) {
		if !named[m[1]] {
			t.Errorf("%s is named, but not asked for", m[1])
		}
	}
}
