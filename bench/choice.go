package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// idleID is what -only takes for the watch of an idle node.
const idleID = "idle-redis"

// choice is what a run measures.
type choice struct {
	entries  []entry
	idle     bool
	promises []promise
}

// choose leaves out what was not asked for.
func (o options) choose(entries []entry, promises []promise) (choice, error) {
	c := choice{idle: o.idle > 0 && o.wants(idleID)}
	for _, e := range entries {
		if o.wants(e.id) {
			c.entries = append(c.entries, e)
		}
	}
	for _, p := range promises {
		if o.wants(p.id) {
			c.promises = append(c.promises, p)
		}
	}
	if len(c.entries) == 0 && len(c.promises) == 0 && !c.idle {
		return c, fmt.Errorf("nothing has %q in its id; -list lists the ids", o.only)
	}
	return c, nil
}

// wants reports whether an id was asked for.
func (o options) wants(id string) bool {
	for part := range strings.SplitSeq(o.only, ",") {
		if strings.Contains(id, part) {
			return true
		}
	}
	return false
}

// write lists the ids and what they stand for.
func (c choice) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range c.entries {
		fmt.Fprintf(t, "%s\t%s: %s\n", e.id, e.who, e.what)
	}
	if c.idle {
		fmt.Fprintf(t, "%s\tredis: commands of an idle node\n", idleID)
	}
	for _, p := range c.promises {
		fmt.Fprintf(t, "%s\t%s: %s\n", p.id, p.site, p.what)
	}
	return t.Flush()
}
