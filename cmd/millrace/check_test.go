package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// filled serves a store, puts something into it and returns how to stop the server.
func filled(t *testing.T, store string) (stop func()) {
	t.Helper()
	url, stop := stoppable(t, "--store", store)
	for _, args := range [][]string{
		{"queue", "create", "emails", "--match", ":orders:"},
		{"publish", "orders", "--type", "created", "--tenant", "acme"},
		{"publish", "orders", "--type", "created", "--tenant", "acme", "--delay", "1h"},
		{"queue", "lease", "emails"},
	} {
		if code, _, errs := command(t, append(args, "--server", url)...); code != exitOK {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	return stop
}

func TestAStoreIsCheckedWhenNoServerHoldsIt(t *testing.T) {
	store := "embedded:" + filepath.Join(t.TempDir(), "store")
	if code, _, errs := command(t, "check", "--store", store); code != exitFailure || !strings.Contains(errs, "there is no store") {
		t.Errorf("no store: exit %d, %s", code, errs)
	}
	stop := filled(t, store)
	if code, _, errs := command(t, "check", "--store", store); code != exitFailure || !strings.Contains(errs, "Stop that first") {
		t.Errorf("a store that is held: exit %d, %s", code, errs)
	}
	stop()
	if code, out, errs := command(t, "check", "--store", store); code != exitOK || out != "everything holds (embedded, format 1, lanes 1)\n" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	if code, out, errs := command(t, "check", "--store", store, "--json"); code != exitOK || !strings.Contains(out, `"violations": []`) {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	for _, args := range [][]string{{"--store", "memory:"}, {"--store", "x"}, {"--namespace", "a:b"}} {
		if code, _, errs := command(t, append([]string{"check"}, args...)...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

func TestEveryViolationOfAStoreIsPrinted(t *testing.T) {
	r := redistest.Single(t)
	filled(t, r.URL())()
	code, out, errs := command(t, "check", "--store", r.URL())
	if code != exitOK || !strings.Contains(out, "everything holds (redis") || !strings.Contains(errs, "no server may use this store") {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	keys := strings.Fields(strings.Trim(r.Do("KEYS", "*:name:*"), "[]"))
	if len(keys) != 1 {
		t.Fatalf("the definitions are %v", keys)
	}
	r.Do("HSET", keys[0], "version", "77")
	code, out, errs = command(t, "check", "--store", r.URL())
	if code != exitFailure || !strings.Contains(out, "definition queue/emails has version") || !strings.Contains(errs, "1 invariants do not hold") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}
