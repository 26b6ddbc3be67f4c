package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/client"
)

// program builds the binary once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millrace-bin-")
	if err != nil {
		return "", err
	}
	servers.mu.Lock()
	servers.stop = append(servers.stop, func() { _ = os.RemoveAll(dir) })
	servers.mu.Unlock()
	path := filepath.Join(dir, "millrace")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "../cmd/millrace").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

// process is a running `millrace serve`.
type process struct {
	cmd *exec.Cmd
	url string
	log *bytes.Buffer
}

// launch starts the server and waits until it says where it listens.
func launch(t *testing.T, listen, store string, args ...string) *process {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log: &bytes.Buffer{}}
	p.cmd = exec.CommandContext(context.Background(), binary, append([]string{"serve", "--listen", listen, "--store", store}, args...)...)
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v: %s", err, p.log)
	}
	p.url = regexp.MustCompile(`http://\S+`).FindString(line)
	return p
}

// kill is kill -9; a second one does nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// terminate is SIGTERM, and the exit code.
func (p *process) terminate(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// freeze is SIGSTOP. It returns when every thread of the process stands still: the signal alone
// says nothing of when, and on a busy machine some thread still does what it was about to do.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
		return
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Errorf("the server was to stand still: status %d, %v", status, err)
		}
		return
	}
}

// thaw is SIGCONT.
func (p *process) thaw(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{RetryFor: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAServerKilledUnderLoadLosesNothingThatWasAnswered(t *testing.T) {
	for engine, store := range map[string]func() string{
		"embedded": func() string { return "embedded:" + filepath.Join(t.TempDir(), "store") },
		"redis":    func() string { return redis(t) },
	} {
		t.Run(engine, func(t *testing.T) { killUnderLoad(t, store()) })
	}
}

func killUnderLoad(t *testing.T, store string) {
	namespace := fmt.Sprintf("t%d", namespaces.Add(1))
	p := launch(t, "127.0.0.1:0", store, "--namespace", namespace)
	listen := p.url[len("http://"):]
	c := dial(t, p.url)
	h := &house{Backbone: c}
	h.queue(t, "all", ".")
	const publishers, kills = 4, 5
	stop := make(chan struct{})
	var load sync.WaitGroup
	answered := make([]map[string]uint64, publishers)
	for i := range publishers {
		answered[i] = map[string]uint64{}
		load.Go(func() { publishUntil(t, c, stop, i, answered[i]) })
	}
	for range kills {
		time.Sleep(200 * time.Millisecond)
		p.kill()
		p = launch(t, listen, store, "--namespace", namespace)
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	load.Wait()
	seen := drain(t, c)
	total := 0
	for _, ids := range answered {
		total += len(ids)
		for id, seq := range ids {
			if seen[id] != seq {
				t.Errorf("%s was answered with seq %d and found with %d", id, seq, seen[id])
			}
		}
	}
	if total == 0 || len(seen) != total {
		t.Errorf("%d events answered, %d found", total, len(seen))
	}
	if code := p.terminate(t); code != 0 {
		t.Errorf("SIGINT: exit %d: %s", code, p.log)
	}
}

// publishUntil publishes events one by one, each repeated until it is answered.
func publishUntil(t *testing.T, c *client.Client, stop <-chan struct{}, who int, answered map[string]uint64) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		e := millrace.Event{ID: fmt.Sprintf("%d-%d", who, n), Topic: "orders", Type: "created", Tenant: fmt.Sprint("t", who)}
		for {
			got, err := c.Publish(context.Background(), e)
			if err == nil {
				answered[e.ID] = got[0].Seq
				break
			}
			if code := millrace.CodeOf(err); code != millrace.CodeUnavailable && code != millrace.CodeOutcomeUnknown && code != millrace.CodeDraining {
				t.Errorf("publish: %v", err)
				return
			}
		}
	}
}

// drain leases and acks everything and returns the seq of each event; an event
// under two seqs is an error.
func drain(t *testing.T, c *client.Client) map[string]uint64 {
	t.Helper()
	seen := map[string]uint64{}
	for {
		got, err := c.Queues().Lease(t.Context(), "all", millrace.LeaseOptions{Max: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return seen
		}
		for _, m := range got {
			if seq, twice := seen[m.Event.ID]; twice && seq != m.Event.Seq {
				t.Errorf("%s is stored twice, as %d and %d", m.Event.ID, seq, m.Event.Seq)
			}
			seen[m.Event.ID] = m.Event.Seq
		}
		ack(t, c, "all", got...)
	}
}

func TestASecondServerOnTheSameDirectoryIsRefusedClearly(t *testing.T) {
	store := "embedded:" + filepath.Join(t.TempDir(), "store")
	launch(t, "127.0.0.1:0", store)
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "serve", "--listen", "127.0.0.1:0", "--store", store).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("in use")) {
		t.Errorf("got %v: %s", err, out)
	}
}

func TestAStoreMadeOtherwiseIsRefusedClearly(t *testing.T) {
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for engine, store := range map[string]string{"embedded": "embedded:" + filepath.Join(t.TempDir(), "store"), "redis": redis(t)} {
		t.Run(engine, func(t *testing.T) {
			namespace := fmt.Sprintf("t%d", namespaces.Add(1))
			launch(t, "127.0.0.1:0", store, "--lanes", "2", "--namespace", namespace).kill()
			out, err := exec.CommandContext(t.Context(), binary, "serve", "--listen", "127.0.0.1:0", "--store", store, "--lanes", "4", "--namespace", namespace).CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("lanes")) {
				t.Errorf("got %v: %s", err, out)
			}
		})
	}
}

func TestAServerThatStopsLetsWaitingLeasesGo(t *testing.T) {
	p := launch(t, "127.0.0.1:0", "memory:")
	c := dial(t, p.url)
	h := &house{Backbone: c}
	h.queue(t, "all", ".")
	answered := make(chan error, 1)
	go func() {
		_, err := c.Queues().Lease(context.Background(), "all", millrace.LeaseOptions{Wait: 30 * time.Second})
		answered <- err
	}()
	time.Sleep(200 * time.Millisecond) // for the lease to be waiting: nothing tells
	began := time.Now()
	if code := p.terminate(t); code != 0 {
		t.Errorf("exit %d: %s", code, p.log)
	}
	if err := <-answered; err != nil {
		t.Errorf("the waiting lease: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
