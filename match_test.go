package millrace_test

import (
	"regexp"
	"testing"

	"github.com/millrace-dev/millrace"
)

func TestAPatternMatchesExactlyWhatItsExpressionMatches(t *testing.T) {
	patterns := []string{
		"^acme:", "^acme", "created$", ":created$", "^acme:orders:created$", "^$", "^", "$", "^a", "x$", "^acme$", "^^acme", "created$$", "^acme|created$", "(^acme)", "(created$)",
		"^acm?e", "^acme*", "^acme?:", "creat+ed$", "created?$", "(?i)^ACME:", "(?i)CREATED$", "(?m)^acme", "(?m)created$", `\Aacme`, `created\z`, `\bacme`, "^(acme|b):", ":(created|x)$",
		"^.*created$", "^a.*x$", "(^a)?x", "x($)?", "^{0}acme", "(?:^)acme:", "created(?:$)", "^[a]cme", "x[$]", "^é", "é$", "(?U)^a+", "^acme:|^b:",
	}
	matched := 0
	for _, p := range patterns {
		m, err := millrace.CompileMatch(p)
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		re := regexp.MustCompile(p)
		for _, address := range []string{
			"acme:orders:created", "acme:orders:x", "ACME:orders:CREATED", "a:orders:x", "b:acme:created", "b:orders:creatd", "acm:orders:create", "acmee:x:createdd", "é:x:é", "aacme:x:xcreated", "acme", "x", "a", "",
		} {
			if got, want := m.Matches(address), re.MatchString(address); got != want {
				t.Errorf("%q on %q: got %v, want %v", p, address, got, want)
			}
			if re.MatchString(address) {
				matched++
			}
		}
	}
	if matched < len(patterns) {
		t.Errorf("only %d of the pairs match: that shows little", matched)
	}
}
