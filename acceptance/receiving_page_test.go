package acceptance

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/webhook"
)

// The receivers of the page believe what is signed, and nothing else.
func TestTheReceiversOfTheReceivingPageVerify(t *testing.T) {
	ran := 0
	for _, k := range fenced(t, "../docs/receiving.md") {
		command := map[string][]string{"go": {"go", "run"}, "python": {"python3"}}[k.language]
		if command == nil {
			continue
		}
		ran++
		t.Run(k.language, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "main."+map[string]string{"go": "go", "python": "py"}[k.language])
			if err := os.WriteFile(file, []byte(k.text), 0o600); err != nil {
				t.Fatal(err)
			}
			checkReceiver(t, append(command, file))
		})
	}
	if ran != 2 {
		t.Errorf("the page has %d receivers that can be run, want 2", ran)
	}
}

func checkReceiver(t *testing.T, command []string) {
	t.Helper()
	address, secret := freeAddress(t), webhook.NewSecret()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = ".."
	cmd.Env = append(cleanEnvironment(), "LISTEN="+address, "WEBHOOK_SECRET="+secret)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // `go run` has a child that outlives it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var running sync.WaitGroup
	running.Go(func() { _ = cmd.Run() }) // it ends when it is killed
	t.Cleanup(func() { stop(); running.Wait() })
	body := `[{"id":"a-1"}]`
	if got := post(t, address, secret, body, body); got != http.StatusNoContent {
		t.Errorf("a signed request is answered %d", got)
	}
	if got := post(t, address, webhook.NewSecret(), body, body); got != http.StatusUnauthorized {
		t.Errorf("one with another secret is answered %d", got)
	}
	if got := post(t, address, secret, body, `[{"id":"a-2"}]`); got != http.StatusUnauthorized {
		t.Errorf("one with another body is answered %d", got)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// post sends a request whose signature is that of another body, and waits for a receiver that is starting.
func post(t *testing.T, address, secret, signed, body string) int {
	t.Helper()
	now := time.Now()
	signature, err := webhook.Sign([]string{secret}, "b-1", now, []byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := now.Add(60 * time.Second); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/hook", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(webhook.HeaderID, "b-1")
		req.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		req.Header.Set(webhook.HeaderSignature, signature)
		answer, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = answer.Body.Close()
			return answer.StatusCode
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // it is starting
	}
}
