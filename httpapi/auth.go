package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/millrace-dev/millrace"
)

// scope is what a caller must be allowed to do.
type scope string

const (
	scopeNone    scope = "none"
	scopePublish scope = "publish"
	scopeConsume scope = "consume"
	scopeManage  scope = "manage"
	scopeRoot    scope = "root"
)

// principal is who calls.
type principal struct {
	root bool
}

// may reports whether the caller is allowed what a scope stands for.
func (p principal) may(scope) bool { return p.root }

// door decides who comes in.
type door struct {
	open bool // no token: whoever is on this machine is root
	root [sha256.Size]byte
}

func newDoor(token string) door {
	return door{open: token == "", root: sha256.Sum256([]byte(token))}
}

// admit refuses what an open door must not let in: callers of other machines,
// and pages of other sites that use a browser on this one.
func (d door) admit(r *http.Request) error {
	if !d.open {
		return nil
	}
	switch {
	case !loopbackAddr(r.RemoteAddr):
		return millrace.Errorf(millrace.CodeCrossSite, "without a root token only this machine is served")
	case !loopbackHost(r.Host):
		return millrace.Errorf(millrace.CodeCrossSite, "without a root token the Host must be a loopback address")
	case crossSite(r):
		return millrace.Errorf(millrace.CodeCrossSite, "without a root token no other site's page is served")
	}
	return nil
}

// principal is who a request comes from. Every failure is the same error.
func (d door) principal(r *http.Request) (principal, error) {
	if d.open {
		return principal{root: true}, nil
	}
	token, basic := credentials(r)
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], d.root[:]) != 1 {
		return principal{}, millrace.Errorf(millrace.CodeUnauthenticated, "the token is missing or not known")
	}
	// A browser adds Basic by itself, also to what another site's page sends.
	if basic && crossSite(r) {
		return principal{}, millrace.Errorf(millrace.CodeCrossSite, "no other site's page is served with Basic")
	}
	return principal{root: true}, nil
}

// credentials is the token that a request shows.
func credentials(r *http.Request) (token string, basic bool) {
	if user, _, ok := r.BasicAuth(); ok {
		return user, true
	}
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), false
}

// loopbackAddr reports whether a peer is this machine. A peer without an
// address is a socket of this machine.
func loopbackAddr(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote == "" || remote == "@"
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// loopbackHost reports whether a Host header names this machine: localhost,
// 127.0.0.0/8 or [::1], with any port. Any other name may be an attacker's that
// resolves to this machine.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// crossSite reports whether a browser marks a request as another site's.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
