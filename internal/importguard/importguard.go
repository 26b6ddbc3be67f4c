// Package importguard keeps imports pointing one way.
package importguard

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/millrace-dev/millrace"

// Check fails the test of a package whose sources, tests aside, import another
// package of this module than the allowed ones, named by their path below the
// module, with "." for its root. It reads the folder that the test runs in.
func Check(t *testing.T, allowed ...string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("list sources: %v (%d files)", err, len(files))
	}
	may := make(map[string]bool, len(allowed))
	for _, path := range allowed {
		may[path] = true
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, path := range imports(t, file) {
			if !may[path] {
				t.Errorf("%s imports %s, which this package must not know", file, path)
			}
		}
	}
}

// imports lists the packages of this module that a source file imports.
func imports(t *testing.T, file string) (paths []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if path == module {
			paths = append(paths, ".")
		} else if rest, ok := strings.CutPrefix(path, module+"/"); ok {
			paths = append(paths, rest)
		}
	}
	return paths
}
