package millrace_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/internal/importguard"
)

func TestTheWordsStandAlone(t *testing.T) { importguard.Check(t) }

func TestTheHashIsTheOneThatIsDocumented(t *testing.T) {
	for _, tt := range []struct {
		tenant, key string
		want        uint64
	}{
		{"default", "k0", 0x3cdba96d456de00d},
		{"acme", "order:7", 0xccdf92246a71e877},
		{"ü", "a/b", 0xc0101a36c36d09a7},
	} {
		if got := millrace.Hash(tt.tenant, tt.key); got != tt.want {
			t.Errorf("Hash(%q, %q) = %x, want %x", tt.tenant, tt.key, got, tt.want)
		}
	}
}

func TestAKeysPartitionDoesNotDependOnTheNumberOfLanes(t *testing.T) {
	const partitions = 64
	for i := range 1000 {
		h := millrace.Hash("acme", fmt.Sprint(i))
		for lanes := 1; lanes <= millrace.MaxLanes; lanes *= 2 {
			if got, want := millrace.LaneOf(h, lanes), int(h%partitions)%lanes; got != want {
				t.Fatalf("lane %d of %d, want the lane of its partition, %d", got, lanes, want)
			}
		}
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, ok := range []string{"a", "A-Z.0_9", "...", strings.Repeat("x", 128)} {
		if got := millrace.NameFault(ok); got != "" {
			t.Errorf("%q: got %q", ok, got)
		}
	}
	for _, bad := range []string{"", ".", "..", "a:b", "a b", "a/b", "ü", "a\x00", "{a}", strings.Repeat("x", 129)} {
		if millrace.NameFault(bad) == "" {
			t.Errorf("%q: got no fault", bad)
		}
	}
}

func TestAPatternIsRefusedWhenItIsRegistered(t *testing.T) {
	for _, bad := range []string{"", "[", "a(", "x{2,1}", `\8`, strings.Repeat("a", 1001), "a(?!b)"} {
		if millrace.MatchFault(bad) == "" {
			t.Errorf("%q: got no fault", bad)
		}
	}
}

func TestAPatternMatchesAnywhereInTheAddress(t *testing.T) {
	for _, tt := range []struct {
		pattern, address string
		want             bool
	}{
		{":email_event:", "5:email_event:opened", true},
		{"^5:", "15:email_event:opened", false},
		{"5:", "15:email_event:opened", true},
		{"email|sms", "t:sms:x", true},
		{`^\d+:page:`, "12:page:view", true},
		{`^\d+:page:`, "x:page:view", false},
	} {
		m, err := millrace.CompileMatch(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Matches(tt.address); got != tt.want {
			t.Errorf("%q on %q: got %v, want %v", tt.pattern, tt.address, got, tt.want)
		}
	}
}

func TestTheTopicOfAPatternNeverExcludesAMatch(t *testing.T) {
	patterns := []string{
		":orders:", "^acme:orders:created$", "acme:orders:", ".*:orders:.*", "^.*:orders:x", "orders", ":orders", "orders:",
		":or.ers:", ":orders|pages:", ":(orders):", ":orders?:", "a:b", "^:orders:", ":orders$:", "::", "acme:orders:created",
		"(?i):ORDERS:", "^(acme|b):orders:", ":orders:created|:pages:x", ":orders:created|:orders:x", "[a-z]:orders:", "(:orders:)?", "(:a:){0}",
	}
	tenants := []string{"acme", "a", "b"}
	topics := []string{"orders", "order", "pages", "b", "a", "or-ers"}
	for _, p := range patterns {
		m, err := millrace.CompileMatch(p)
		if err != nil {
			t.Fatal(err)
		}
		re := regexp.MustCompile(p)
		for _, tenant := range tenants {
			for _, topic := range topics {
				for _, typ := range []string{"created", "x", "orders"} {
					address := millrace.Address(tenant, topic, typ)
					if re.MatchString(address) && m.Topic() != "" && m.Topic() != topic {
						t.Errorf("%q matches %q but says its topic is %q", p, address, m.Topic())
					}
				}
			}
		}
	}
	for _, p := range []string{":orders:", "^(acme|b):orders:", "^[a-z]+:orders:.*d$", ":orders:created|:orders:x"} {
		m, err := millrace.CompileMatch(p)
		if err != nil {
			t.Fatal(err)
		}
		if m.Topic() != "orders" {
			t.Errorf("topic of %s is %q: it is not indexed", p, m.Topic())
		}
	}
}

func TestTheBackoffDoublesUpToItsMost(t *testing.T) {
	b := millrace.Backoff{First: time.Second, Max: 10 * time.Second}
	for attempt, full := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 900: 10 * time.Second} {
		if got := b.Delay(attempt, 0); got != full/2 {
			t.Errorf("attempt %d, least: got %v, want %v", attempt, got, full/2)
		}
		if got := b.Delay(attempt, 0.999999); got > full || got < full*9/10 {
			t.Errorf("attempt %d, most: got %v, want about %v", attempt, got, full)
		}
	}
}

func TestAReceiptSurvivesItsText(t *testing.T) {
	want := millrace.Receipt{Name: 1<<53 - 1, Attempt: 7, Token: millrace.Token{1, 2, 255}}
	got, ok := millrace.ParseReceipt(want.String())
	if !ok || got != want {
		t.Errorf("got %v %v, want %v", got, ok, want)
	}
}

func FuzzParseReceipt(f *testing.F) {
	f.Add(millrace.Receipt{Name: 9, Attempt: 1}.String())
	f.Add("q5J")
	f.Add(strings.Repeat("_", 35))
	f.Fuzz(func(t *testing.T, s string) {
		if r, ok := millrace.ParseReceipt(s); ok && r.String() != s {
			t.Errorf("%q reads as the receipt %q", s, r)
		}
	})
}

func FuzzParseMessageID(f *testing.F) {
	f.Add(millrace.MessageID(42))
	f.Add("01K0C")
	f.Fuzz(func(t *testing.T, s string) {
		if seq, ok := millrace.ParseMessageID(s); ok && millrace.MessageID(seq) != s {
			t.Errorf("%q reads as the message %d", s, seq)
		}
	})
}

func TestErrorsAreToldApartByTheirCode(t *testing.T) {
	err := fmt.Errorf("show queue: %w", millrace.Errorf(millrace.CodeNotFound, "there is no such queue"))
	if !errors.Is(err, millrace.ErrNotFound) {
		t.Error("a wrapped error is not found by its code")
	}
	if errors.Is(err, millrace.ErrInvalid) {
		t.Error("an error is found by another's code")
	}
	if got := millrace.CodeOf(err); got != millrace.CodeNotFound {
		t.Errorf("got %s", got)
	}
	if got := millrace.CodeOf(errors.New("other")); got != millrace.CodeInternal {
		t.Errorf("got %s", got)
	}
}

func TestTheFaultsOfATrackedQueueAreNamed(t *testing.T) {
	q := millrace.DefaultQueueSpec("a")
	q.Tracked, q.Retention, q.ErrorRetention, q.Redact = true, 0, time.Hour, []string{"/user/*/token"}
	if f := q.Faults(""); len(f) != 0 {
		t.Errorf("got %v", f)
	}
	q.Retention, q.ErrorRetention, q.Redact = -1, millrace.MaxRetention+1, []string{"/a", "token"}
	var at []string
	for _, f := range q.Faults("") {
		at = append(at, f.Location)
	}
	if want := []string{"retention", "error_retention", "redact[1]"}; !slices.Equal(at, want) {
		t.Errorf("got %v, want %v", at, want)
	}
}
