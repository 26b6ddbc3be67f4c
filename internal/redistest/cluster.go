package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Slots is the number of hash slots of a Cluster.
const Slots = 16384

// Nodes is a Redis Cluster.
type Nodes struct {
	t        TB
	args     []string
	Servers  []*Server // the masters
	Replicas []*Server // one of each master, after AddReplicas
	ids      []string
}

// Cluster starts a Redis Cluster of so many masters, with the slots shared
// evenly, and returns when all of them see it whole.
func Cluster(t TB, masters int, args ...string) *Nodes {
	t.Helper()
	need(t)
	c, err := StartCluster(masters, func() string { return t.TempDir() }, args...)
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	c.t = t
	for _, s := range c.Servers {
		s.t = t
	}
	t.Cleanup(c.Stop)
	return c
}

// StartCluster does the same outside of tests; dir makes a directory for each
// server. Whoever calls it calls Stop.
func StartCluster(masters int, dir func() string, args ...string) (*Nodes, error) {
	c := &Nodes{args: args}
	for range masters {
		s, err := startNode(dir(), args)
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.Servers = append(c.Servers, s)
	}
	if err := c.join(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func startNode(dir string, args []string) (*Server, error) {
	bus, err := freePort()
	if err != nil {
		return nil, err
	}
	return Start(dir, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
		"--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "5000",
		"--repl-diskless-sync-delay", "0",
	}, args...)...)
}

// AddReplicas gives every master one replica and returns when they have caught up.
func (c *Nodes) AddReplicas() {
	for i := range c.Servers {
		s, err := startNode(c.t.TempDir(), c.args)
		if err != nil {
			c.fail(err)
		}
		s.t = c.t
		c.t.Cleanup(s.Stop)
		c.Replicas = append(c.Replicas, s)
		if err := c.meet(s); err != nil {
			c.fail(err)
		}
		err = await("the replica of a master", func() (bool, error) {
			_, err := s.Call("CLUSTER", "REPLICATE", c.ids[i]) // fails until it has heard of the master
			return err == nil && s.Info("master_link_status") == "up", err
		})
		if err != nil {
			c.fail(err)
		}
	}
	if err := c.Await(); err != nil {
		c.fail(err)
	}
}

// meet makes a server known to the Cluster.
func (c *Nodes) meet(s *Server) error {
	first := c.Servers[0]
	_, err := s.Call("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(first.port), first.args[3])
	return err
}

// URL is the Cluster's address as the engine takes it.
func (c *Nodes) URL() string {
	addrs := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		addrs[i] = s.Addr()
	}
	return "redis-cluster://" + strings.Join(addrs, ",")
}

// Stop ends all servers. Cluster does so by itself.
func (c *Nodes) Stop() {
	for _, s := range c.Servers {
		s.Stop()
	}
}

// Owner is the index of the server that holds a slot.
func (c *Nodes) Owner(slot int) int {
	for i, s := range c.Servers {
		if n, err := s.Call("CLUSTER", "NODES"); err == nil && ownsSlot(n.(string), slot) {
			return i
		}
	}
	c.fail(fmt.Errorf("nobody owns slot %d", slot))
	return -1
}

// MoveSlot moves a slot to another server, key by key, while both serve.
func (c *Nodes) MoveSlot(slot, to int) {
	from := c.Owner(slot)
	if from == to {
		return
	}
	if err := c.moveSlot(strconv.Itoa(slot), c.Servers[from], c.Servers[to], c.ids[from], c.ids[to]); err != nil {
		c.fail(fmt.Errorf("move slot %d: %w", slot, err))
	}
}

func (c *Nodes) moveSlot(slot string, src, dst *Server, srcID, dstID string) error {
	if _, err := dst.Call("CLUSTER", "SETSLOT", slot, "IMPORTING", srcID); err != nil {
		return err
	}
	if _, err := src.Call("CLUSTER", "SETSLOT", slot, "MIGRATING", dstID); err != nil {
		return err
	}
	for {
		reply, err := src.Call("CLUSTER", "GETKEYSINSLOT", slot, "20")
		if err != nil {
			return err
		}
		keys, _ := reply.([]any)
		if len(keys) == 0 {
			break
		}
		cmd := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(dst.port), "", "0", "10000", "KEYS"}
		for _, k := range keys {
			cmd = append(cmd, fmt.Sprint(k))
		}
		if _, err := src.Call(cmd...); err != nil {
			return err
		}
	}
	// The new owner first: the old one then has somebody to send callers to.
	for _, s := range append([]*Server{dst, src}, c.Servers...) {
		if _, err := s.Call("CLUSTER", "SETSLOT", slot, "NODE", dstID); err != nil {
			return err
		}
	}
	return nil
}

func (c *Nodes) join() error {
	for i, s := range c.Servers {
		if err := s.addSlots(i*Slots/len(c.Servers), (i+1)*Slots/len(c.Servers)-1); err != nil {
			return err
		}
		if _, err := s.Call("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i > 0 {
			if err := c.meet(s); err != nil {
				return err
			}
		}
		id, err := s.Call("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids = append(c.ids, fmt.Sprint(id))
	}
	return c.Await()
}

func (s *Server) addSlots(first, last int) error {
	_, err := s.Call("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
	return err
}

// Await returns when every server sees the Cluster whole.
func (c *Nodes) Await() error {
	known := "cluster_known_nodes:" + strconv.Itoa(len(c.Servers)+len(c.Replicas)) + "\r\n"
	for _, s := range slices.Concat(c.Servers, c.Replicas) {
		err := await("cluster_state:ok", func() (bool, error) {
			info, err := s.Call("CLUSTER", "INFO")
			text, _ := info.(string)
			return strings.Contains(text, "cluster_state:ok") && strings.Contains(text, known), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Nodes) fail(err error) {
	if c.t == nil {
		panic(err)
	}
	c.t.Helper()
	c.t.Fatalf("cluster: %v", err)
}

// ownsSlot reads a server's own line of CLUSTER NODES: its slots are the words
// from the ninth on, alone or as ranges; those in brackets are on the move.
func ownsSlot(nodes string, slot int) bool {
	for line := range strings.SplitSeq(nodes, "\n") {
		if !strings.Contains(line, "myself") {
			continue
		}
		words := strings.Fields(line)
		for _, w := range words[min(8, len(words)):] {
			first, last, isRange := strings.Cut(w, "-")
			a, errA := strconv.Atoi(first)
			b := a
			if isRange {
				b, _ = strconv.Atoi(last)
			}
			if errA == nil && a <= slot && slot <= b {
				return true
			}
		}
	}
	return false
}
