package respond

import (
	"strconv"
	"unicode/utf8"

	"github.com/weirhq/caddy-weir/limiter"
)

// The problem type of draft-ietf-httpapi-ratelimit-headers-10. Any other
// refusal is "about:blank", which RFC 9457 lets us leave out, with the status's title.
const (
	quotaType  = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	quotaTitle = "Quota exceeded"
)

// appendProblem appends the answer as problem details. The names of the limits that
// refused are those of RateLimit-Policy: the zones'.
func appendProblem(b []byte, f *Refusal, message string, after int64) []byte {
	if f.Decision != nil {
		b = append(b, `{"type":"`+quotaType+`","title":"`+quotaTitle...)
	} else {
		b = append(append(b, `{"title":"`...), title(f.Status)...)
	}
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(f.Status), 10)
	if message != "" {
		b = append(b, `,"detail":`...)
		b = appendJSON(b, message)
	} else {
		b = appendHint(b, `,"detail":"`, f, after, `"`)
	}
	if f.Decision != nil {
		b = append(b, `,"violated-policies":[`...)
		b = appendViolated(b, f.Decision)
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendViolated appends the names of the zones that refused, each once.
func appendViolated(b []byte, d *limiter.Decision) []byte {
	first := true
	for i := range d.Asks {
		if !refused(d, i) || listed(d, i) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		b = appendJSON(b, d.Asks[i].Limit.Zone)
		first = false
	}
	return b
}

// refused reports whether the ask of that index refused the request.
func refused(d *limiter.Decision, i int) bool {
	return !d.Results[i].Allowed && !d.Asks[i].Limit.Shadow
}

// listed reports whether an ask before that index names the same zone.
func listed(d *limiter.Decision, i int) bool {
	for j := range i {
		if refused(d, j) && d.Asks[j].Limit.Zone == d.Asks[i].Limit.Zone {
			return true
		}
	}
	return false
}

// appendJSON appends text as a JSON string. It does what encoding/json does, which
// cannot append to a buffer.
func appendJSON(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f || r == '<' || r == '>' || r == '&':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
