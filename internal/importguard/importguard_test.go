package importguard

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestItSeesWhichPackagesOfTheModuleAFileImports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	text := "package x\n\nimport (\n\t\"fmt\"\n\n\tm \"" + module + "\"\n\t_ \"" + module + "/engine/redis\"\n\t\"" + module + "x/y\"\n)\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := imports(t, file), []string{".", "engine/redis"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestThisPackageImportsNothingOfTheModule(t *testing.T) { Check(t) }
