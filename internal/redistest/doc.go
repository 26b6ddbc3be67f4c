// Package redistest starts real redis-server processes on free loopback ports:
// one server, a server with a replica, a Cluster, a Sentinel. They can be
// killed, restarted, paused and resumed, and they end with the test, or with
// the process that started them, whichever is first.
package redistest

import "os"

// TB is the part of testing.TB that this package needs.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	TempDir() string
	Cleanup(func())
}

// optOut is the variable that lets a machine without Redis skip these tests.
const optOut = "MILLRACE_NO_REDIS"

// need ends the test if there is no redis-server: as a failure, unless the
// machine's owner has said that there is none.
func need(t TB) {
	t.Helper()
	if _, err := binary(); err == nil {
		return
	}
	if os.Getenv(optOut) == "1" {
		t.Skipf("%s=1: no redis-server here", optOut)
	}
	t.Fatalf("no redis-server in PATH; set %s=1 to skip the tests that need it", optOut)
}
