package webhook

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestClosedAddressesAreClosed(t *testing.T) {
	g := NewGuard()
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001::1",
		"2001:db8::1", "3fff::1", "fec0::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "ff02::1",
	} {
		if ok, _ := g.Allows(netip.MustParseAddr(text)); ok {
			t.Errorf("%s may be called", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "192.0.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"} {
		if ok, opened := g.Allows(netip.MustParseAddr(text)); !ok || opened {
			t.Errorf("%s: ok %v, opened %v", text, ok, opened)
		}
	}
}

func TestAnOperatorOpensARangeAndNoMore(t *testing.T) {
	g := NewGuard(netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fd00::/8"))
	for text, want := range map[string]bool{
		"10.1.2.3": true, "10.1.3.3": false, "169.254.1.1": true, "169.254.169.254": false, "fd00::1": true, "fd00:ec2::254": false, "::ffff:10.1.2.3": true,
	} {
		if ok, opened := g.Allows(netip.MustParseAddr(text)); ok != want || opened != want {
			t.Errorf("%s: ok %v, opened %v, want %v", text, ok, opened, want)
		}
	}
}

func TestACallbackIsRefusedAtTheDoorWhereItsFormTells(t *testing.T) {
	open, closed := NewGuard(netip.MustParsePrefix("127.0.0.0/8")), NewGuard()
	for _, c := range []struct {
		guard *Guard
		https bool
		host  string
		fine  bool
	}{
		{closed, true, "shop.example", true}, {closed, false, "shop.example", false}, {closed, true, "127.0.0.1", false},
		{closed, true, "localhost", false}, {closed, true, "8.8.8.8", true}, {closed, false, "8.8.8.8", false},
		{open, false, "127.0.0.1", true}, {open, false, "localhost", true}, {open, false, "shop.example", true},
		{open, false, "8.8.8.8", false}, {open, true, "10.0.0.1", false},
	} {
		if got := c.guard.URLFault(c.https, c.host); (got == "") != c.fine {
			t.Errorf("https %v, %s: %q", c.https, c.host, got)
		}
	}
}

// counting counts the connections that reach a server on loopback.
func counting(t *testing.T) (port string, reached *atomic.Int32) {
	t.Helper()
	reached = &atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			reached.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return port, reached
}

// Ways to write this machine's address that a check of the text could miss. Whether a
// resolver understands them or not: nothing must arrive.
func TestNoNotationOfThisMachineGetsAroundTheGuard(t *testing.T) {
	port, reached := counting(t)
	s := NewSender("millrace/test", NewGuard())
	t.Cleanup(s.Close)
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "①②⑦.⓪.⓪.①", "0", "0.0.0.0", "[::]",
	} {
		for _, scheme := range []string{"http://", "https://"} {
			o := s.Send(context.Background(), Delivery{URL: scheme + host + ":" + port, ID: "b", Secrets: []string{NewSecret()}, Timeout: 3 * time.Second})
			if o.OK() || o.Status != 0 {
				t.Errorf("%s%s: %+v", scheme, host, o)
			}
		}
	}
	o := s.Send(context.Background(), Delivery{URL: "https://127.0.0.1:" + port, ID: "b", Secrets: []string{NewSecret()}, Timeout: 3 * time.Second})
	if o.Failure != FailedBlocked {
		t.Errorf("a closed address is answered %q, want %q", o.Failure, FailedBlocked)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections arrived", n)
	}
}

// A name that resolves to a closed address is blocked when it is dialled, and plain http
// goes only where an operator opened the way.
func TestPlainHTTPIsForOpenedAddressesOnly(t *testing.T) {
	port, reached := counting(t)
	s := NewSender("millrace/test", NewGuard(netip.MustParsePrefix("127.0.0.0/8")))
	t.Cleanup(s.Close)
	d := Delivery{URL: "http://localhost:" + port, ID: "b", Secrets: []string{NewSecret()}, Timeout: 5 * time.Second}
	if o := s.Send(context.Background(), d); !o.OK() {
		t.Errorf("to an opened address: %+v", o)
	}
	if reached.Load() == 0 {
		t.Error("nothing arrived")
	}
}

// The C library's resolver understands notations that Go's own does not.
func TestTheGuardHoldsWithEitherResolver(t *testing.T) {
	for _, resolver := range []string{"go", "cgo"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoNotationOfThisMachineGetsAroundTheGuard$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG=netdns="+resolver)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("netdns=%s: %v\n%s", resolver, err, out)
		}
	}
}
