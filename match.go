package millrace

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Match is a compiled pattern: a Go regular expression, unanchored, that is
// tested against an event's address, tenant:topic:type.
type Match struct {
	re           *regexp.Regexp
	topic        string
	starts, ends string // what every address that matches begins and ends with
}

// MatchFault says what is wrong with a pattern, or "" if nothing is.
func MatchFault(pattern string) string {
	switch {
	case pattern == "":
		return "must not be empty"
	case utf8.RuneCountInString(pattern) > MaxPatternLen:
		return "must be at most " + strconv.Itoa(MaxPatternLen) + " characters"
	}
	if _, err := regexp.Compile(pattern); err != nil {
		var se *syntax.Error
		if errors.As(err, &se) {
			return "is not a regular expression: " + se.Code.String()
		}
		return "is not a regular expression"
	}
	return ""
}

// CompileMatch compiles a pattern that MatchFault has nothing against.
func CompileMatch(pattern string) (*Match, error) {
	if fault := MatchFault(pattern); fault != "" {
		return nil, Invalid([]Fault{{Location: "match", Message: fault}})
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	m := &Match{re: re}
	if parts, err := partsOf(pattern); err == nil {
		m.topic = literalTopic(parts)
		m.starts, m.ends = anchored(parts)
	}
	return m, nil
}

// Matches reports whether the pattern matches an address. The ends are compared
// first: that is ten times cheaper, and most patterns are of somebody else.
func (m *Match) Matches(address string) bool {
	return strings.HasPrefix(address, m.starts) && strings.HasSuffix(address, m.ends) && m.re.MatchString(address)
}

// Topic is the only topic whose addresses can match, or "" if there may be
// several. Routing uses it as an index; it may miss, it never excludes.
func (m *Match) Topic() string { return m.topic }

// literalTopic finds a topic that every match must have as plain text between
// two colons: an address has exactly two, so what stands between them is its topic.
func literalTopic(parts []*syntax.Regexp) string {
	for _, part := range parts {
		_, rest, _ := strings.Cut(plainText(part), ":")
		if topic, _, closed := strings.Cut(rest, ":"); closed && topic != "" {
			return topic
		}
	}
	return ""
}

// anchored is the plain text right after an anchor at the beginning of a
// pattern, and right before one at its end.
func anchored(parts []*syntax.Regexp) (starts, ends string) {
	n := len(parts)
	if n < 2 {
		return "", ""
	}
	if parts[0].Op == syntax.OpBeginText {
		starts = plainText(parts[1])
	}
	if parts[n-1].Op == syntax.OpEndText {
		ends = plainText(parts[n-2])
	}
	return starts, ends
}

// partsOf takes a pattern apart into what must match one after the other.
func partsOf(pattern string) ([]*syntax.Regexp, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if re.Op == syntax.OpConcat {
		return re.Sub, nil
	}
	return []*syntax.Regexp{re}, nil
}

// plainText is the text that a part of a pattern is, or "" if it is anything else.
func plainText(part *syntax.Regexp) string {
	if part.Op != syntax.OpLiteral || part.Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(part.Rune)
}
