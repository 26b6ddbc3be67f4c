package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/internal/redistest"
)

// grades is what doctor says of each check, and its exit code.
func grades(t *testing.T, args ...string) (map[string]string, int, string) {
	t.Helper()
	code, out, errs := command(t, append([]string{"doctor", "--json"}, args...)...)
	var got struct {
		OK     bool
		Checks []struct{ Name, Grade, Detail, Next string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	if got.OK != (code == exitOK) {
		t.Errorf("ok is %v with exit code %d", got.OK, code)
	}
	found := map[string]string{}
	for _, c := range got.Checks {
		found[c.Name] = c.Grade
		if c.Grade != "ok" && c.Next == "" && !strings.Contains(c.Detail, "; ") {
			t.Errorf("%s does not say what to do: %+v", c.Name, c)
		}
	}
	return found, code, out
}

func wantGrades(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for name, grade := range want {
		if got[name] != grade {
			t.Errorf("%s is %q, want %q, in %v", name, got[name], grade, got)
		}
	}
}

func TestDoctorLooksAtAnEmbeddedStoreAndCreatesNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	got, code, _ := grades(t, "--store", "embedded:"+dir)
	wantGrades(t, got, map[string]string{"store": "warn", "token": "ok"})
	if _, err := os.Stat(dir); err == nil || code != exitOK {
		t.Errorf("exit %d, %v: the store was created", code, err)
	}

	url, stop := stoppable(t, "--store", "embedded:"+dir)
	got, code, out := grades(t, "--store", "embedded:"+dir)
	if wantGrades(t, got, map[string]string{"store": "warn"}); code != exitOK || !strings.Contains(out, "--server") {
		t.Errorf("held by a server that is not asked: exit %d, %s", code, out)
	}
	t.Setenv("MILLRACE_SERVER", url)
	got, _, _ = grades(t, "--store", "embedded:"+dir)
	wantGrades(t, got, map[string]string{"holder": "ok", "store": "ok", "durability": "ok", "clock": "ok", "disk": got["disk"]})
	got, _, _ = grades(t)
	wantGrades(t, got, map[string]string{"server": "ok", "store": "ok", "durability": "ok", "clock": "ok"})
	stop()

	got, code, _ = grades(t, "--store", "embedded:"+dir)
	if wantGrades(t, got, map[string]string{"store": "ok", "durability": "ok", "clock": "ok"}); got["disk"] == "" {
		t.Errorf("exit %d, no disk in %v", code, got)
	}
	got, code, _ = grades(t, "--store", "embedded:"+dir, "--namespace", "other", "--listen", "0.0.0.0:7070")
	if wantGrades(t, got, map[string]string{"store": "fail", "token": "fail"}); code != exitFailure {
		t.Errorf("exit %d", code)
	}
}

func TestDoctorLooksAtARedis(t *testing.T) {
	r := redistest.Single(t)
	url := r.URL()
	got, code, _ := grades(t, "--store", url)
	wantGrades(t, got, map[string]string{"store": "warn", "version": "ok", "eviction": "ok", "memory": "warn", "replicas": "ok", "clock": "ok"})
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	_, stop := stoppable(t, "--store", url)
	stop()
	r.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	r.Do("CONFIG", "SET", "maxmemory", "100mb")
	r.Do("CONFIG", "SET", "appendonly", "yes")
	r.Do("CONFIG", "SET", "appendfsync", "everysec")
	got, code, out := grades(t, "--store", url, "--wait-replicas", "1")
	// A replica that is away makes no store unready; that it is missed is said by itself.
	wantGrades(t, got, map[string]string{"store": "ok", "version": "ok", "eviction": "fail", "memory": "ok", "replicas": "fail"})
	if code != exitFailure || !strings.Contains(out, "--wait-replicas") {
		t.Errorf("exit %d: %s", code, out)
	}
	got, code, out = grades(t, "--store", url)
	wantGrades(t, got, map[string]string{"store": "ok", "version": "ok", "eviction": "fail", "memory": "ok", "replicas": "ok", "durability": "ok"})
	if code != exitFailure || !strings.Contains(out, "everysec") {
		t.Errorf("exit %d: %s", code, out)
	}
	r.Do("CONFIG", "SET", "appendonly", "no")
	got, _, _ = grades(t, "--store", url)
	wantGrades(t, got, map[string]string{"durability": "warn"})
}

func TestDoctorSaysWhyItCannotLook(t *testing.T) {
	got, code, _ := grades(t, "--server", "http://127.0.0.1:1")
	if wantGrades(t, got, map[string]string{"server": "fail"}); code != exitFailure {
		t.Errorf("exit %d", code)
	}
	url := server(t, "--store", "memory:", "--root-token-file", fileOf(t, "token", "s3cret"))
	if code, _, errs := command(t, "doctor", "--server", url); code != exitFailure || !strings.Contains(errs, "--token") {
		t.Errorf("without the token: exit %d, %s", code, errs)
	}
	got, _, _ = grades(t, "--server", url, "--token", "s3cret")
	wantGrades(t, got, map[string]string{"server": "ok", "durability": "warn"})
	for _, args := range [][]string{{"--store", "memory:"}, {"--store", "nosuch:"}, {"--store", "embedded:x", "--server", url}} {
		if code, _, errs := command(t, append([]string{"doctor"}, args...)...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if code, out, _ := command(t, "doctor", "--server", url, "--token", "s3cret"); code != exitOK || !strings.Contains(out, "warn  durability") {
		t.Errorf("for people: exit %d, %s", code, out)
	}
}
