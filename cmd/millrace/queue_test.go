package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// shell runs command lines against a server.
type shell struct {
	t   *testing.T
	url string
}

// want runs a line and checks that it prints a text.
func (s shell) want(text, line string) string {
	s.t.Helper()
	code, out, errs := command(s.t, append(strings.Fields(line), "--server", s.url)...)
	if code != exitOK || !strings.Contains(out, text) {
		s.t.Fatalf("%s: exit %d, %q, %q, want %q", line, code, out, errs, text)
	}
	return out
}

// refused runs a line that must fail and checks what it says.
func (s shell) refused(text, line string) {
	s.t.Helper()
	if code, _, errs := command(s.t, append(strings.Fields(line), "--server", s.url)...); code != exitFailure || !strings.Contains(errs, text) {
		s.t.Fatalf("%s: exit %d, %q, want %q", line, code, errs, text)
	}
}

// lease leases one message and returns its receipt.
func (s shell) lease(flags string) string {
	s.t.Helper()
	out := s.want(`"receipt"`, "queue lease emails --wait 5s --json "+flags)
	return regexp.MustCompile(`"receipt": "([^"]+)"`).FindStringSubmatch(out)[1]
}

func TestAQueuesLifeThroughTheCommandLine(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match :orders: --tenant-limit 9 --max-length 3 --dead-retention 7d")
	s.want(`"tenant_limit": 9`, "queue show emails --json")
	s.want("emails", "route --topic orders --type created")
	s.want("queue create", "route --topic nothing --type created")
	for _, tenant := range []string{"acme", "acme", "bolt"} {
		s.want("false", "publish orders --type created --tenant "+tenant)
	}
	s.want("bolt", "queue tenants emails")
	s.want("acme", "queue peek emails --tenant acme")

	s.want("", "queue pause emails")
	s.want(`"messages": []`, "queue lease emails --wait 5s --json")
	s.want("", "queue resume emails")
	s.want(`"weight": 0`, "queue weight emails bolt --weight 0 --json")
	s.want(`"weight": 1`, "queue weight emails bolt --reset --json")

	s.want(`"settled": 1`, "queue extend emails "+s.lease("--consumer w-1")+" --lease 1h --json")
	s.want(`"released": 1`, "queue release emails --consumer w-1 --json")
	s.want(`"settled": 1`, "queue retry emails "+s.lease("")+" --delay 1h --error later --json")
	s.want(`"settled": 1`, "queue bury emails "+s.lease("")+" --error boom --json")
	out := s.want("boom", "queue dead emails --json")
	id := regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(out)[1]
	s.want(`"redriven": 1`, "queue redrive emails "+id+" --json")
	s.want(`"redriven": 0`, "queue redrive emails --all --json")
	s.refused("queue list", "queue redrive emails "+id)
	s.refused("queue purge", "queue delete emails --if-empty")
	s.want(`"purged": 3`, "queue purge emails --yes --json")
	s.want("", "queue delete emails --if-empty")
	s.refused("queue list", "queue show emails")
}

func TestDeadLettersAreDroppedThroughTheCommandLine(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match :orders:")
	for _, tenant := range []string{"acme", "acme", "bolt", "bolt"} {
		s.want("false", "publish orders --type created --tenant "+tenant)
		s.want(`"settled": 1`, "queue bury emails "+s.lease("")+" --error boom --json")
	}
	out := s.want("boom", "queue dead emails --tenant acme --json")
	id := regexp.MustCompile(`"id": "([^"]+)"`).FindStringSubmatch(out)[1]
	s.misused("add --yes", "queue drop-dead emails "+id)
	s.misused("or give --all", "queue drop-dead emails --yes")
	s.misused("or give --all", "queue drop-dead emails --all --yes "+id)
	s.misused("--tenant goes with --all", "queue drop-dead emails --tenant acme --yes "+id)
	s.want(`"purged": 1`, "queue drop-dead emails --yes --json "+id)
	s.refused("queue list", "queue drop-dead emails --yes "+id)
	s.want(`"purged": 2`, "queue drop-dead emails --all --tenant bolt --yes --json")
	s.want(`"dead": 1`, "queue show emails --json")
	s.want("DROPPED", "queue drop-dead emails --all --yes")
	s.want(`"dead": 0`, "queue show emails --json")
}

