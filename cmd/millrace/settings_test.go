package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of the documents")

// fileOf writes a file of the test's own and returns its path.
func fileOf(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// printed is what `config print --json` says.
func printed(t *testing.T, args ...string) map[string]struct {
	Value any
	From  string
} {
	t.Helper()
	code, out, errs := command(t, append([]string{"config", "print", "--json"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]struct {
		Value any
		From  string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestASettingComesFromTheLastOfDefaultFileEnvironmentAndFlag(t *testing.T) {
	path := fileOf(t, "house.yaml", "drain: 1s\nlanes: 2\nstore: \"memory:\"\nroles: [web, monitor]\nredis-publish: false\n")
	t.Setenv("MILLRACE_CONFIG", path)
	t.Setenv("MILLRACE_LANES", "4")
	t.Setenv("MILLRACE_STORE", "embedded:here")
	t.Setenv("MILLRACE_NAMESPACE", "")
	got := printed(t, "--store", "redis://127.0.0.1", "--allow-callbacks-to", "10.0.0.0/8", "--allow-callbacks-to", "127.0.0.0/8,::1/128", "--redis-publish")
	for name, want := range map[string]struct {
		value any
		from  string
	}{
		"log-level": {"info", "default"}, "drain": {"1s", path}, "lanes": {4.0, "MILLRACE_LANES"}, "store": {"redis://127.0.0.1", "--store"},
		"roles": {[]any{"web", "monitor"}, path}, "namespace": {"millrace", "default"}, "config": {path, "MILLRACE_CONFIG"},
		"allow-callbacks-to": {[]any{"10.0.0.0/8", "127.0.0.0/8", "::1/128"}, "--allow-callbacks-to"}, "redis-publish": {"true", "--redis-publish"},
	} {
		if diff := cmp.Diff(want.value, got[name].Value); diff != "" || got[name].From != want.from {
			t.Errorf("%s: from %s, want %s; %s", name, got[name].From, want.from, diff)
		}
	}
}

func TestEverySettingIsPrintedAndCanBeSetInEveryWay(t *testing.T) {
	values := map[string]string{
		"server": "http://h:1", "store": "redis://h:1", "lanes": "8", "namespace": "n", "sync": "always", "wait-replicas": "1",
		"redis-publish": "true", "listen": "127.0.0.1:1", "roles": "web", "allow-callbacks-to": "10.0.0.0/8", "drain": "1m", "log-level": "debug", "token": "t", "root-token": "t",
		"metrics-log": "10s", "otlp-endpoint": "http://h:4318", "max-bytes": "1000000", "high-water": "90", "low-water": "60",
	}
	for _, s := range settingsTable() {
		value, known := values[s.name]
		switch {
		case s.name == "json": // printed asks for it
			continue
		case s.name == "config" || strings.HasPrefix(s.name, "tls-") || strings.HasSuffix(s.name, "-file"):
			continue // files, which have tests of their own
		case !known:
			t.Fatalf("the test has no value for %s", s.name)
		}
		t.Run(s.name, func(t *testing.T) {
			path := fileOf(t, "f.yaml", s.name+": "+value)
			onRedis := []string{"--config", path, "--store", "redis://h:1"}
			if s.name == "store" {
				onRedis = onRedis[:2]
			}
			if got := printed(t, onRedis...)[s.name].From; got != path {
				t.Errorf("in the file it comes from %s", got)
			}
			if !s.noFlag {
				if got := printed(t, "--store", "redis://h:1", "--"+s.name+"="+value)[s.name].From; got != "--"+s.name {
					t.Errorf("as a flag it comes from %s", got)
				}
			}
			t.Setenv("MILLRACE_STORE", "redis://h:1")
			t.Setenv(s.variable(), value)
			if got := printed(t)[s.name].From; got != s.variable() {
				t.Errorf("in the environment it comes from %s", got)
			}
		})
	}
}

func TestEveryFaultOfTheSettingsIsInOneMessage(t *testing.T) {
	path := fileOf(t, "house.yaml", "lanez: 3\ntls:\n  cert: x\ndrain: soon\nlog-level: [a]\nnamespace:\nconfig: other.yaml\n")
	t.Setenv("MILLRACE_ROOT_TOKEN", "s3cret")
	t.Setenv("MILLRACE_WAIT_REPLICAS", "many")
	t.Setenv("MILLRACE_TOKEN", "")
	args := []string{
		"--config", path, "--root-token-file", fileOf(t, "token", "other"), "--store", "memory:", "--lanes", "3", "--listen", "7070",
		"--roles", "web,boss", "--allow-callbacks-to", "10.0.0.0", "--tls-key", "k", "--redis-publish=maybe", "--drain", "-1s",
	}
	wants := []string{
		path + ": lanez is not a setting; did you mean lanes?", path + ": tls.cert is not a setting; did you mean tls-cert?",
		path + ": log-level must be one value, not a list", path + ": namespace has no value", path + ": config cannot be set",
		"MILLRACE_ROOT_TOKEN and --root-token-file both give the root token", "MILLRACE_WAIT_REPLICAS must be a whole number", "MILLRACE_TOKEN is set, but empty",
		"--lanes must be a power of two", "--listen must be HOST:PORT", "--roles must be web, deliver or monitor", "--allow-callbacks-to must be a network",
		"--tls-cert and --tls-key go together", "--redis-publish must be true, false or auto", "--drain must be a duration",
	}
	for _, verb := range [][]string{{"serve"}, {"config", "check"}, {"config", "print"}} {
		code, out, errs := command(t, append(verb, args...)...)
		if code != exitUsage || out != "" {
			t.Errorf("%v: exit %d, %q", verb, code, out)
		}
		for _, want := range wants {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: %q is not in\n%s", verb, want, errs)
			}
		}
		if strings.Contains(errs, "s3cret") {
			t.Errorf("%v shows the token", verb)
		}
	}
}

func TestAFileOfSettingsThatCannotBeReadIsAFault(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i, name := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		before := string(rune('a' + i))
		laughs += fmt.Sprintf("%s: &%s [*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s]\n", name, name, before, before, before, before, before, before, before, before, before)
	}
	for name, c := range map[string]struct{ content, want string }{
		"twice": {"lanes: 1\nlanes: 2\n", "line 2"}, "not YAML": {"\tlanes", "cannot start any token"}, "a list": {"- lanes", "line 1"}, "laughs": {laughs, "alias"},
	} {
		path := fileOf(t, "house.yaml", c.content)
		if code, _, errs := command(t, "config", "check", "--config", path); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %.300s", name, code, errs)
		}
	}
	if code, _, errs := command(t, "stats", "--config", filepath.Join(t.TempDir(), "none.yaml")); code != exitUsage || !strings.Contains(errs, "none.yaml") {
		t.Errorf("no file: exit %d, %s", code, errs)
	}
	if code, out, errs := command(t, "config", "check", "--config", fileOf(t, "empty.yaml", "# nothing\n")); code != exitOK || out != "the settings are good\n" {
		t.Errorf("an empty file: exit %d, %s", code, errs)
	}
}

func TestAVariableThatLooksLikeASettingIsWarnedOf(t *testing.T) {
	t.Setenv("MILLRACE_STOR", "memory:")
	t.Setenv("MILLRACE_SOMETHING_ELSE", "x")
	code, _, errs := command(t, "config", "check")
	if want := "millrace: warning: MILLRACE_STOR is not a setting; did you mean MILLRACE_STORE?\n"; code != exitOK || errs != want {
		t.Errorf("exit %d, %q, want %q", code, errs, want)
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	t.Setenv("MILLRACE_ROOT_TOKEN", "s3cret-root")
	t.Setenv("MILLRACE_STORE", "redis-sentinel://user:s3cret-p%40ss@a:1,b:2/master")
	token := fileOf(t, "token", "s3cret-token\n")
	for _, format := range []string{"--json=true", "--json=false"} {
		code, out, errs := command(t, "config", "print", "--token-file", token, format)
		if code != exitOK || strings.Contains(out+errs, "s3cret") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		for _, want := range []string{"[redacted]", "redis-sentinel://user:[redacted]@a:1,b:2/master", token, "MILLRACE_ROOT_TOKEN"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
	}
}

func TestASettingOfAnotherEngineIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--store", "embedded:x", "--wait-replicas", "1"}, {"--store", "memory:", "--redis-publish"}, {"--store", "redis://h", "--sync", "interval"},
	} {
		if code, _, errs := command(t, append([]string{"config", "check"}, args...)...); code != exitUsage || !strings.Contains(errs, " only: ") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}

func TestAClientIsNotConcernedWithTheSettingsOfServe(t *testing.T) {
	url := server(t, "--store", "memory:")
	t.Setenv("MILLRACE_LANES", "3")
	if code, _, errs := command(t, "stats", "--config", fileOf(t, "f.yaml", "server: "+url+"\nsync: never\n")); code != exitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestTheTokenOfAClientCanBeInAFile(t *testing.T) {
	url := server(t, "--store", "memory:", "--root-token-file", fileOf(t, "root", "s3cret"))
	t.Setenv("MILLRACE_TOKEN_FILE", fileOf(t, "token", "s3cret\n"))
	if code, _, errs := command(t, "stats", "--server", url); code != exitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// settingsDoc is the table of settings as docs/settings.md has it.
func settingsDoc() string {
	var b strings.Builder
	b.WriteString("| key in the file | variable | flag | default | used by | what it is |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, s := range settingsTable() {
		code := func(s string) string {
			if s == "" {
				return ""
			}
			return "`" + s + "`"
		}
		key, name, used := code(s.name), code("--"+s.name), s.commands+" command"
		if s.commands != everyCommand {
			used = strings.Join(strings.Fields(s.commands), ", ")
		}
		if s.name == "config" {
			key = ""
		}
		if s.noFlag {
			name = ""
		}
		help := s.help
		if s.secret {
			help += " (a secret: never shown)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", key, code(s.variable()), name, code(s.preset), used, strings.ReplaceAll(help, "|", "\\|"))
	}
	return b.String()
}

func TestTheDocumentOfTheSettingsIsTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "settings.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- settings -->\n", "<!-- /settings -->"
	before, rest, ok := strings.Cut(string(content), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the document has no place for the table")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+settingsDoc()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(settingsDoc(), old); diff != "" {
		t.Errorf("docs/settings.md differs from the table; run the tests of this package with -update (-want +got):\n%s", diff)
	}
}

func TestTheRootTokenIsShownToAServerWhereverItIsSet(t *testing.T) {
	token := fileOf(t, "token", "s3cret\n")
	url := server(t, "--store", "memory:", "--root-token-file", token)
	t.Setenv("MILLRACE_SERVER", url)
	for name, content := range map[string]string{"the token": "root-token: s3cret\n", "its file": "root-token-file: " + token + "\n", "another is meant": "token: s3cret\nroot-token: other\n"} {
		if code, _, errs := command(t, "stats", "--config", fileOf(t, "millrace.yaml", content)); code != exitOK {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
	if code, _, errs := command(t, "stats", "--config", fileOf(t, "millrace.yaml", "root-token: other\n")); code != exitFailure {
		t.Errorf("a wrong one: exit %d, %s", code, errs)
	}
	if code, _, errs := command(t, "stats", "--config", fileOf(t, "millrace.yaml", "root-token-file: /nosuch/token\n")); code != exitUsage || !strings.Contains(errs, "root-token-file") {
		t.Errorf("no such file: exit %d, %s", code, errs)
	}
}
