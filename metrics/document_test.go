package metrics_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-dev/millrace"
)

func TestTheDocumentNamesEveryMetricWithItsLabels(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `(millrace_[a-z_]+)` \\| ([^|]*)\\| (node|store) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented[m[1]+" of "+m[3]] = strings.Fields(strings.ReplaceAll(m[2], "`", ""))
	}
	n, _ := pushing(t)
	n.define("emails", ".")
	spec := millrace.DefaultQueueSpec("nothing")
	spec.Tracked = true
	if _, _, err := n.broker.Queues().Put(t.Context(), "sync", spec); err != nil {
		t.Fatal(err)
	}
	n.publish(event("orders", "a"))
	settle(t)(n.broker.Queues().Ack(t.Context(), "emails", n.lease("emails", 1)...))
	n.until(1, "deliveries_total", "subscription", "shop", "outcome", "sent")
	told := map[string][]string{}
	for name, family := range n.scrape().families {
		if !strings.HasPrefix(name, "millrace_") {
			continue
		}
		whose := " of node"
		if strings.Contains(family.GetHelp(), "Of the store") {
			whose = " of store"
		}
		labels := map[string]bool{}
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = true
		}
		told[name+whose] = slices.Sorted(maps.Keys(labels))
	}
	for name := range documented {
		slices.Sort(documented[name])
	}
	if diff := cmp.Diff(told, documented, cmp.Transformer("list", func(l []string) string { return strings.Join(l, " ") })); diff != "" {
		t.Error(diff)
	}
}
