package aggregator

import "strings"

// mostSubscribers is what larger numbers count as.
const mostSubscribers = 1_000_000_000

// Subscribers reads from a User-Agent how many readers its sender fetches for, as services say
// it: "12 subscribers", "1,204 readers", "users 7", "Subscriber Count: 30", "subscribers_1". ok is
// false if it does not say.
//
// The number stands before the word, or behind it if the word is plural or has "count";
// singular, plural and "(s)" are one, as are spaces, _ and +. Thousands may be set apart
// by comma, point or apostrophe. Of several statements the first one counts. Versions, views,
// seconds and whatever else has a number are not taken for subscribers. It allocates nothing.
func Subscribers(agent string) (n int64, ok bool) {
	for i := 0; i < len(agent); i++ {
		if !isLetter(agent[i]) || i > 0 && isWord(agent[i-1]) {
			continue
		}
		end, after := wordAt(agent, i)
		if end == 0 {
			continue
		}
		if n, ok = numberBefore(agent[:i]); ok {
			return n, true
		}
		if after {
			if n, ok = numberAfter(agent[end:]); ok {
				return n, true
			}
		}
		i = end - 1
	}
	return 0, false
}

// audiences are the words for those who read.
var audiences = [...]string{"subscriber", "reader", "user"}

// wordAt returns where the word for an audience ends that begins at i, 0 if none does. after is set
// if a number may stand behind it: names of programs have the word too, in the singular, with a
// version behind it ("RSS Reader 5").
func wordAt(agent string, i int) (end int, after bool) {
	for _, word := range audiences {
		if len(agent)-i < len(word) || !strings.EqualFold(agent[i:i+len(word)], word) {
			continue
		}
		end = i + len(word)
		switch rest := agent[end:]; {
		case len(rest) > 0 && lower(rest[0]) == 's':
			end, after = end+1, true
		case len(rest) > 2 && rest[0] == '(' && lower(rest[1]) == 's' && rest[2] == ')':
			end, after = end+3, true
		default:
			if n := gap(rest); n > 0 && len(rest)-n >= len("count") && strings.EqualFold(rest[n:n+len("count")], "count") {
				end, after = end+n+len("count"), true
			}
		}
		if end < len(agent) && (isWord(agent[end]) || agent[end] == '-' || agent[end] == '/') {
			return 0, false // a longer word, or a program with its version
		}
		return end, after
	}
	return 0, false
}

// gap is how many bytes of a text stand for spaces.
func gap(text string) int { return len(text) - len(strings.TrimLeft(text, " _+")) }

// numberBefore reads the number at the end of a text, before a space.
func numberBefore(text string) (int64, bool) {
	trimmed := strings.TrimRight(text, " _+")
	if len(trimmed) == len(text) {
		return 0, false
	}
	start := len(trimmed)
	for start > 0 && (isDigit(trimmed[start-1]) || isSeparator(trimmed[start-1])) {
		start--
	}
	if start < len(trimmed) && trimmed[start] == ',' {
		start++ // of the sentence
	}
	if start > 0 && !opens(trimmed[start-1]) {
		return 0, false
	}
	return number(trimmed[start:])
}

// numberAfter reads the number at the beginning of a text, behind a space or a colon.
func numberAfter(text string) (int64, bool) {
	rest := strings.TrimLeft(text, " _+:=")
	if len(rest) == len(text) {
		return 0, false
	}
	end := 0
	for end < len(rest) && (isDigit(rest[end]) || isSeparator(rest[end])) {
		end++
	}
	if end > 0 && rest[end-1] == ',' {
		end-- // of the sentence
	}
	if end < len(rest) && !closes(rest[end]) {
		return 0, false
	}
	return number(rest[:end])
}

// number reads digits, which may be set apart in groups of three.
func number(text string) (n int64, ok bool) {
	group, mark := 0, byte(0) // digits since the last mark, and which that was
	for i := range len(text) {
		c := text[i]
		switch {
		case isDigit(c):
			n = min(n*10+int64(c-'0'), mostSubscribers)
			group++
		case mark == 0 && 1 <= group && group <= 3, mark == c && group == 3:
			mark, group = c, 0
		default:
			return 0, false
		}
	}
	if group == 0 || mark != 0 && group != 3 {
		return 0, false
	}
	return n, true
}

// opens reports whether a number may begin behind this byte.
func opens(c byte) bool { return strings.IndexByte(" _+;,([\t", c) >= 0 }

// closes reports whether a number may end before this byte.
func closes(c byte) bool { return strings.IndexByte(" _+;),]\t", c) >= 0 }

func isSeparator(c byte) bool { return c == ',' || c == '.' || c == '\'' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c >= 0x80 }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
