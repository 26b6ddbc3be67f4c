package millrace

// DeeperThan reports whether a JSON text nests deeper than limit. Of a text that is
// not JSON it may say either.
func DeeperThan(text []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = endOfString(text, i)
		}
	}
	return false
}

// endOfString is the place of the quote that ends the string begun at i.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
