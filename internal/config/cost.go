package config

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weirhq/caddy-weir/limiter"
)

// A compiledCost says how much of a budget a request spends.
type compiledCost struct {
	fixed int64
	text  template // when fixed is 0
}

// compileCost compiles a zone's cost and reports what is wrong with it. Without one a
// request costs 1.
func compileCost(r report, c Cost) compiledCost {
	if c == "" {
		return compiledCost{fixed: 1}
	}
	text := string(c)
	t, err := parseTemplate(text, prefixBits{defaultIPv4Prefix, defaultIPv6Prefix})
	if err != nil {
		r.problem(err)
		return compiledCost{fixed: 1}
	}
	if t.literal() {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			r.problemf("must be a whole number or a placeholder, got %q", text)
		case n < 1 || n > limiter.MaxEvents:
			r.problemf("must be between 1 and %d, got %d", int64(limiter.MaxEvents), n)
		}
		return compiledCost{fixed: n}
	}
	warning, unknown := checkPlaceholders(text)
	r.problem(unknown)
	if warning != "" {
		r.warn(warning)
	}
	lintCost(r, t)
	return compiledCost{text: t}
}

// lintCost warns if clients choose what they pay: one that says 0 is never refused.
func lintCost(r report, t template) {
	for i := range t {
		name := t[i].text
		if t[i].source == fromHeader {
			name = headerPrefix + name
		}
		for _, prefix := range []string{headerPrefix, "http.request.cookie.", "http.request.uri.query"} {
			if t[i].source != fromLiteral && strings.HasPrefix(name, prefix) {
				r.warn(fmt.Sprintf("{%s} is whatever the client sends: one that says 0 is never refused", name))
			}
		}
	}
}

// of returns the cost of a request. A placeholder that holds no whole number (nothing,
// a word, a fraction, a negative number) costs the default, 1, so that nobody gains
// by nonsense; sound is then false, unless it holds nothing at all. 0 spends nothing
// and is never refused. What is above limiter.MaxEvents counts as that.
func (c *compiledCost) of(r *http.Request, client netip.Addr) (n int64, sound bool) {
	if c.fixed > 0 {
		return c.fixed, true
	}
	var room [2 * maxValue]byte
	text, _ := c.text.appendTo(room[:0], r, client)
	return parseCost(text)
}

// parseCost reads decimal digits, and nothing but digits.
func parseCost(text []byte) (n int64, sound bool) {
	if len(text) == 0 {
		return 1, true
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 1, false
		}
		n = min(n*10+int64(c-'0'), limiter.MaxEvents)
	}
	return n, true
}
