package redistest

import "strconv"

// Replica starts a replica of a server and returns when it has caught up.
func Replica(t TB, of *Server, args ...string) *Server {
	t.Helper()
	s := Single(t, append([]string{
		"--replicaof", "127.0.0.1 " + strconv.Itoa(of.port),
		"--repl-diskless-sync-delay", "0",
	}, args...)...)
	err := await("the replica's link", func() (bool, error) {
		return s.Info("master_link_status") == "up" && of.Info("connected_slaves") != "0", nil
	})
	if err != nil {
		t.Fatalf("start replica: %v", err)
	}
	return s
}
