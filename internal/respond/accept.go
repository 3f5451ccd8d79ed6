package respond

import "strings"

// asksJSON reports whether the values of Accept name JSON before text: a JSON type
// with a higher quality than any text type, or with the same and earlier. Wildcards
// ask for nothing in particular and do not count, and neither do feeds that happen to
// be JSON.
func asksJSON(accept []string) bool {
	var json, text int // qualities in thousandths
	for _, value := range accept {
		for value != "" {
			var item string
			item, value, _ = strings.Cut(value, ",")
			name, parameters, _ := strings.Cut(item, ";")
			name = strings.TrimSpace(name)
			switch {
			case isJSON(name):
				// The same quality counts for whichever came first.
				if q := quality(parameters); q > text {
					json = max(json, q)
				}
			case isText(name):
				if q := quality(parameters); q > json {
					text = max(text, q)
				}
			}
		}
	}
	return json > text
}

// isJSON reports whether a media type is JSON: application/json or one of its kind.
func isJSON(name string) bool {
	kind, ok := cutPrefixFold(name, "application/")
	if !ok || strings.EqualFold(kind, "feed+json") {
		return false
	}
	return strings.EqualFold(kind, "json") ||
		len(kind) > len("+json") && strings.EqualFold(kind[len(kind)-len("+json"):], "+json")
}

// isText reports whether a media type is one that text answers: plain text, or a page
// for people.
func isText(name string) bool {
	kind, ok := cutPrefixFold(name, "text/")
	return ok && (kind == "*" || strings.EqualFold(kind, "plain") || strings.EqualFold(kind, "html"))
}

// cutPrefixFold is strings.CutPrefix without regard to case.
func cutPrefixFold(text, prefix string) (string, bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

// quality returns the weight among a media type's parameters in thousandths (RFC 9110,
// section 12.4.2): 1000 if there is none, 0 if it cannot be read.
func quality(parameters string) int {
	for parameters != "" {
		var parameter string
		parameter, parameters, _ = strings.Cut(parameters, ";")
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			return weight(strings.TrimSpace(value))
		}
	}
	return 1000
}

// weight reads a number from 0 to 1 with up to three decimals.
func weight(text string) int {
	whole, decimals, _ := strings.Cut(text, ".")
	if len(decimals) > 3 || whole != "0" && whole != "1" {
		return 0
	}
	q := int(whole[0]-'0') * 1000
	for i, unit := 0, 100; i < len(decimals); i, unit = i+1, unit/10 {
		if decimals[i] < '0' || decimals[i] > '9' {
			return 0
		}
		q += int(decimals[i]-'0') * unit
	}
	return min(q, 1000)
}
