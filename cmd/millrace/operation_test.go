package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/millracetest"
)

// says runs a command line against a server and returns what it printed.
func says(t *testing.T, server string, code int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), append(args, "--server", server), strings.NewReader(""), &out, &errs); got != code {
		t.Fatalf("%v: exit %d, want %d: %s%s", args, got, code, &out, &errs)
	}
	return out.String() + errs.String()
}

func TestABarShowsHowFarAnOperationHasCome(t *testing.T) {
	o := millrace.TrackedOperation{Operation: millrace.Operation{Status: millrace.OperationRunning, Progress: &millrace.Progress{Percent: 40, Note: "cloning"}}}
	v := &operationView{terminal: true}
	if got := v.line(&o); got != "\r\x1b[K[============                  ]  40% RUNNING cloning" {
		t.Errorf("%q", got)
	}
	o.Status = millrace.OperationSuccess
	if got := v.line(&o); !strings.Contains(got, strings.Repeat("=", 30)+"] 100% SUCCESS") || !strings.HasSuffix(got, "\n") {
		t.Errorf("%q", got)
	}
}

func TestAChartShowsWhatHappenedAtAll(t *testing.T) {
	if got := chart(millrace.Tally{Success: 100, Error: 1, Cancelled: 50}, 200); got != strings.Repeat("#", 20)+"!"+strings.Repeat("-", 10) {
		t.Error(got)
	}
	if got := chart(millrace.Tally{Retried: 3}, 0); got != "" {
		t.Error(got)
	}
}

func TestATriggerBeginsAnOperationOrPublishesButNotBoth(t *testing.T) {
	for _, line := range []string{"trigger create a --type x", "trigger create a --queue q --topic t --type x", "trigger create a --queue q --key k --type x", "trigger create a --topic t --subject s --type x", "operation list", "operation start q --type x --payload {"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errs); code != exitUsage {
			t.Errorf("%s: exit %d: %s", line, code, &errs)
		}
	}
}

func TestAnOperationIsLookedAfterFromTheCommandLine(t *testing.T) {
	server := millracetest.Serve(t, millracetest.New(t))
	says(t, server, 0, "queue", "create", "sync", "--match", "nothing", "--tracked", "--redact", "/token", "--retention", "1h", "--error-retention", "2d")
	started := says(t, server, 0, "operation", "start", "sync", "--type", "MANUAL", "--subject", "link:456", "--payload", `{"token":"s3cret","n":1}`, "--json")
	id := regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(started)[1]
	if text := says(t, server, 0, "operation", "show", id, "--json"); strings.Contains(text, "s3cret") || !strings.Contains(text, "[redacted]") {
		t.Error(text)
	}
	leased := says(t, server, 0, "queue", "lease", "sync", "--json")
	receipt := regexp.MustCompile(`"receipt": "([^"]+)"`).FindStringSubmatch(leased)[1]
	says(t, server, 0, "operation", "progress", id, receipt, "--percent", "40", "--note", "cloning")
	if text := says(t, server, 0, "operation", "list", "--subject", "link:456"); !strings.Contains(text, "40% cloning") {
		t.Error(text)
	}
	says(t, server, 0, "queue", "ack", "sync", receipt, "--output", `{"pr":12}`)
	if text := says(t, server, 0, "operation", "watch", id, "--json"); !strings.Contains(text, `"output":{"pr":12}`) || !strings.Contains(text, `"status":"SUCCESS"`) {
		t.Error(text)
	}
	if text := says(t, server, 1, "operation", "cancel", id); !strings.Contains(text, "finished") {
		t.Error(text)
	}
	if text := says(t, server, 0, "operation", "counts", "sync", "--since", "1h"); !strings.Contains(text, strings.Repeat("#", chartWidth)) {
		t.Error(text)
	}
}

func TestATriggerIsLookedAfterFromTheCommandLine(t *testing.T) {
	server := millracetest.Serve(t, millracetest.New(t))
	says(t, server, 0, "queue", "create", "sync", "--match", "nothing", "--tracked")
	made := says(t, server, 0, "trigger", "create", "resync", "--queue", "sync", "--type", "MANUAL", "--per-minute", "1")
	url := regexp.MustCompile(`this once: (\S+)`).FindStringSubmatch(made)[1]
	if text := says(t, server, 0, "trigger", "fire", url, "--body", `{"ref":"main"}`); !strings.Contains(text, "QUEUED") {
		t.Error(text)
	}
	other := strings.Replace(url, "http://", "http://other.", 1)
	if text := says(t, server, 2, "trigger", "fire", other); !strings.Contains(text, "--server") {
		t.Error(text)
	}
	if text := says(t, server, 0, "trigger", "list"); !strings.Contains(text, "operation in sync") || strings.Contains(text, url) {
		t.Error(text)
	}
	says(t, server, 0, "trigger", "rotate", "resync")
	says(t, server, 1, "trigger", "fire", url)
	if text := says(t, server, 0, "export"); !strings.Contains(text, "triggers:\n  resync:\n") {
		t.Error(text)
	}
	says(t, server, 0, "trigger", "delete", "resync")
	says(t, server, 1, "trigger", "show", "resync")
}
