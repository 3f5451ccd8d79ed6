package copies

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxKey is the longest key of an address, in bytes. What is longer is not kept.
const maxKey = 2048

// forwarded are the fields by which a front says for what it was asked. Sites make links and redirects of them.
var forwarded = [...]string{
	"X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix",
}

// Key is what a request asks for: scheme, host, path and query as they came and, if they are not the
// same any more, as they are, and what a front says of them; ok is false if that is too long to be kept. One path is not
// enough: rewrites make one address of many, and many handlers answer one.
func Key(r *http.Request, came *url.URL) (key string, ok bool) {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	first, now := pathOf(came), pathOf(r.URL)
	key = scheme + strings.ToLower(r.Host) + first
	if now != first {
		key += apart + now
	}
	for _, name := range forwarded {
		if told := r.Header[name]; len(told) > 0 {
			key += apart + name + " " + strings.Join(told, ",")
		}
	}
	return key, len(key) <= maxKey
}

// apart keeps parts of a key from being one that somebody can ask for: neither addresses nor fields hold a line
// feed, while HTTP/2 lets a query have spaces.
const apart = "\n"

// KeyByAccept makes a key one of those alone who accept the same media types, word for word. There are
// sites that answer an address with a page or with data (ActivityPub, JSON) by what is accepted, and do not
// say that they do (Vary, RFC 9110, section 12.5.5). ok is false if that is too long to be kept.
func KeyByAccept(key string, h http.Header) (byAccept string, ok bool) {
	if accepted := h["Accept"]; len(accepted) > 0 {
		key += apart + "Accept " + strings.Join(accepted, ",")
	}
	return key, len(key) <= maxKey
}

func pathOf(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	return path
}

// Partial reports whether a request may be answered with less than a whole answer: it sets
// conditions or wants a range.
func Partial(r *http.Request) bool {
	for _, name := range [...]string{
		"Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since",
	} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// Shared reports whether an answer to an anonymous request may be given to others (RFC 9111,
// section 3): it sets no cookie, does not vary by anything but Accept-Encoding, Accept and what no
// anonymous request has, and says nothing of private, no-store or no-cache.
func Shared(h http.Header) bool {
	if len(h["Set-Cookie"]) > 0 || len(h["Trailer"]) > 0 || len(h["Content-Range"]) > 0 {
		return false
	}
	for name := range words(h["Vary"]) {
		switch http.CanonicalHeaderKey(name) {
		case "Accept-Encoding", "Accept", "Cookie", "Authorization":
		default:
			return false
		}
	}
	if len(h["Cache-Control"]) == 0 && says(h["Pragma"], "no-cache") {
		return false
	}
	for _, field := range [...]string{"Cache-Control", "Cdn-Cache-Control"} {
		if says(h[field], "private", "no-store", "no-cache") {
			return false
		}
	}
	return true
}

// Stale reports whether an answer may be given when it is no longer fresh (RFC 9111, section
// 4.2.4): it does not say that it must be asked for anew.
func Stale(h http.Header) bool {
	return !says(h["Cache-Control"], "must-revalidate", "proxy-revalidate", "s-maxage")
}

// Fresh is for how long an answer is fresh from now on (RFC 9111, section 4.2): by s-maxage, max-age
// or Expires, less its Age. told is false if it does not say.
func Fresh(h http.Header, now time.Time) (span time.Duration, told bool) {
	switch {
	case seconds(h["Cache-Control"], "s-maxage", &span), seconds(h["Cache-Control"], "max-age", &span):
	case len(h["Expires"]) > 0:
		until, err := http.ParseTime(h["Expires"][0])
		if err != nil {
			return 0, true // such as 0: it is over
		}
		from := now
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			from = date
		}
		span = until.Sub(from)
	default:
		return 0, false
	}
	return span - aged(h), true
}

// aged is what Age says.
func aged(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Age"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// seconds finds a directive with a number of seconds.
func seconds(values []string, directive string, span *time.Duration) bool {
	for word := range words(values) {
		name, value, _ := strings.Cut(word, "=")
		if !strings.EqualFold(strings.TrimSpace(name), directive) {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 31)
		if err != nil {
			n = 0 // who cannot be understood wants no copies
		}
		*span = time.Duration(n) * time.Second
		return true
	}
	return false
}

// says reports whether a list of directives has one of these, with an argument or without.
func says(values []string, directives ...string) bool {
	for word := range words(values) {
		name, _, _ := strings.Cut(word, "=")
		for _, d := range directives {
			if strings.EqualFold(strings.TrimSpace(name), d) {
				return true
			}
		}
	}
	return false
}

// words yields the members of lists, of which a field may have several.
func words(values []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, value := range values {
			for word := range strings.SplitSeq(value, ",") {
				if word = strings.TrimSpace(word); word != "" && !yield(word) {
					return
				}
			}
		}
	}
}

// accepts reports whether a client can read a coding. Who says nothing of codings reads none.
func accepts(values []string, coding string) bool {
	plain := coding == "" || strings.EqualFold(coding, "identity")
	ok := plain
	for word := range words(values) {
		name, parameters, _ := strings.Cut(word, ";")
		name = strings.TrimSpace(name)
		switch {
		case plain && strings.EqualFold(name, "identity"), !plain && strings.EqualFold(name, coding):
			return !refused(parameters)
		case !plain && name == "*":
			ok = !refused(parameters)
		}
	}
	return ok
}

// refused reports whether parameters give a weight of nothing.
func refused(parameters string) bool {
	name, value, _ := strings.Cut(parameters, "=")
	weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return strings.EqualFold(strings.TrimSpace(name), "q") && err == nil && weight == 0
}

// suits reports whether a client that asks like this can be given the copy.
func (c *Copy) suits(h http.Header) bool {
	return accepts(h["Accept-Encoding"], c.coding) && (!c.byAccept || c.accept == strings.Join(h["Accept"], ","))
}
