package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// masterName is what the Sentinel calls its master.
const masterName = "mill"

// Watched is a server with a replica, and a Sentinel that watches them.
type Watched struct {
	t        TB
	Servers  []*Server // two: a master and its replica, in either role
	sentinel *Server
}

// Sentinel starts a master, a replica and a Sentinel, and returns when the
// Sentinel knows both.
func Sentinel(t TB) *Watched {
	t.Helper()
	master := Single(t)
	w := &Watched{t: t, Servers: []*Server{master, Replica(t, master)}}
	if err := w.start(t.TempDir(), master); err != nil {
		t.Fatalf("start sentinel: %v", err)
	}
	t.Cleanup(w.sentinel.Stop)
	err := await("the sentinel to know the replica", func() (bool, error) {
		reply, err := w.sentinel.Call("SENTINEL", "REPLICAS", masterName)
		list, _ := reply.([]any)
		return len(list) == 1 && !strings.Contains(fmt.Sprint(list), "master_link_down"), err
	})
	if err != nil {
		t.Fatalf("start sentinel: %v", err)
	}
	return w
}

// URL is the master's address by way of the Sentinel.
func (w *Watched) URL() string { return "redis-sentinel://" + w.sentinel.Addr() + "/" + masterName }

// Master is the server that the Sentinel names as the master.
func (w *Watched) Master() *Server {
	reply, err := w.sentinel.Call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	addr, _ := reply.([]any)
	if err != nil || len(addr) != 2 {
		w.t.Fatalf("ask the sentinel: %v", err)
	}
	for _, s := range w.Servers {
		if strconv.Itoa(s.port) == fmt.Sprint(addr[1]) {
			return s
		}
	}
	w.t.Fatalf("the sentinel names a stranger: %v", addr)
	return nil
}

// Failover makes the replica the master and returns when it is.
func (w *Watched) Failover() {
	old := w.Master()
	err := await("the sentinel to find its replica good", func() (bool, error) {
		_, err := w.sentinel.Call("SENTINEL", "FAILOVER", masterName)
		return err == nil, err
	})
	if err != nil {
		w.t.Fatalf("fail over: %v", err)
	}
	err = await("the failover", func() (bool, error) {
		now := w.Master()
		return now != old && role(now) == "master" && role(old) == "slave", nil
	})
	if err != nil {
		w.t.Fatalf("fail over: %v", err)
	}
}

// role is what a server is, or nothing while it does not answer: the Sentinel
// closes the connections of a server whose role it changes.
func role(s *Server) string {
	reply, err := s.Call("ROLE")
	if list, ok := reply.([]any); err == nil && ok && len(list) > 0 {
		return fmt.Sprint(list[0])
	}
	return ""
}

func (w *Watched) start(dir string, master *Server) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 2000\nsentinel failover-timeout %s 10000\n",
		port, dir, masterName, master.port, masterName, masterName)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", conf, err)
	}
	w.sentinel = &Server{t: w.t, dir: dir, port: port, args: []string{conf, "--sentinel"}}
	return w.sentinel.start()
}
