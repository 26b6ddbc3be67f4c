package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a server may take to get where it should be.
const patience = 30 * time.Second

// Server is one redis-server. Its port and directory outlive a Kill, so that a
// Restart finds what was on disk.
type Server struct {
	t    TB // nil if it was made by Start
	dir  string
	port int
	args []string
	proc *process
}

// Single starts one server with further settings, such as "--appendonly",
// "yes", and ends it with the test. Without any it keeps nothing on disk.
func Single(t TB, args ...string) *Server {
	t.Helper()
	need(t)
	s, err := Start(t.TempDir(), args...)
	if err != nil {
		t.Fatalf("start redis: %v", err)
	}
	s.t = t
	t.Cleanup(s.Stop)
	return s
}

// Start starts one server in a directory. Whoever calls it calls Stop.
func Start(dir string, args ...string) (*Server, error) {
	s := &Server{dir: dir, args: args}
	// Another process may take a free port before the server does: try again.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address as the engine takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Port is the server's port on the loopback address.
func (s *Server) Port() int { return s.port }

// Dir is where the server keeps its files.
func (s *Server) Dir() string { return s.dir }

// Pid is the process that serves now.
func (s *Server) Pid() int { return s.proc.pid }

// Call sends a command and returns its reply: a string, an int64, a []any or nil.
func (s *Server) Call(args ...string) (any, error) { return call(s.Addr(), 10*time.Second, args...) }

// Do sends a command, ends the test if it fails, and returns the reply as text.
func (s *Server) Do(args ...string) string {
	reply, err := s.Call(args...)
	if err != nil {
		s.fail(err)
	}
	return fmt.Sprint(reply)
}

// Info is one field of the server's INFO.
func (s *Server) Info(field string) string {
	for line := range strings.SplitSeq(s.Do("INFO"), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() { s.proc.kill() }

// Restart starts the server again on its port and directory, and returns when
// it has loaded what is there. A server that still runs is killed first. Its log is
// mended before, as docs/operations.md asks of whoever runs one.
func (s *Server) Restart() {
	s.Kill()
	if err := s.mend(); err != nil {
		s.fail(err)
	}
	if err := s.start(); err != nil {
		s.fail(err)
	}
}

// mend takes off a log's end what was not written whole. Redis itself keeps the
// commands of a transaction that was cut off within one of them, and carries them
// out with the transaction after it when it is started once more.
func (s *Server) mend() error {
	manifest := filepath.Join(s.dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(manifest); err != nil {
		return nil // it keeps no log
	}
	cmd := exec.Command("redis-check-aof", "--fix", manifest)
	cmd.Stdin = strings.NewReader("y\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mend the log: %w: %s", err, out)
	}
	return nil
}

// Pause freezes the server: it keeps its connections and answers nothing.
func (s *Server) Pause() { s.proc.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.proc.signal(syscall.SIGCONT) }

// Stop ends the server. Single does so by itself.
func (s *Server) Stop() { s.proc.stop() }

func (s *Server) start() error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--loglevel", "warning", "--daemonize", "no", "--shutdown-timeout", "0",
	}
	if slices.Contains(s.args, "--sentinel") {
		args = nil
	}
	proc, err := startProcess(s.dir, append(args, s.args...))
	if err != nil {
		return err
	}
	s.proc = proc
	if err := s.awaitReady(); err != nil {
		proc.kill()
		return err
	}
	return nil
}

func (s *Server) awaitReady() error {
	return await("redis-server at "+s.Addr(), func() (bool, error) {
		if s.proc.ended() {
			log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
			return false, fmt.Errorf("redis-server ended: %w: %s", errEnded, log)
		}
		// A server that is loading or wants a password is told by its error.
		_, err := call(s.Addr(), time.Second, "PING")
		return err == nil || strings.Contains(err.Error(), "NOAUTH"), err
	})
}

func (s *Server) fail(err error) {
	if s.t == nil {
		panic(err)
	}
	s.t.Helper()
	s.t.Fatalf("redis at %s: %v", s.Addr(), err)
}

// errEnded says that there is nothing to wait for any more.
var errEnded = errors.New("it is gone")

// await calls f until it is satisfied.
func await(what string, f func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); ; <-tick.C {
		ok, err := f()
		if ok {
			return nil
		}
		if errors.Is(err, errEnded) || time.Now().After(until) {
			return errors.Join(fmt.Errorf("waited in vain for %s", what), err)
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
