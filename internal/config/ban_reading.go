package config

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/headers"
)

// isBanned is the Reason of a request that a ban refuses.
const isBanned = "This client is banned for a while."

// bar finds out whether the part's key is banned.
func (m *Meter) bar(p *part, client netip.Addr) {
	ban, dry := m.shared.bans.meets(p, client)
	switch {
	case ban == nil:
	case dry:
		p.ban = ban
	default:
		p.ban, p.fate = ban, banned
	}
}

// barred refuses a request one of whose keys is banned, by the ban that ends last, and reports
// whether it did. No store is asked, and nothing is charged.
func (m *Meter) barred(d *Reading) bool {
	last := -1
	for i := range d.parts {
		if p := &d.parts[i]; p.fate == banned && (last < 0 || later(p.ban, d.parts[last].ban)) {
			last = i
		}
	}
	if last < 0 {
		return false
	}
	p := &d.parts[last]
	d.blamed, d.Reason = last, isBanned
	d.Wait = headers.Lengthen(m.left(p), m.jitter)
	if p.zone.ban != nil {
		d.Status = p.zone.ban.conf.Status
	}
	d.Decision = limiter.Decision{Blamed: -1, Nearest: -1}
	return true
}

// left is how long the part's ban lasts from now.
func (m *Meter) left(p *part) time.Duration {
	return max(p.ban.Until.Sub(m.shared.bans.now()), time.Millisecond)
}

// tellBan tells the observers of a ban that the part met.
func (m *Meter) tellBan(d *Reading, p *part, r *http.Request) {
	o := observe.Outcome{Request: r, Kind: observe.DryBanned, Zone: p.zone.seen, Key: p.key, LogKey: m.logKey, Hasher: m.shared.hasher}
	if p.fate == banned {
		o.Kind, o.Blamed = observe.Banned, d.blamed >= 0 && p == &d.parts[d.blamed]
	}
	o.Result.Wait = m.left(p)
	m.shared.Observers.Observe(o)
}

// Refused does what the zones want done about a request that the reading refused and that was
// answered with this status. It takes the reading back.
func (m *Meter) Refused(d *Reading, r *http.Request, status int) {
	defer m.Free(d)
	d.leave(status, toldWait(d.Wait))
	if d.blamed >= 0 && d.parts[d.blamed].fate == banned {
		return // what is tried during a ban does not count
	}
	for i := range d.parts {
		p := &d.parts[i]
		if ban := p.bans(); ban != nil && p.fate == asked {
			ban.turnedAway(p.key, r, status, d.counted && d.refusal(p) >= 0)
		}
	}
}

// refusedVar marks requests that this module refused: what another handler of it, or of
// the same site, answered is no failure of the application's that could count.
const refusedVar = "weir.refused"

// MarkRefused notes with a request that it was refused.
func MarkRefused(r *http.Request) { caddyhttp.SetVar(r.Context(), refusedVar, true) }

func wasRefused(r *http.Request) bool {
	refused, _ := caddyhttp.GetVar(r.Context(), refusedVar).(bool)
	return refused
}
