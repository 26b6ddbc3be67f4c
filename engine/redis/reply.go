package redis

import (
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// textOf is a reply's text; a number's digits; empty for nothing.
func textOf(m rueidis.RedisMessage) string {
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	text, _ := m.ToString()
	return text
}

func intOf(m rueidis.RedisMessage) int64 {
	n, _ := m.AsInt64()
	return n
}

func ints(list []rueidis.RedisMessage) []int64 {
	numbers := make([]int64, len(list))
	for i := range list {
		numbers[i] = intOf(list[i])
	}
	return numbers
}

func listOf(m rueidis.RedisMessage) []rueidis.RedisMessage {
	list, _ := m.ToArray()
	return list
}

func texts(list []rueidis.RedisMessage) []string {
	var all []string
	for i := range list {
		all = append(all, textOf(list[i]))
	}
	return all
}

func infoField(info, field string) string {
	for line := range strings.SplitSeq(info, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return value
		}
	}
	return ""
}