// misused runs a line that is wrong in itself and checks what it says.
func (s shell) misused(text, line string) {
	s.t.Helper()
	if code, _, errs := command(s.t, append(strings.Fields(line), "--server", s.url)...); code != exitUsage || !strings.Contains(errs, text) {
		s.t.Fatalf("%s: exit %d, %q, want %q", line, code, errs, text)
	}
}

func TestAFullQueueIsExplained(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match :orders: --max-length 1")
	s.want("false", "publish orders --type created")
	s.refused("millrace queue show emails", "publish orders --type created")
}

func TestAnOrderedQueueThroughTheCommandLine(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want(`"on_exhausted": "block"`, "queue create emails --match :orders: --ordered --json")
	s.refused("under another name", "queue create emails --match :orders:")
	s.refused("body.lease", "queue lease emails --at-most-once")
}

func TestADelayedEventThroughTheCommandLine(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match :orders:")
	s.want("a-1", "publish orders --type created --id a-1 --tenant acme --delay 1d")
	s.want(`"due_at"`, "event show a-1 --tenant acme --json")
	s.refused("--tenant", "event show a-1")
	s.want("", "event cancel a-1 --tenant acme")
	s.refused("still waits", "event show a-1 --tenant acme")
	s.want("a-2", "publish orders --type created --id a-2 --delay 20ms")
	s.want("a-2", "queue lease emails --wait 10s --at-most-once")
	s.want(`"ready": 0`, "queue show emails --json")
}

func TestInjectedEventsThroughTheCommandLine(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match nothing-else")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"queue", "inject", "emails", "--server", s.url}, strings.NewReader(example(t, "inject_in")), &out, &errs); code != exitOK {
		t.Fatal(errs.String())
	}
	s.want(`"seq": 41`, "queue lease emails --max 2 --json")
}

func TestQueuesAndSubscriptionsTakeInjectedEventsAlike(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("emails", "queue create emails --match nothing-else")
	s.want("shop", "subscription create shop --callback https://shop.example/hook --topic nothing-else")
	event := `{"id":"e-%d","topic":"orders","type":"created","time":"2026-11-15T01:13:00Z","seq":%d,"data":"` + strings.Repeat("x", 200<<10) + `"}`
	var large []string // more than one request
	for n := range 30 {
		large = append(large, fmt.Sprintf(event, n, n+1))
	}
	for _, line := range []string{"queue inject emails", "subscription inject shop"} {
		args := append(strings.Fields(line), "--server", s.url)
		code, _, errs := fed(t, `{"events":[{}]}`, args...)
		if code != exitUsage || !strings.Contains(errs, "body.events[0].seq is required") || !strings.Contains(errs, "as a listing or a batch shows them") {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
		if code, out, errs := fed(t, `{"events":[`+strings.Join(large, ",")+`]}`, args...); code != exitOK || !strings.Contains(out, "30") {
			t.Errorf("%s: exit %d, %q, %q", line, code, out, errs)
		}
		shown, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(found(line).Example), "echo '"), "'")
		if code, out, errs := fed(t, shown, args...); code != exitOK || !strings.Contains(out, "1") {
			t.Errorf("%s, its example: exit %d, %q, %q", line, code, out, errs)
		}
	}
}

func TestEveryVerbSaysWhatToDoWhenTheQueueIsNotThere(t *testing.T) {
	s := shell{t, server(t, "--store", "memory:")}
	s.want("QUEUE", "queue list")
	for _, line := range []string{
		"show nope", "lease nope", "ack nope q6K", "retry nope q6K", "bury nope q6K", "extend nope q6K", "release nope --consumer w",
		"peek nope", "tenants nope", "weight nope acme", "weight nope acme --weight 2", "weight nope acme --reset", "pause nope", "resume nope",
		"purge nope --yes", "dead nope", "redrive nope --all", "redrive nope 01K0C", "drop-dead nope --all --yes", "drop-dead nope 01K0C --yes",
		"delete nope --yes", "delete nope --if-empty",
	} {
		s.refused("`millrace queue list` shows the queues", "queue "+line)
	}
	s.refused("body.match", "queue create nope")
	for _, line := range []string{"create", "show", "lease", "ack nope", "weight nope", "redrive nope", "purge nope", "delete nope", "list nope"} {
		s.misused("", "queue "+line)
	}
}
