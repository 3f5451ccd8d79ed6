package config

import (
	"cmp"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// lint warns about what is allowed, and seldom meant. Placeholders that do not exist are a
// problem.
func (b *Block) lint(r report) {
	warning, unknown := checkText(b.Body)
	r.in("body").problem(unknown)
	if warning != "" {
		r.in("body").warn(warning)
	}
	for _, set := range b.Allow {
		if len(set) == 0 {
			r.in("allow").warn("an empty matcher set exempts every request from the rules")
		}
	}
	lintRanges(r.in("rule %q", cmp.Or(b.Name, "ranges")).in("client_ip"), b.Ranges)
	for i := range b.Rules {
		rule := &b.Rules[i]
		at := r.in("rule %q", rule.Name)
		lintRanges(at.in("client_ip"), rule.ClientIP)
		for _, f := range []struct {
			name     string
			patterns []string
		}{
			{"host", rule.Host},
			{"url", rule.URL},
			{"path", rule.Path},
			{"method", rule.Method},
			{"client_ip", rule.ClientIP},
			{"user_agent", rule.UserAgent},
		} {
			lintPatterns(at.in("%s", f.name), f.patterns)
		}
		lintAgents(at.in("agent"), rule.Agent)
		for name, patterns := range rule.Header {
			lintPatterns(at.in("header %q", name), patterns)
		}
		for _, pattern := range rule.Path {
			lintPath(at.in("path").in("%q", pattern), pattern)
		}
		for _, pattern := range rule.Host {
			lintHost(at.in("host").in("%q", pattern), pattern)
		}
	}
}

// LintRules says of rules that are made at run time what is allowed, and seldom meant, as it is said of
// those of a configuration.
func LintRules(rules []blocklist.Rule) (warnings []string) {
	var b Block
	for i := range rules {
		b.Rules = append(b.Rules, RuleOf(&rules[i]))
	}
	r := newReport()
	b.lint(r)
	for _, w := range r.warnings {
		warnings = append(warnings, w.path+": "+w.message)
	}
	return warnings
}

var (
	escaped = regexp.MustCompile("%[0-9A-Fa-f]{2}")
	port    = regexp.MustCompile(`^[^:]*:[0-9]+$`)
)

// lintPath warns about patterns that hardly any path fits.
func lintPath(r report, pattern string) {
	switch {
	case escaped.MatchString(pattern):
		r.warn("is compared with the decoded path, where %20 is a blank")
	case strings.Contains(pattern, "?"):
		r.warn("a ? stands for itself, and the path ends where the query begins: use query, or url for both")
	case pattern != "" && pattern[0] != '/' && pattern[0] != '*':
		r.warn("no path begins so: paths begin with a slash")
	}
}

// lintHost warns about patterns that no host fits.
func lintHost(r report, pattern string) {
	switch {
	case strings.Contains(pattern, "/"):
		r.warn("no host holds a slash: write the name alone, without scheme and path")
	case port.MatchString(pattern):
		r.warn("is compared with the name alone, without its port")
	}
}

// lintExpiry warns about rules that are over.
func (b *Block) lintExpiry(r report, now time.Time) {
	for i := range b.Rules {
		rule := &b.Rules[i]
		at, err := ParseEnd(rule.Expires, now)
		if err == nil && !at.IsZero() && !now.Before(at) {
			r.in("rule %q", rule.Name).in("expires").warn("the rule has expired and has no effect")
		}
	}
}

// lintPatterns warns about patterns that stand beside a lone star.
func lintPatterns(r report, patterns []string) {
	for _, pattern := range patterns {
		if pattern == "*" {
			r.warn("* matches anything, so the field has no effect")
			return
		}
	}
}

// localRanges are those from which operators, health checks and proxies come.
var localRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"),
}

// lintRanges warns, once each, about ranges that are broad, and about those in which the
// operator may be found.
func lintRanges(r report, ranges []string) {
	var broad, private bool
	for _, text := range ranges {
		p, err := blocklist.ParsePrefix(text)
		if err != nil {
			continue
		}
		if p.Addr().Is4() && p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 19 {
			if !broad {
				r.in("%q", text).warn("refuses a large part of all addresses")
			}
			broad = true
			continue
		}
		for _, l := range localRanges {
			if l.Overlaps(p) && !private {
				r.in("%q", text).warn("refuses private or loopback addresses, where health checks and proxies may be")
				private = true
			}
		}
	}
}
