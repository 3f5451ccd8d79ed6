package config

import (
	"net/netip"
	"unicode"
	"unicode/utf8"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// maxZoneName is the longest name of a zone in bytes: it stands in headers, metrics and
// the name of everything that is stored.
const maxZoneName = 128

// checkName checks a zone's name.
func checkName(r report, name string) {
	switch {
	case name == "":
		r.problemf("must have a name")
	case len(name) > maxZoneName:
		r.problemf("name must have at most %d bytes, has %d", maxZoneName, len(name))
	case !utf8.ValidString(name):
		r.problemf("name must be valid UTF-8")
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			r.problemf("name must be printable, has %q", c)
			return
		}
	}
}

// check says what is wrong with one zone.
func (z *Zone) check(r report, app *App) {
	if z == nil {
		r.problemf("must not be null")
		return
	}
	z.checkLimits(r)
	z.checkKey(r, app)
	z.checkCost(r.in("cost"))
	if z.Settle != nil {
		z.Settle.check(r.in("settle"))
	}
	z.Feed.check(r.in("feed"), z)
	z.Previews.check(r.in("previews"), z)
	checkPrefixes(r, z.IPv4Prefix, z.IPv6Prefix)
	z.checkExempt(r)
	z.checkModes(r, app)
	z.checkBan(r.in("ban"), app)
}

func (z *Zone) checkKey(r report, app *App) {
	r.in("on_empty_key").oneOf(z.OnEmptyKey, emptySkip, emptyClientIP, emptyReject)
	if len(z.parts()) == 0 {
		r.warn("a zone without a key is one budget for all clients together")
	}
	compileKey(r.in("key"), z.parts(), z.OnEmptyKey, z.bits(app))
}

// checkCost checks the cost by itself and, where it is constant, against what a key can
// have at most: a dearer request could never pass.
func (z *Zone) checkCost(r report) {
	before := len(r.problems)
	cost := compileCost(r, z.Cost)
	if len(r.problems) > before {
		return
	}
	for _, l := range z.limits("") {
		if l.HasQuota() && l.Max() >= 1 && cost.fixed > l.Max() {
			what := "events"
			if l.Algorithm == limiter.TokenBucket {
				what = "burst"
			}
			r.problemf("is above the %s of %s: no request could ever pass, got %d", what, describe(l), cost.fixed)
		}
	}
}

func (z *Zone) checkExempt(r report) {
	_, err := blocklist.ParsePrefixes(z.ExemptRanges)
	r.in("exempt_ranges").problem(err)
	if err == nil && z.exemptsAll() {
		r.warn("this zone can never apply: every request is exempt")
	}
}

// exemptsAll reports whether no request is left to limit.
func (z *Zone) exemptsAll() bool {
	for _, set := range z.Exempt {
		if len(set) == 0 {
			return true
		}
	}
	var v4, v6 bool
	for _, text := range z.ExemptRanges {
		p, err := blocklist.ParsePrefix(text)
		if err == nil && p.Bits() == 0 {
			v4 = v4 || p.Addr() == netip.IPv4Unspecified()
			v6 = v6 || p.Addr() == netip.IPv6Unspecified()
		}
	}
	return v4 && v6
}

// bits says how much of an address is a client in this zone.
func (z *Zone) bits(app *App) prefixBits {
	bits := prefixBits{v4: z.IPv4Prefix, v6: z.IPv6Prefix}
	setDefault(&bits.v4, app.IPv4Prefix)
	setDefault(&bits.v6, app.IPv6Prefix)
	setDefault(&bits.v4, defaultIPv4Prefix)
	setDefault(&bits.v6, defaultIPv6Prefix)
	return bits
}
