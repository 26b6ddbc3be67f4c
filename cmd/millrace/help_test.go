package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var updateHelp = flag.Bool("update-help", false, "write testdata/help.txt")

// everyHelp is the help of every command, one after the other.
func everyHelp(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	var walk func(path []string, cmd *cobra.Command)
	walk = func(path []string, cmd *cobra.Command) {
		code, out, errs := command(t, append(path, "--help")...)
		if code != exitOK || errs != "" {
			t.Fatalf("%v --help: exit %d, %q", path, code, errs)
		}
		all.WriteString("$ millrace " + strings.Join(append(path, "--help"), " ") + "\n" + out + "\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(append(path[:len(path):len(path)], sub.Name()), sub)
			}
		}
	}
	walk(nil, newRoot())
	return all.String()
}

// A change of the help is seen in review: go test ./cmd/millrace -run EveryHelp -update-help
func TestEveryHelpIsAsItWasLastReviewed(t *testing.T) {
	file := filepath.Join("testdata", "help.txt")
	got := everyHelp(t)
	if *updateHelp {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the help has changed; if that is right: go test ./cmd/millrace -run EveryHelp -update-help\n%s", firstDifference(string(want), got))
	}
}

// firstDifference shows the first line that differs.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "want " + a[i] + "\n got " + b[i]
		}
	}
	return "one ends before the other"
}

func TestEveryCommandSaysWhatItDoes(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q is not one line without a full stop", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

func TestShellsCompleteCommands(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errs := command(t, "completion", shell); code != exitOK || !strings.Contains(out, "millrace") {
			t.Errorf("%s: exit %d, %q", shell, code, errs)
		}
	}
	if code, out, _ := command(t, "__complete", "queue", "pa"); code != exitOK || !strings.Contains(out, "pause") {
		t.Errorf("queue pa is completed to %q, exit %d", out, code)
	}
}
