package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// errBlocked is what dialling an address gives that may not be called.
var errBlocked = errors.New("webhook: this address may not be called")

// Guard decides which addresses may be called: those of the internet, and what an
// operator opened. It is asked when a connection is made, about the very address that is
// dialled, so neither names nor notations of an address can get around it.
type Guard struct {
	allow   []netip.Prefix
	closed  []netip.Prefix
	outside *ssrf.Guardian
}

// NewGuard returns a guard that also lets addresses within these ranges be called. Where
// machines find their credentials stays closed, whatever the ranges say.
func NewGuard(allow ...netip.Prefix) *Guard {
	return &Guard{
		allow:   allow,
		closed:  metadata(),
		outside: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(metadata()...)),
	}
}

// metadata is where clouds serve the credentials of their machines.
func metadata() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
		"fd00:ec2::254/128", "fd00:ec2::23/128", "fe80::a9fe:a9fe/128",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Allows reports whether an address may be called, and whether because an operator opened it.
func (g *Guard) Allows(address netip.Addr) (ok, opened bool) {
	address = address.Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(address) }
	switch {
	case slices.ContainsFunc(g.closed, within):
		return false, false
	case slices.ContainsFunc(g.allow, within):
		return true, true
	}
	network := "tcp4"
	if address.Is6() {
		network = "tcp6"
	}
	return g.outside.Safe(network, netip.AddrPortFrom(address, 443).String(), nil) == nil, false
}

// control is asked by a dialer before it connects. https says how the callback's URL
// begins: plain http is for opened addresses only.
func (g *Guard) control(https bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", errBlocked, err)
		}
		if ok, opened := g.Allows(at.Addr()); !ok || !https && !opened {
			return errBlocked
		}
		return nil
	}
}

// URLFault says whether a callback can be refused before it is dialled: plain http where
// nothing is opened, or a closed address written as such. What passes here is still
// asked about when it is dialled.
func (g *Guard) URLFault(https bool, host string) string {
	address, err := netip.ParseAddr(host)
	if err != nil {
		if !https && len(g.allow) == 0 {
			return "must begin with https://"
		}
		if host == "localhost" {
			return g.addressFault(https, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		return ""
	}
	return g.addressFault(https, address)
}

func (g *Guard) addressFault(https bool, address netip.Addr) string {
	switch ok, opened := g.Allows(address); {
	case !ok:
		return "must not be an address that is closed to callbacks"
	case !https && !opened:
		return "must begin with https://"
	}
	return ""
}
