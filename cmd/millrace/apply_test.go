package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

const houseYAML = `# two queues
queues:
  emails:
    match: ":orders:"
    lease: 1m
  s.ms: {match: '^acme:', max_length: 0x10, ordered: true}
tenants:
  emails:
    acme: {weight: 2, limit: 0}
    big.co:
      weight: 0
subscriptions:
  shop: {callback: "https://shop.example/hook", topics: [bills], retry_schedule: [5s, 1m]}
`

// fed runs a command line with something on its standard input.
func fed(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestADocumentIsAppliedAndExportedAndAppliedAgain(t *testing.T) {
	url := server(t, "--store", "memory:")
	t.Setenv("MILLRACE_SERVER", url)
	file := fileOf(t, "house.yaml", houseYAML)
	created := "+ queue/emails\n+ queue/s.ms\n+ subscription/shop\n+ tenant/emails/acme\n+ tenant/emails/big.co\n"
	if code, out, errs := command(t, "apply", "-f", file, "--dry-run"); code != exitOK || out != created+"would be: 5 created; nothing is changed yet\n" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	if code, out, errs := command(t, "apply", "-f", file); code != exitOK || out != created+"5 created\n" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	for _, format := range []string{"--json=false", "--json"} {
		code, exported, errs := command(t, "export", format)
		if code != exitOK {
			t.Fatal(errs)
		}
		code, out, errs := fed(t, exported, "apply", "-f", "-", "--prune")
		if code != exitOK || out != "= 5 the same\nnothing to do\n" {
			t.Errorf("%s: exit %d, %q, %q", format, code, out, errs)
		}
	}
}

func TestWhatADocumentChangesAndPrunesIsShown(t *testing.T) {
	url := server(t, "--store", "memory:")
	t.Setenv("MILLRACE_SERVER", url)
	if code, _, errs := fed(t, houseYAML, "apply", "-f", "-"); code != exitOK {
		t.Fatal(errs)
	}
	if code, _, errs := command(t, "publish", "x", "--type", "y", "--tenant", "acme"); code != exitOK {
		t.Fatal(errs)
	}
	if code, _, errs := command(t, "publish", "bills", "--type", "y"); code != exitOK {
		t.Fatal(errs)
	}
	next := "queues:\n  emails: {match: ':orders:'}\n"
	if code, _, errs := fed(t, next, "apply", "-f", "-", "--prune"); code != exitUsage || !strings.Contains(errs, "subscriptions: {}") {
		t.Errorf("exit %d, %q", code, errs)
	}
	next += "subscriptions: {}\n"
	code, out, errs := fed(t, next, "apply", "-f", "-", "--prune", "--dry-run")
	want := "~ queue/emails\n- queue/s.ms (with 1 messages)\n- subscription/shop (with 1 events)\n- tenant/emails/acme\n- tenant/emails/big.co\nwould be: 1 changed, 4 deleted; nothing is changed yet\n"
	if code != exitOK || out != want {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	code, out, errs = fed(t, next, "apply", "-f", "-", "--prune", "--json")
	if code != exitOK || !strings.Contains(out, `"queue/s.ms"`) || !strings.Contains(out, `"same": 0`) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestEveryFaultOfADocumentHasItsLine(t *testing.T) {
	url := server(t, "--store", "memory:")
	bad := "queues:\n  emails:\n    match: '['\n    leas: 1m\n  s.ms:\n    match: x\n    lease: 7\nstreams: {}\ntenants:\n  emails:\n    acme: {weight: -1}\n"
	code, out, errs := command(t, "apply", "-f", fileOf(t, "house.yaml", bad), "--server", url)
	if code != exitUsage || out != "" {
		t.Errorf("exit %d, %q", code, out)
	}
	for _, want := range []string{
		"house.yaml:3: queues.emails.match is not a regular expression", "house.yaml:4: queues.emails.leas is not a known field",
		"house.yaml:7: queues.s.ms.lease must be a string", "house.yaml:8: streams is not a known field",
		"house.yaml:11: tenants.emails.acme.weight must be between 0 and 1000", "nothing is changed",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in\n%s", want, errs)
		}
	}
	code, _, errs = fed(t, "tenants:\n  nothing:\n    acme: {}\n", "apply", "-f", "-", "--server", url)
	if code != exitUsage || !strings.Contains(errs, "standard input:2: tenants.nothing belongs to a queue that is not defined") {
		t.Errorf("a fault that the server found: exit %d, %s", code, errs)
	}
}

func TestADocumentThatIsNotOneIsRefused(t *testing.T) {
	laughs := "x: &a0 [" + strings.Repeat("lol,", 50) + "lol]\n"
	for i := range 8 {
		laughs += fmt.Sprintf("x%d: &a%d [%s*a%d]\n", i, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	for name, c := range map[string]struct{ content, want string }{
		"a name twice":          {"queues:\n  a: {match: x}\n  a: {match: y}\n", "line 3: a is given twice, first in line 2"},
		"twice in JSON":         {`{"queues":{"a":{"match":"x"},"a":{"match":"y"}}}`, "queues.a is given twice"},
		"billion laughs":        {laughs, "aliases"},
		"an alias of itself":    {"queues: &q\n  a: *q\n", "nests deeper than 64"},
		"merge keys":            {"a: &a {match: x}\nqueues:\n  b:\n    <<: *a\n", "line 4: << is not supported"},
		"two documents":         {"queues: {}\n---\nqueues: {}\n", "one YAML document"},
		"not YAML":              {"queues: [", "read YAML"},
		"a list":                {"- queues\n", "must be an object"},
		"names that are lists":  {"queues:\n  [a, b]: {match: x}\n", "line 2: a name must be a text"},
		"a number too large":    {"queues:\n  a:\n    max_length: 99999999999999999999999999\n", "must be"},
		"a number that is none": {"queues:\n  a:\n    max_length: .nan\n", "line 3"},
		"too large":             {"queues:\n  a:\n    match: " + strings.Repeat("x", millrace.MaxRequestSize), "at most 4194304 bytes"},
		"nested too deep":       {strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "deep"},
	} {
		code, _, errs := fed(t, c.content, "apply", "-f", "-", "--server", "http://127.0.0.1:1")
		if code != exitUsage || !strings.Contains(errs, c.want) || len(errs) > 1000 {
			t.Errorf("%s: exit %d, %.300s", name, code, errs)
		}
	}
	for _, args := range [][]string{{"apply"}, {"apply", "-f", "/nosuch/file.yaml"}, {"apply", "x"}} {
		if code, _, errs := command(t, args...); code != exitUsage || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

func TestAnEmptyDocumentPrunesNothingUnlessItSaysSo(t *testing.T) {
	url := server(t, "--store", "memory:")
	t.Setenv("MILLRACE_SERVER", url)
	if code, _, errs := fed(t, houseYAML, "apply", "-f", "-"); code != exitOK {
		t.Fatal(errs)
	}
	for _, empty := range []string{
		"", "# queue\n", "{}",
		"# queues\n", "tenants: {} # of the queues\n", "# queues\nsubscriptions: {}\n", "tenants: {queues: {}}\n", `{"tenants":{"queues":{}}}`, `{"subscriptions":{}}`,
		"# subscriptions\nqueues: {}\n", "queues:\n  subscriptions: {match: x}\n", `{"queues":{"subscriptions":{"match":"x"}}}`,
	} {
		if code, _, errs := fed(t, empty, "apply", "-f", "-", "--prune"); code != exitUsage || !strings.Contains(errs, "if that is meant") {
			t.Errorf("%q: exit %d, %s", empty, code, errs)
		}
	}
	if code, out, errs := command(t, "export", "--json"); code != exitOK || !strings.Contains(out, `"s.ms"`) || !strings.Contains(out, `"shop"`) {
		t.Errorf("something is gone: exit %d, %q, %s", code, out, errs)
	}
	if code, out, errs := fed(t, "queues: {}\nsubscriptions: {}\n", "apply", "-f", "-", "--prune"); code != exitOK || !strings.Contains(out, "5 deleted") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}

func TestAnAliasOfAWholeValueIsUnfolded(t *testing.T) {
	doc, _, err := readDocument("x", []byte("queues:\n  a: &plain {match: x, lease: 1m}\n  b: *plain\n"))
	if err != nil || doc.Queues["a"].Lease != doc.Queues["b"].Lease || doc.Queues["b"].Match != "x" {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestWhatIsExportedAsYAMLIsReadAsTheSame(t *testing.T) {
	doc := millrace.Document{Queues: map[string]millrace.QueueSpec{}, Tenants: map[string]map[string]millrace.TenantSettings{}}
	for i, match := range []string{"true", "123", "~", "null", ":orders:", "a: b", "- x", "#x", "'", `"`, " x ", "ü", "x\\ny", "2026-11-15", "0x1f", "x*a", "&a", "<<", "!!str", "%", "@", "{a}", "a{2}", "=", "é|ü\u2028", "y", "1e3", "x\ny", "\U0001F600"} {
		name := []string{"null", "true", "0", "1.5", "-"}[i%5] + fmt.Sprint(i)
		doc.Queues[name] = millrace.DefaultQueueSpec(match)
		doc.Tenants[name] = map[string]millrace.TenantSettings{"null": {Weight: 1, Limit: -1}, "0x10": {Weight: 0}, "no": {Weight: 1}, "2026-11-15": {Weight: 2, Limit: 3}}
	}
	text, err := toYAML(api.AppendDocument(nil, &doc))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := readDocument("x", text)
	if diff := cmp.Diff(doc, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestAnEmptyDocumentNamesNothing(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "queues: {}\ntenants: {}\n"} {
		if doc, _, err := readDocument("x", []byte(text)); err != nil || len(doc.Queues)+len(doc.Tenants) != 0 {
			t.Errorf("%q: %+v, %v", text, doc, err)
		}
	}
}

func FuzzADocumentInYAMLIsReadOrRefused(f *testing.F) {
	f.Add([]byte(houseYAML))
	f.Add([]byte("queues: &q\n  a: *q\n"))
	f.Add([]byte("a: &a [b]\nc: [*a, *a]\n"))
	f.Add([]byte("? [x]\n: y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, _, err := readDocument("x", text)
		if err == nil && len(doc.Faults("")) > 0 {
			t.Errorf("%q is accepted with %v", text, doc.Faults(""))
		}
	})
}

const triggersYAML = `
queues:
  sync: {match: ":links:", tracked: true}
triggers:
  resync:
    operation: {queue: sync, type: MANUAL, payload: {"rate": 0.5, "big": 12345678901234567890, "e": 1.0, "s": "a < b"}}
  pushed:
    event: {topic: links, type: pushed}
`

func TestTriggersSurviveExportAndADocumentThatDoesNotSpeakOfThem(t *testing.T) {
	t.Setenv("MILLRACE_SERVER", server(t, "--store", "memory:"))
	if code, out, errs := fed(t, triggersYAML, "apply", "-f", "-"); code != exitOK || !strings.Contains(out, "3 created") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	for _, format := range []string{"--json=false", "--json"} {
		_, exported, _ := command(t, "export", format)
		if code, out, errs := fed(t, exported, "apply", "-f", "-", "--prune"); code != exitOK || out != "= 3 the same\nnothing to do\n" {
			t.Errorf("%s: exit %d, %q, %q\n%s", format, code, out, errs, exported)
		}
	}
	older := "queues:\n  sync: {match: \":links:\", tracked: true}\n"
	if code, _, errs := fed(t, older, "apply", "-f", "-", "--prune"); code != exitUsage || !strings.Contains(errs, "triggers: {}") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, out, errs := fed(t, older+"triggers: {}\n", "apply", "-f", "-", "--prune"); code != exitOK || !strings.Contains(out, "2 deleted") {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
}
