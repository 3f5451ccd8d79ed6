package headers

import (
	"net/http"
	"strconv"
	"strings"
)

// write sets the fields of style s. All values are cut from one string and stand in
// one backing slice: two allocations, whatever the style.
func write(h http.Header, s Style, n numbers) {
	var room [256]byte
	b := room[:0]
	var ends [5]int
	if s&Legacy != 0 {
		b = strconv.AppendInt(b, n.max, 10)
		ends[0] = len(b)
		b = strconv.AppendInt(b, n.left, 10)
		ends[1] = len(b)
		b = strconv.AppendInt(b, n.reset, 10)
	}
	ends[2] = len(b)
	if s&Draft != 0 {
		b = appendItem(b, n.name, "q", n.max, "w", n.window)
		ends[3] = len(b)
		b = appendItem(b, n.name, "r", n.left, "t", n.reset)
		ends[4] = len(b)
	}

	text := string(b)
	// The capacity of each value stops at its end: whoever adds to a field must not
	// write over its neighbour.
	values := make([]string, 5)
	if s&Legacy != 0 {
		values[0], values[1], values[2] = text[:ends[0]], text[ends[0]:ends[1]], text[ends[1]:ends[2]]
		h[legacyLimit], h[legacyRemaining], h[legacyReset] = values[0:1:1], values[1:2:2], values[2:3:3]
	}
	if s&Draft != 0 {
		values[3], values[4] = text[ends[2]:ends[3]], text[ends[3]:ends[4]]
		h[draftPolicy], h[draftLimit] = values[3:4:4], values[4:5:5]
	}
}

// appendItem appends one member of a structured list: a string with two integer
// parameters.
func appendItem(b []byte, name, key1 string, value1 int64, key2 string, value2 int64) []byte {
	b = appendString(b, name)
	b = append(append(append(b, ';'), key1...), '=')
	b = strconv.AppendInt(b, value1, 10)
	b = append(append(append(b, ';'), key2...), '=')
	return strconv.AppendInt(b, value2, 10)
}

// appendString appends text as a string of RFC 9651, section 4.1.6. Such a string is
// printable ASCII; any other byte stands as a per cent sign and two hex digits.
func appendString(b []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// written returns what the fields in h leave and until when, and which families they
// are. Fields that cannot be read leave nothing to keep: they count as absent.
func written(h http.Header) (n numbers, family Style) {
	if v := h[draftLimit]; len(v) > 0 {
		left, okLeft := parameter(v[0], ";r=")
		reset, okReset := parameter(v[0], ";t=")
		if okLeft && okReset {
			n, family = numbers{left: left, reset: reset}, Draft
		}
	}
	if left, reset := h[legacyRemaining], h[legacyReset]; len(left) > 0 && len(reset) > 0 {
		l, errLeft := strconv.ParseInt(left[0], 10, 64)
		r, errReset := strconv.ParseInt(reset[0], 10, 64)
		if errLeft == nil && errReset == nil {
			n, family = numbers{left: l, reset: r}, family|Legacy
		}
	}
	return n, family
}

// parameter returns the integer after the last occurrence of key, such as ";r=". The
// last one is outside of the name, which stands first and may contain anything.
func parameter(item, key string) (int64, bool) {
	_, after, found := cutLast(item, key)
	if !found {
		return 0, false
	}
	digits, _, _ := strings.Cut(after, ";")
	value, err := strconv.ParseInt(digits, 10, 64)
	return value, err == nil
}

// cutLast slices text around the last instance of sep.
func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}
