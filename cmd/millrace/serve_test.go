package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned is a certificate for 127.0.0.1, its key, and a pool that trusts it.
func selfSigned(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(chain)
	return fileOf(t, "cert.pem", string(chain)), fileOf(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))), trust
}

func TestHTTPSIsServedWithACertificate(t *testing.T) {
	cert, key, trust := selfSigned(t)
	url := server(t, "--store", "memory:", "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("the address is %s", url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != `{"ok":true}` {
		t.Errorf("%s, %v", text, err)
	}
	plain, err := http.Get("http" + strings.TrimPrefix(url, "https") + "/readyz")
	if err == nil {
		if plain.StatusCode == http.StatusOK {
			t.Error("it serves HTTP beside HTTPS")
		}
		_ = plain.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestACertificateThatCannotBeServedIsABadSetting(t *testing.T) {
	cert, key, _ := selfSigned(t)
	_, other, _ := selfSigned(t)
	for _, pair := range [][2]string{{cert, other}, {cert, cert}, {"/nosuch", key}} {
		if code, _, errs := command(t, "serve", "--store", "memory:", "--tls-cert", pair[0], "--tls-key", pair[1]); code != exitUsage || !strings.Contains(errs, "--tls-cert and --tls-key: ") {
			t.Errorf("exit %d, %s", code, errs)
		}
	}
}

// startWork is how much a start may compute, with its end. The goal is a start within 300 ms on a
// machine that does nothing else; the tests share theirs, so they count what the process used and
// not what the clock says.
const startWork = 300 * time.Millisecond

func TestTheServerStartsWithLittleWorkOnAnEmptyStore(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "millrace")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	best, shortest := time.Hour, time.Hour
	for range 3 {
		work, took := startOnce(t, binary)
		best, shortest = min(best, work), min(shortest, took)
	}
	t.Logf("of three starts the least work was %s, the shortest time %s", best.Round(time.Millisecond), shortest.Round(time.Millisecond))
	if best > startWork {
		t.Errorf("a start and its end computed for %s", best)
	}
}

// startOnce starts the server, hears its first word, which it says when it answers, and ends it. It
// returns how long the process computed in all, and how long it took to the word.
func startOnce(t *testing.T, binary string) (work, took time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--listen", "127.0.0.1:0", "--store", "embedded:"+filepath.Join(t.TempDir(), "store"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took = time.Since(begin)
	if err != nil || !strings.HasPrefix(line, "Millrace ") {
		t.Errorf("it said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &errs)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), took
}
