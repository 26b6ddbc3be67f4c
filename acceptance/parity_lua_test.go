package acceptance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proof is a test that proves a script which no method of the contract runs by itself.
type proof struct{ test, why string }

// provedElsewhere is the scripts, by field, that the suite does not call by a method, and what proves them.
var provedElsewhere = map[string]proof{
	"publish":        {"AKnownIdIsAnsweredWithTheFirstStamp", "Publish hands its commits to a gatherer that is set up when the store is opened"},
	"publishBatch":   {"AnEventOpensABatchThatCollects", "Publish hands its commits to the same gatherer, which runs this one for events that have subscriptions"},
	"registryCreate": {"TestNamespacesAreStoresOfTheirOwn", "opening runs it; every test of the suite opens a store"},
	"registryReady":  {"TestACreationThatWasCutShortIsCompleted", "opening runs it"},
	"laneCreate":     {"TestACreationThatWasCutShortIsCompleted", "opening runs it"},
	"registryForget": {"TestALostRegistryIsNotReplacedByAnEmptyOne", "opening runs it, and only Redis can lose its registry alone"},
	"permitPublish":  {"TestAUserWithoutChannelsPublishesWholeAndUnheard", "opening runs it, and only Redis has users"},
	"permit":         {"TestAUserWhoMayNotRunAllOfAScriptIsRefused", "opening runs it, and only Redis has users"},
}

// luaSources is the Redis engine's Go code: which functions use which script, and
// who calls whom.
type luaSources struct {
	users   map[string][]string // by field of scripts
	callers map[string][]string // by function
}

// readSources reads the Go files of the Redis engine, tests aside.
func readSources(t *testing.T) *luaSources {
	t.Helper()
	s := &luaSources{users: map[string][]string{}, callers: map[string][]string{}}
	for _, file := range files(t, "../engine/redis/*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Body != nil {
				s.look(f)
			}
		}
	}
	return s
}

// look notes what a function uses and calls.
func (s *luaSources) look(f *ast.FuncDecl) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, isField := n.X.(*ast.SelectorExpr); isField && of.Sel.Name == "scripts" {
				s.users[n.Sel.Name] = append(s.users[n.Sel.Name], f.Name.Name)
			}
			s.callers[n.Sel.Name] = append(s.callers[n.Sel.Name], f.Name.Name)
		case *ast.CallExpr:
			if called, isName := n.Fun.(*ast.Ident); isName {
				s.callers[called.Name] = append(s.callers[called.Name], f.Name.Name)
			}
		}
		return true
	})
}

// methods is the exported functions that lead to a script.
func (s *luaSources) methods(field string) (exported []string) {
	seen := map[string]bool{}
	for todo := slices.Clone(s.users[field]); len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		if ast.IsExported(name) {
			exported = append(exported, name)
			continue
		}
		todo = append(todo, s.callers[name]...)
	}
	slices.Sort(exported)
	return exported
}

// composed says, for every Lua file, which fields of scripts it is a part of.
func composed(t *testing.T) map[string][]string {
	t.Helper()
	text := read(t, "../engine/redis/script.go")
	preludes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+)\s*=\s*(?:(\w+) \+ )?"((?: ?(?:prelude\w*|publish_\w+|lease_\w+))+)"`).FindAllStringSubmatch(text, -1) {
		preludes[m[1]] = preludes[m[2]] + m[3]
	}
	parts := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(\w+):\s+(?:(?:reading|promising)\()?compose\("(\w+)", \w+, ([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		field, list := m[1], m[2]
		for _, word := range strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune(`+" `, r) }) {
			if of, found := preludes[word]; found {
				word = of
			}
			list += " " + word
		}
		for _, file := range strings.Fields(list) {
			parts[file] = append(parts[file], field)
		}
	}
	return parts
}

// suiteText is the sources of the suite without its model.
func suiteText(t *testing.T) (text string) {
	t.Helper()
	for _, file := range files(t, "../engine/enginetest/*.go") {
		if base := filepath.Base(file); !strings.HasSuffix(base, "_test.go") && !strings.HasPrefix(base, "model") {
			text += read(t, file)
		}
	}
	return text
}

func TestEveryLuaFileHasItsMethodAndTheSuiteCallsIt(t *testing.T) {
	sources, parts, suite := readSources(t), composed(t), suiteText(t)
	for _, file := range files(t, "../engine/redis/lua/*.lua") {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if len(parts[name]) == 0 {
			t.Errorf("no script is made of %s", name)
		}
		for _, field := range parts[name] {
			methods := sources.methods(field)
			if len(methods) == 0 {
				t.Errorf("no exported method runs the script %s of %s", field, name)
			}
			called := slices.ContainsFunc(methods, func(m string) bool { return m != "Open" && strings.Contains(suite, "."+m+"(") })
			if _, elsewhere := provedElsewhere[field]; called == elsewhere {
				t.Errorf("the script %s of %s is run by %v: called by the suite is %v, proved elsewhere is %v", field, name, methods, called, elsewhere)
			}
		}
	}
	if got := sources.methods("nothing"); len(got) != 0 {
		t.Errorf("a script that is not there is run by %v", got)
	}
}

func TestWhatProvesAScriptIsThere(t *testing.T) {
	tests := suiteText(t)
	for _, file := range files(t, "../engine/redis/*_test.go") {
		tests += read(t, file)
	}
	for field, p := range provedElsewhere {
		if !strings.Contains(tests, "func "+p.test+"(") && !strings.Contains(tests, `"`+p.test+`"`) {
			t.Errorf("%s is proved by %s, which is not there", field, p.test)
		}
	}
}
