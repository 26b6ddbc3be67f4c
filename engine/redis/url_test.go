package redis

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestAURLSaysWhereTheStoreIs(t *testing.T) {
	for url, want := range map[string]struct {
		addresses []string
		tls       bool
		db        int
		master    string
		user      string
	}{
		"redis://h:1":                               {addresses: []string{"h:1"}},
		"redis://h":                                 {addresses: []string{"h:6379"}},
		"redis://[::1]:7":                           {addresses: []string{"[::1]:7"}},
		"rediss://u:p%40@h:1/3":                     {addresses: []string{"h:1"}, tls: true, db: 3, user: "u:p@"},
		"redis://:secret@h:1":                       {addresses: []string{"h:1"}, user: ":secret"},
		"redis-cluster://a:1,b:2":                   {addresses: []string{"a:1", "b:2"}},
		"rediss-cluster://u:p@a:1,b:2":              {addresses: []string{"a:1", "b:2"}, tls: true, user: "u:p"},
		"redis-sentinel://a:26379,b:26379/mymaster": {addresses: []string{"a:26379", "b:26379"}, master: "mymaster"},
		"rediss-sentinel://u:p@a:26379/mymaster":    {addresses: []string{"a:26379"}, tls: true, master: "mymaster", user: "u:p"},
	} {
		o, err := clientOption(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		user := ""
		if o.Username+o.Password != "" {
			user = o.Username + ":" + o.Password
		}
		if !slices.Equal(o.InitAddress, want.addresses) || (o.TLSConfig != nil) != want.tls || o.SelectDB != want.db || o.Sentinel.MasterSet != want.master || user != want.user {
			t.Errorf("%s: read as %v tls %t db %d master %q user %q", url, o.InitAddress, o.TLSConfig != nil, o.SelectDB, o.Sentinel.MasterSet, user)
		}
		if asked := o.Sentinel.TLSConfig != nil; want.master != "" && asked != want.tls {
			t.Errorf("%s: the sentinels are asked with TLS: %t", url, asked)
		}
		if !o.DisableRetry {
			t.Errorf("%s: the client would repeat commands by itself", url)
		}
	}
}

func TestABadURLIsRefusedWithoutShowingItsPassword(t *testing.T) {
	for _, url := range []string{
		"http://u:secret@h", "redis:/u:secret@h", "redis://u:secret@", "redis://u:secret@a:1,b:2", "redis://u:secret@h:1/x", "redis://u:secret@h:1/-1",
		"redis-cluster://u:secret@a:1/3", "redis-sentinel://u:secret@a:1", "redis-sentinel://u:secret@a:1/x/y", "redis-other://u:secret@a:1", "redis://u:secret%zz@h:1",
	} {
		_, err := clientOption(url)
		if millrace.CodeOf(err) != millrace.CodeInvalid || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
