package enginetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
)

// crashEnv tells the test binary that it is the child, and where its store and ledgers lie.
const crashEnv = "MILLRACE_CRASH_CHILD"

// Kills opens a store in a child process, under load, and kills it again and
// again: under load and while it recovers. Then nothing acknowledged may be lost
// and nothing may be there that should not. The test that calls it is run in the
// child too, by its name.
type Kills struct {
	Open  func(dir string) (millrace.Engine, error)
	Times int // 20 if 0
}

// Run is the test: the parent's part, or the child's.
func (k Kills) Run(t *testing.T) {
	if dir := os.Getenv(crashEnv); dir != "" {
		k.child(t, dir)
		return
	}
	if k.Times == 0 {
		k.Times = 20
	}
	dir := t.TempDir()
	killed := k.killAll(t, dir)
	if killed.loading < k.Times/4 || killed.recovering < k.Times/8 {
		t.Fatalf("killed %d times under load and %d times while it recovered: the fault did not happen", killed.loading, killed.recovering)
	}
	k.audit(t, dir)
	t.Logf("killed %d times under load, %d times while it recovered", killed.loading, killed.recovering)
}

// kills counts what the child was doing when it was killed.
type kills struct{ loading, recovering int }

func (k Kills) killAll(t *testing.T, dir string) kills {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var n kills
	for round := range k.Times {
		loading := k.killOne(t, dir, round, random)
		if loading {
			n.loading++
		} else {
			n.recovering++
		}
	}
	return n
}

// killOne starts the child and kills it: in two of three rounds under load, in
// the others while it opens the store.
func (k Kills) killOne(t *testing.T, dir string, round int, random *rand.Rand) (loading bool) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.timeout", "120s")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s", crashEnv, dir), fmt.Sprintf("%s_ROUND=%d", crashEnv, round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	awaitLine(t, said, "opening")
	if round%3 == 2 {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
	} else {
		awaitLine(t, said, "opened")
		time.Sleep(10*time.Millisecond + time.Duration(random.IntN(490))*time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	loading = round%3 != 2
	for said.Scan() {
		loading = loading || said.Text() == "opened"
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself before it was killed")
	}
	return loading
}

func awaitLine(t *testing.T, s *bufio.Scanner, line string) {
	t.Helper()
	for s.Scan() {
		if s.Text() == line {
			return
		}
		t.Logf("child: %s", s.Text())
	}
	t.Fatalf("the child ended before it said %q", line)
}

// child opens the store and runs the load until it is killed.
func (k Kills) child(t *testing.T, dir string) {
	round := os.Getenv(crashEnv + "_ROUND")
	ledger, err := FileLedger(filepath.Join(dir, "ledger-"+round))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("opening")
	e, err := k.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	fmt.Println("opened")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Prepare(ctx, e); err != nil {
		t.Fatal(err)
	}
	(&Load{Engine: e, Ledger: ledger, Name: "round" + round, Lease: 150 * time.Millisecond}).Run(ctx)
	t.Error("nobody killed the child")
}

// audit opens the store once more and judges it by all ledgers.
func (k Kills) audit(t *testing.T, dir string) {
	var h History
	for round := range k.Times {
		part, err := ReadHistory(filepath.Join(dir, fmt.Sprintf("ledger-%d", round)))
		if err != nil {
			t.Fatal(err)
		}
		h = append(h, part...)
	}
	e, err := k.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatalf("open after the last kill: %v", err)
	}
	if err := Audit(t.Context(), e, h); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if h.Acknowledged("publish") < k.Times || h.Acknowledged("settle") < k.Times || h.Acknowledged("outcome") < k.Times/2 {
		t.Errorf("the ledger holds too little to judge: %d entries", len(h))
	}
	for _, op := range managementOps() {
		if h.Acknowledged(op) == 0 {
			t.Errorf("no call of %s was acknowledged", op)
		}
	}
	t.Logf("judged %d entries of the ledger", len(h))
}
