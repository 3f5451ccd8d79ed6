package config

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
)

// exceededPrefix begins the placeholders of a request that a limit refused.
const exceededPrefix = "http.rate_limit.exceeded."

// exceeded is what those placeholders say. Nothing is worked out before somebody asks.
type exceeded struct {
	zone   string
	limit  *limiter.Limit // nil if none refused, but the want of a key
	wait   time.Duration
	key    string
	hasher *limiter.Hasher
}

// Explain sets the request's placeholders {http.rate_limit.exceeded.*} to what refused
// it:
//
//   - name is the zone
//   - limit is how many events may come in window, a duration such as 1m0s, or how many
//     requests at the same time; window is then nothing
//   - wait is how long until the request may pass, in whole seconds, rounded up;
//     nothing if no waiting helps
//   - key_hash is a keyed hash of the key, which tells clients apart and names none
func (m *Meter) Explain(r *http.Request, d *Reading) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || d.blamed < 0 {
		return
	}
	p := &d.parts[d.blamed]
	e := exceeded{zone: p.zone.seen.Name, wait: d.Wait, key: p.key, hasher: m.shared.hasher}
	switch {
	case d.Blamed >= 0:
		e.limit = d.Asks[d.Blamed].Limit
	case p.ban != nil && p.zone.ban != nil:
		l := p.zone.ban.conf.limit(e.zone, 1)
		e.limit = &l
	}
	repl.Map(e.value)
}

// value implements [caddy.ReplacerFunc].
func (e exceeded) value(name string) (any, bool) {
	field, ok := strings.CutPrefix(name, exceededPrefix)
	if !ok {
		return nil, false
	}
	switch {
	case field == "name":
		return e.zone, true
	case field == "wait" && e.wait != 0 && e.wait != limiter.Never:
		return int64((e.wait-1)/time.Second) + 1, true
	case field == "key_hash" && e.limit != nil:
		return e.hasher.String(e.key), true
	case field == "limit" && e.limit != nil:
		return e.limit.Events, true
	case field == "window" && e.limit != nil && e.limit.Algorithm != limiter.InFlight:
		return e.limit.Window.String(), true
	}
	return "", field == "wait" || field == "key_hash" || field == "limit" || field == "window"
}
