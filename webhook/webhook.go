// Package webhook signs, sends and verifies one batch of events. It knows no
// storage. Receivers need Verify alone; the form is that of Standard Webhooks.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of every batch.
const (
	HeaderID           = "webhook-id"            // the batch; the same on every attempt
	HeaderTimestamp    = "webhook-timestamp"     // seconds since 1970, of this attempt
	HeaderSignature    = "webhook-signature"     // one for each active secret
	HeaderSubscription = "millrace-subscription" // its name
	HeaderAttempt      = "millrace-attempt"      // from 1
	secretPrefix       = "whsec_"
	signaturePrefix    = "v1,"
	minKey, maxKey     = 24, 64 // bytes
)

// Tolerance is how far a request's timestamp may be from the receiver's clock.
const Tolerance = 5 * time.Minute

// ErrNoSecret is why a request is not signed.
var ErrNoSecret = errors.New("webhook: there is no secret to sign with")

// Why a request is not believed.
var (
	ErrMissingHeader = errors.New("webhook: a header is missing or malformed")
	ErrTimestamp     = errors.New("webhook: the timestamp is too far from now")
	ErrNoMatch       = errors.New("webhook: no signature matches")
)

// NewSecret makes a secret.
func NewSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// SecretFault says what is wrong with a secret, or "" if nothing is.
func SecretFault(secret string) string {
	if _, err := keyOf(secret); err != nil {
		return "must be whsec_ and the base64 of 24 to 64 bytes"
	}
	return ""
}

func keyOf(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, errors.New("webhook: not a secret")
	}
	return key, nil
}

// Sign is the signature header of a request: one signature for each secret, so that
// a receiver may know any of them. Without a secret nothing is signed: ErrNoSecret.
func Sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", ErrNoSecret
	}
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key, err := keyOf(secret)
		if err != nil {
			return "", err
		}
		signatures[i] = signaturePrefix + base64.StdEncoding.EncodeToString(sum(key, id, strconv.FormatInt(at.Unix(), 10), body))
	}
	return strings.Join(signatures, " "), nil
}

func sum(key []byte, id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify is nil if a request was signed with one of the secrets at most five minutes ago.
// body is the request's body as it came, byte for byte. Whoever is believed may still send
// the same batch again: deduplicate by the events' ids.
func Verify(header http.Header, body []byte, secrets ...string) error {
	return VerifyAt(time.Now(), header, body, secrets...)
}

// VerifyAt is Verify at another time than now.
func VerifyAt(now time.Time, header http.Header, body []byte, secrets ...string) error {
	id, timestamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil || header.Get(HeaderSignature) == "" {
		return ErrMissingHeader
	}
	if apart := now.Sub(time.Unix(seconds, 0)); apart > Tolerance || apart < -Tolerance {
		return ErrTimestamp
	}
	given := signatures(header.Get(HeaderSignature))
	for _, secret := range secrets {
		key, err := keyOf(secret)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		want := sum(key, id, timestamp, body)
		for _, got := range given {
			if hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return ErrNoMatch
}

// signatures are those of a header whose version is known; others are passed over.
func signatures(header string) (list [][]byte) {
	for _, text := range strings.Fields(header) {
		encoded, ok := strings.CutPrefix(text, signaturePrefix)
		if signature, err := base64.StdEncoding.DecodeString(encoded); ok && err == nil {
			list = append(list, signature)
		}
	}
	return list
}
