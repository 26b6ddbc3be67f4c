package redistest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// child starts a server, tells its pid and waits to be killed.
func child() {
	s, err := redistest.Start(os.Getenv("REDISTEST_CHILD"))
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(s.Pid()) + "\n")
	select {}
}

func TestWhatAServerFsyncedOutlivesAKill(t *testing.T) {
	s := redistest.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("SET", "k", "v")
	s.Restart()
	if got := s.Do("GET", "k"); got != "v" {
		t.Fatalf("got %q, want v", got)
	}
}

// Without the mending, half of the transaction happens at the second restart.
func TestATransactionThatAKillCutOffNeverHappens(t *testing.T) {
	s := redistest.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 2) return 1", "0")
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("the log is %v, %v", logs, err)
	}
	whole, err := os.Stat(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(logs[0], whole.Size()-20); err != nil { // the end of the transaction, and of its last command
		t.Fatal(err)
	}
	s.Restart()
	s.Do("EVAL", "redis.call('SET', 'c', 1) redis.call('SET', 'd', 2) return 1", "0")
	s.Restart()
	if got := s.Do("MGET", "a", "b", "c", "d"); got != "[<nil> <nil> 1 2]" {
		t.Errorf("got %s", got)
	}
}

func TestAPausedServerAnswersOnlyAfterResume(t *testing.T) {
	s := redistest.Single(t)
	s.Pause()
	answered := make(chan error, 1)
	go func() { _, err := s.Call("PING"); answered <- err }()
	select {
	case <-answered:
		t.Fatal("a paused server answered")
	case <-time.After(100 * time.Millisecond):
	}
	s.Resume()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestAReplicaHasWhatItsMasterHas(t *testing.T) {
	t.Parallel() // it mostly waits
	m := redistest.Single(t)
	r := redistest.Replica(t, m)
	m.Do("SET", "k", "v")
	eventually(t, "the replica gets the key", func() bool { return r.Do("GET", "k") == "v" })
}

func TestAClusterMovesASlotWithItsKeys(t *testing.T) {
	c := redistest.Cluster(t, 3)
	const slot = 12182 // of "foo"
	from := c.Owner(slot)
	c.Servers[from].Do("SET", "foo", "bar")
	to := (from + 1) % 3
	c.MoveSlot(slot, to)
	if got := c.Owner(slot); got != to {
		t.Fatalf("slot is at %d, want %d", got, to)
	}
	if got := c.Servers[to].Do("GET", "foo"); got != "bar" {
		t.Fatalf("got %q, want bar", got)
	}
}

func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	redistest.Single(t) // fails or skips without a redis-server
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(line[:n-1]))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the server ends", func() bool { return syscall.Kill(pid, 0) != nil })
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestASentinelPromotesTheReplica(t *testing.T) {
	t.Parallel() // it mostly waits
	w := redistest.Sentinel(t)
	old := w.Master()
	w.Failover()
	if w.Master() == old {
		t.Fatal("the master is the same")
	}
}
