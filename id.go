package millrace

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// NewID returns a ULID for the moment now. Ids made with one monotonic source
// (ulid.Monotonic) sort in the order they were made.
func NewID(now time.Time, entropy io.Reader) (string, error) {
	id, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil {
		return "", fmt.Errorf("make id: %w", err)
	}
	return id.String(), nil
}

// Token is 128 random bits that name the leases of one lease call.
type Token [16]byte

// Receipt names one lease of one message. It is spent by the first settlement
// and superseded when the lease ends.
type Receipt struct {
	Name    uint64 // of the message in its lane
	Attempt int
	Token   Token
}

var receiptEncoding = base64.RawURLEncoding.Strict()

// String is the receipt's text: opaque to its holder.
func (r Receipt) String() string {
	var b [26]byte
	binary.BigEndian.PutUint64(b[:8], r.Name)
	binary.BigEndian.PutUint16(b[8:10], uint16(min(r.Attempt, 1<<16-1)))
	copy(b[10:], r.Token[:])
	return receiptEncoding.EncodeToString(b[:])
}

// ParseReceipt reads a receipt's text. A text that never was a receipt is not
// an error to its holder but a lost one: ok is false.
func ParseReceipt(s string) (r Receipt, ok bool) {
	var b [26]byte
	if len(s) != receiptEncoding.EncodedLen(len(b)) {
		return Receipt{}, false
	}
	if _, err := receiptEncoding.Decode(b[:], []byte(s)); err != nil {
		return Receipt{}, false
	}
	r.Name = binary.BigEndian.Uint64(b[:8])
	r.Attempt = int(binary.BigEndian.Uint16(b[8:10]))
	copy(r.Token[:], b[10:])
	return r, true
}

var messageEncoding = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// MessageID is the name of a message for life, as a text that sorts by it.
func MessageID(name uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], name)
	return messageEncoding.EncodeToString(b[:])
}

// ParseMessageID reads a message's name.
func ParseMessageID(s string) (name uint64, ok bool) {
	b, err := messageEncoding.DecodeString(s)
	if err != nil || len(b) != 8 || MessageID(binary.BigEndian.Uint64(b)) != s {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// Digest is what a store remembers of an id that a publisher gave: 128 bits of
// SHA-256 over tenant, topic, source, key and id, within which ids are compared.
type Digest [16]byte

// DigestOf is the digest of an event's id.
func DigestOf(e *Event) Digest { return DigestTexts(e.Tenant, e.Topic, e.Source(), e.Key, e.ID) }

// DigestTexts is 128 bits of SHA-256 over texts, each with its length.
func DigestTexts(texts ...string) Digest {
	b := make([]byte, 0, 160)
	for _, s := range texts {
		b = appendString(b, s)
	}
	sum := sha256.Sum256(b)
	return Digest(sum[:16])
}
