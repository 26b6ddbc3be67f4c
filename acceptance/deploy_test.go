package acceptance

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/client"
)

// procfile returns the processes of a Procfile, by name.
func procfile(t *testing.T) map[string]string {
	t.Helper()
	processes := map[string]string{}
	for line := range strings.Lines(read(t, "../deploy/Procfile")) {
		name, command, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("a line of the Procfile has no name: %s", line)
		}
		processes[name] = command
	}
	return processes
}

// buildMillrace builds the binary into a folder, to be put on the PATH.
func buildMillrace(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	bash(t, "go build -o "+filepath.Join(folder, "millrace")+" ./cmd/millrace")
	return folder
}

// startProcess runs a line of the Procfile as its runner would, on a free port, and
// returns its address.
func startProcess(t *testing.T, name, command string, env ...string) (server string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Env = append(append(cleanEnvironment(), strings.ToUpper(name)+"_LISTEN=127.0.0.1:0"), env...)
	return started(t, cmd, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }, func(err error) bool { return err == nil })
}

func TestTheThreeRolesOfTheProcfileWorkTogetherOnOneRedis(t *testing.T) {
	store, path := redis(t), buildMillrace(t)+string(os.PathListSeparator)+os.Getenv("PATH")
	servers := map[string]string{}
	for name, command := range procfile(t) {
		servers[name] = startProcess(t, name, command, "PATH="+path, "MILLRACE_STORE="+store, "MILLRACE_NAMESPACE=procfile")
	}
	c, err := client.New(servers["web"], client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	checkRoles(t, c)
	checkLeaseEndsByTheMonitor(t, c)
	for _, name := range []string{"deliver", "monitor"} {
		if got := statusOf(t, servers[name]+"/readyz"); got != http.StatusOK {
			t.Errorf("%s answers /readyz with %d", name, got)
		}
		if got := statusOf(t, servers[name]+"/v1/queues"); got != http.StatusNotFound {
			t.Errorf("%s answers /v1/queues with %d, want 404: it is not the web role's", name, got)
		}
	}
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func checkRoles(t *testing.T, c *client.Client) {
	t.Helper()
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, n := range nodes {
		roles = append(roles, strings.Join(n.Roles, ","))
	}
	if slices.Sort(roles); !slices.Equal(roles, []string{"deliver", "monitor", "web"}) {
		t.Errorf("the nodes have the roles %v", roles)
	}
}

// The web process runs no reaper: a lease that ends and comes back is the monitor's work.
func checkLeaseEndsByTheMonitor(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	if _, _, err := c.Queues().Put(ctx, "emails", millrace.DefaultQueueSpec(":orders:")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, millrace.Event{Topic: "orders", Type: "created"}); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 2; attempt++ {
		messages, err := c.Queues().Lease(ctx, "emails", millrace.LeaseOptions{Max: 1, Wait: 30 * time.Second, Lease: 100 * time.Millisecond})
		if err != nil || len(messages) != 1 || messages[0].Attempt != attempt {
			t.Fatalf("lease %d answered %+v, %v", attempt, messages, err)
		}
	}
}

// What the files under deploy name must exist: a setting misspelt there is found by nobody else.
func TestTheDeploymentsNameSettingsThatExist(t *testing.T) {
	help := bash(t, "go run ./cmd/millrace serve --help")
	named := regexp.MustCompile(`MILLRACE_[A-Z_]+`)
	for _, file := range files(t, "../deploy/*") {
		for _, name := range named.FindAllString(read(t, file), -1) {
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "MILLRACE_"), "_", "-"))
			if name != "MILLRACE_ROOT_TOKEN" && !strings.Contains(help, flag+" ") {
				t.Errorf("%s sets %s, but serve has no %s", file, name, flag)
			}
		}
	}
}

func TestTheComposeFileRunsTheRolesOfTheProcfile(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
			Ports       []string          `yaml:"ports"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../deploy/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for name := range procfile(t) {
		if role := compose.Services[name].Environment["MILLRACE_ROLES"]; role != name {
			t.Errorf("the compose file's %s has the role %q", name, role)
		}
		if compose.Services[name].Environment["MILLRACE_STORE"] == "" {
			t.Errorf("the compose file's %s has no store", name)
		}
		for _, port := range compose.Services[name].Ports { // a fixed one is taken by the first of several
			if !regexp.MustCompile(`^127\.0\.0\.1:\$\{[A-Z_]+:-\d+\}:\d+$`).MatchString(port) {
				t.Errorf("the compose file's %s cannot be scaled: it has the port %s", name, port)
			}
		}
	}
	if len(compose.Services["web"].Ports) == 0 {
		t.Error("the compose file's web has no port")
	}
}

// Without a store that is named, three processes would fight over one directory.
func TestTheProcessesOfTheProcfileDoNotStartWithoutAStore(t *testing.T) {
	for name, command := range procfile(t) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+command)
		cmd.Env = append(cleanEnvironment(), "PATH="+t.TempDir()+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "set MILLRACE_STORE") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

func TestTheImageIsBuiltFromAllThatItNeedsAndFromNoData(t *testing.T) {
	var ignored []string
	for line := range strings.Lines(read(t, "../.dockerignore")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			ignored = append(ignored, line)
		}
	}
	for _, must := range []string{".git", "millrace-data", "bin"} {
		if !slices.Contains(ignored, must) {
			t.Errorf("%s may get into the image", must)
		}
	}
	root := strings.TrimSpace(bash(t, "go list -m -f '{{.Dir}}'")) + "/"
	list := bash(t, "go list -deps -f '{{$d := .Dir}}{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$d}}/{{.}}\n{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}\n{{end}}{{end}}{{end}}' ./cmd/millrace")
	needed := append(strings.Fields(list), root+"go.mod", root+"go.sum")
	if len(needed) < 50 {
		t.Fatalf("only %d files are needed", len(needed))
	}
	for _, file := range needed {
		file = strings.TrimPrefix(file, root)
		for _, pattern := range ignored {
			if covers(t, pattern, file) {
				t.Errorf("%s is needed, and %s ignores it", file, pattern)
			}
		}
	}
}

// covers reports whether a line of .dockerignore covers a file: it names a file or a
// folder from the root on, or after **/ anywhere.
func covers(t *testing.T, pattern, file string) bool {
	t.Helper()
	anywhere, everywhere := strings.CutPrefix(pattern, "**/")
	if everywhere {
		pattern, file = anywhere, filepath.Base(file)
	}
	for part := file; part != "."; part = filepath.Dir(part) {
		match, err := filepath.Match(pattern, part)
		if err != nil {
			t.Fatal(err)
		}
		if match {
			return true
		}
	}
	return false
}
