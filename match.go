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
	re    *regexp.Regexp
	topic string
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
	return &Match{re: re, topic: literalTopic(pattern)}, nil
}

// Matches reports whether the pattern matches an address.
func (m *Match) Matches(address string) bool { return m.re.MatchString(address) }

// Topic is the only topic whose addresses can match, or "" if there may be
// several. Routing uses it as an index; it may miss, it never excludes.
func (m *Match) Topic() string { return m.topic }

// literalTopic finds a topic that every match must have as plain text between
// two colons: an address has exactly two, so what stands between them is its topic.
func literalTopic(pattern string) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	for _, part := range parts {
		if part.Op != syntax.OpLiteral || part.Flags&syntax.FoldCase != 0 {
			continue
		}
		_, rest, _ := strings.Cut(string(part.Rune), ":")
		if topic, _, closed := strings.Cut(rest, ":"); closed && topic != "" {
			return topic
		}
	}
	return ""
}
