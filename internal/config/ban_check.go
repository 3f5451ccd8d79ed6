package config

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// Bounds of a ban.
const (
	minBanFor     = time.Second
	maxGrow       = 100
	maxNeighbours = 1000
)

// checkBan says what is wrong with the zone's ban, if it has one. It is checked with its
// defaults, so that those are right as well.
func (z *Zone) checkBan(r report, app *App) {
	if z.Ban == nil {
		return
	}
	b := z.Ban.resolved()
	b.check(r)
	counted, err := parseCount(b.Count)
	switch {
	case err != nil:
		r.in("count").problem(err)
	case counted.refusals && len(z.limits("zone")) == 0 && z.Feed == nil:
		r.in("count").problemf("refusals: the zone has no limit that could refuse; write what else counts, such as count 401 403")
	}
	b.lintCount(r, counted)
	k := compileKey(newReport(), z.parts(), emptyClientIP, z.bits(app))
	switch {
	case k.static:
		r.problemf("needs a key that tells clients apart: this one would ban everybody at once")
	case !k.isClient():
		b.checkNoClient(r)
	case b.Rollup != nil:
		b.Rollup.check(r.in("rollup"), z.bits(app))
	}
}

// check checks what does not depend on the zone.
func (b *Ban) check(r report) {
	switch l := b.limit("zone", 1); {
	case b.Events == 0 && b.Window == 0:
		r.problemf("after: is missing, say how often within which time (in JSON events and window)")
	default:
		r.in("after").problem(l.Check())
	}
	r.in("for").span(b.For, minBanFor)
	r.in("max").span(b.Max, max(minBanFor, time.Duration(b.For)))
	r.in("quiet").span(b.Quiet, time.Second)
	if b.Rolling != 0 && b.Scope != blocklist.ScopeZone.String() {
		r.in("rolling").problemf("is for bans of the zone: %s is refused by block, which counts no attempts", b.Scope)
	} else if b.Rolling != 0 {
		r.in("rolling").span(b.Rolling, max(time.Duration(b.For), b.longest()))
	}
	if !(b.Grow >= 1 && b.Grow <= maxGrow) {
		r.in("grow").problemf("must be between 1 and %d, got %g", maxGrow, b.Grow)
	}
	if !(*b.Spread >= 0 && *b.Spread <= 1) {
		r.in("spread").problemf("must be between 0 and 1, got %g", *b.Spread)
	}
	r.in("scope").oneOf(b.Scope, scopeWords...)
	checkStatus(r, b.Status)
	if b.Status != 0 && b.Scope != blocklist.ScopeZone.String() {
		r.in("status").problemf("is that of a refusal in the zone; %s is refused by block", b.Scope)
	}
	b.People.check(r.in("people"))
	if most := b.People.highest(); b.Events <= limiter.MaxEvents && b.Events > limiter.MaxEvents/int64(most) {
		r.in("people").problemf("raises the events of after above %d", int64(limiter.MaxEvents))
	}
}

// longest is the longest that one ban lasts without attempts, its spread left out of account.
func (b *Ban) longest() (d time.Duration) {
	t := b.term()
	return t.length(t.enough(), 0)
}

// scopeWords are what a ban may reach, narrowest first.
var scopeWords = []string{blocklist.ScopeZone.String(), blocklist.ScopeSite.String(), blocklist.ScopeAll.String()}

// span says that a time is not between least and the longest there is.
func (r report) span(d caddy.Duration, least time.Duration) {
	if d := time.Duration(d); d < least || d > limiter.MaxWindow {
		r.problemf("must be between %s and %s, got %s", limiter.ShortDuration(least), limiter.ShortDuration(limiter.MaxWindow), d)
	}
}

// lintCount warns of what bans those who did nothing wrong.
func (b *Ban) lintCount(r report, counted tallied) {
	for status := 500; status <= 599; status++ {
		if counted.answer(status) {
			r.in("count").warn("counts faults of the server's own, and bans those who meet them")
			return
		}
	}
}

// checkNoClient refuses what means an address where the key is something else.
func (b *Ban) checkNoClient(r report) {
	const why = "needs a key that is the client's address alone, as {http.vars.client_ip}"
	if b.Scope != blocklist.ScopeZone.String() {
		r.in("scope").problemf("%s %s", b.Scope, why)
	}
	if b.Rollup != nil {
		r.in("rollup").problemf("%s", why)
	}
	if b.People != nil {
		r.in("people").problemf("%s", why)
	}
}

// isClient reports whether the key is the client's address, and nothing else.
func (k *compiledKey) isClient() bool {
	return len(k.parts) == 1 && len(k.parts[0]) == 1 && k.parts[0][0].source == fromClientIP
}

// check wants each network wider than the one before it, and than a client.
func (u *Rollup) check(r report, client prefixBits) {
	if u.Neighbours < 2 || u.Neighbours > maxNeighbours {
		r.in("neighbours").problemf("must be between 2 and %d, got %d", maxNeighbours, u.Neighbours)
	}
	u.checkBits(r.in("ipv4"), u.IPv4, client.v4, 8)
	u.checkBits(r.in("ipv6"), u.IPv6, client.v6, 19)
}

func (u *Rollup) checkBits(r report, all []int, inner, least int) {
	for _, bits := range all {
		if bits >= inner || bits < least {
			r.problemf("must be wider than /%d, and not wider than /%d, got /%d", inner, least, bits)
			return
		}
		inner = bits
	}
}

// around returns the bits of the network around one with these bits, 0 if none is banned.
func (u *Rollup) around(v4 bool, bits int) int {
	if u == nil {
		return 0
	}
	all := u.IPv6
	if v4 {
		all = u.IPv4
	}
	for _, wider := range all {
		if wider < bits {
			return wider
		}
	}
	return 0
}
