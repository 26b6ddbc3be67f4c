package main

import (
	"strings"
	"testing"
)

func TestTopicsAndNodesOnTheCommandLine(t *testing.T) {
	url := server(t, "--store", "memory:")
	for _, step := range []struct {
		code int
		want string
		args []string
	}{
		{exitFailure, "topic list", []string{"topic", "show", "orders"}},
		{exitOK, "", []string{"publish", "orders", "--type", "created"}},
		{exitOK, "orders  -          1", []string{"topic", "list"}},
		{exitUsage, "--publisher", []string{"topic", "give", "orders"}},
		{exitOK, `"publisher": "shop"`, []string{"topic", "give", "orders", "--publisher", "shop", "--json"}},
		{exitOK, "orders  shop", []string{"topic", "show", "orders"}},
		{exitOK, "orders  -", []string{"topic", "give", "orders", "--publisher", ""}},
		{exitOK, "", []string{"topic", "forget", "orders"}},
		{exitFailure, "topic list", []string{"topic", "show", "orders"}},
		{exitOK, "web,deliver,monitor", []string{"nodes"}},
		{exitOK, `"roles"`, []string{"nodes", "--json"}},
	} {
		code, out, errs := command(t, append(step.args, "--server", url)...)
		if code != step.code || !strings.Contains(out+errs, step.want) {
			t.Errorf("%v: exit %d, %q, %q; want %d with %q", step.args, code, out, errs, step.code, step.want)
		}
	}
}
