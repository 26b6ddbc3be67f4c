package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWebhookKnowsNothingOfMillrace(t *testing.T) { importguard.Check(t) }

// signed is the headers of a request.
func signed(t *testing.T, secrets []string, id string, at time.Time, body []byte) http.Header {
	t.Helper()
	signature, err := Sign(secrets, id, at, body)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature},
	}
}

func TestTheStandardLibraryBelievesEverySecretOfASignature(t *testing.T) {
	for n := range 200 {
		secrets := []string{NewSecret(), NewSecret(), NewSecret()}[:1+n%3]
		body := []byte(fmt.Sprintf(`[{"id":"a-%d","data":"%s"}]`, n, strings.Repeat("ü", rand.IntN(300))))
		header := signed(t, secrets, "batch-"+strconv.Itoa(n), time.Now(), body)
		for _, secret := range secrets {
			oracle, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := oracle.Verify(body, header); err != nil {
				t.Fatalf("the oracle says %v", err)
			}
			if err := Verify(header, body, NewSecret(), secret); err != nil {
				t.Fatalf("Verify says %v", err)
			}
		}
	}
}

func TestWhatTheStandardLibrarySignsIsBelieved(t *testing.T) {
	secret, body, now := NewSecret(), []byte(`[]`), time.Now()
	oracle, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := oracle.Sign("b-1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	header := signed(t, []string{NewSecret()}, "b-1", now, body)
	header.Set(HeaderSignature, "v2,xyz "+signature)
	if err := Verify(header, body, secret); err != nil {
		t.Error(err)
	}
}

func TestARequestThatWasChangedOrIsOldIsNotBelieved(t *testing.T) {
	secret, body, now := NewSecret(), []byte(`[{"id":"a-1"}]`), time.Now().Truncate(time.Second)
	for name, c := range map[string]struct {
		change func(http.Header)
		body   string
		at     time.Time
		want   error
	}{
		"unchanged":         {want: nil},
		"just in time":      {at: now.Add(Tolerance), want: nil},
		"another body":      {body: `[{"id":"a-2"}]`, want: ErrNoMatch},
		"another id":        {change: func(h http.Header) { h.Set(HeaderID, "b-2") }, want: ErrNoMatch},
		"another timestamp": {change: func(h http.Header) { h.Set(HeaderTimestamp, strconv.FormatInt(now.Unix()+1, 10)) }, want: ErrNoMatch},
		"no timestamp":      {change: func(h http.Header) { h.Del(HeaderTimestamp) }, want: ErrMissingHeader},
		"a word for a time": {change: func(h http.Header) { h.Set(HeaderTimestamp, "now") }, want: ErrMissingHeader},
		"no id":             {change: func(h http.Header) { h.Del(HeaderID) }, want: ErrMissingHeader},
		"no signature":      {change: func(h http.Header) { h.Del(HeaderSignature) }, want: ErrMissingHeader},
		"another version":   {change: func(h http.Header) { h.Set(HeaderSignature, "v2"+h.Get(HeaderSignature)[2:]) }, want: ErrNoMatch},
		"too old":           {at: now.Add(Tolerance + time.Second), want: ErrTimestamp},
		"of the future":     {at: now.Add(-Tolerance - time.Second), want: ErrTimestamp},
	} {
		t.Run(name, func(t *testing.T) {
			header := signed(t, []string{secret}, "b-1", now, body)
			if c.change != nil {
				c.change(header)
			}
			got, at := string(body), now
			if c.body != "" {
				got = c.body
			}
			if !c.at.IsZero() {
				at = c.at
			}
			if err := VerifyAt(at, header, []byte(got), secret); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestASecretHasItsFormAndLength(t *testing.T) {
	if m := SecretFault(NewSecret()); m != "" {
		t.Errorf("a secret that was made %s", m)
	}
	for _, n := range []int{24, 64} {
		if m := SecretFault("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n))); m != "" {
			t.Errorf("%d bytes: %s", n, m)
		}
	}
	for _, bad := range []string{
		"", "whsec_", "whsec_%%%", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
		"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 23)), "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)),
	} {
		if SecretFault(bad) == "" {
			t.Errorf("%q passes", bad)
		}
		if _, err := Sign([]string{bad}, "b", time.Now(), nil); err == nil {
			t.Errorf("%q signs", bad)
		}
	}
}

func TestNothingIsSignedWithoutASecret(t *testing.T) {
	if signature, err := Sign(nil, "b", time.Now(), nil); !errors.Is(err, ErrNoSecret) || signature != "" {
		t.Errorf("%q, %v", signature, err)
	}
}

func FuzzVerifyNeverBelievesWhatItDidNotSign(f *testing.F) {
	secret := NewSecret()
	f.Add("b-1", "1700000000", "v1,AAAA", []byte("[]"))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		header := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		if VerifyAt(time.Unix(1700000000, 0), header, body, secret) == nil {
			t.Error("believed")
		}
	})
}
