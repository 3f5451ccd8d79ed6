package config

import (
	"net/http"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// relieve looks whether a reader of a feed, whom a limit on all clients together has refused, can be
// given a copy. That costs the site nothing, and so what protects the site is left out of account;
// the reader's own budgets, and all other limits of single clients, are asked and charged as if
// the site had answered.
func (m *Meter) relieve(d *Reading, r *http.Request) {
	p := d.reader()
	if d.Blamed < 0 || d.blamed < 0 || p == nil || p.zone.feed.stale == nil || !d.parts[d.blamed].zone.common {
		return
	}
	c, ok := p.zone.feed.stale.find(r, Now())
	if !ok {
		return
	}
	var parts []part
	var asks []limiter.Ask
	for i := range d.parts {
		each := d.parts[i]
		if each.fate != asked || each.zone.common || each.zone.shadow {
			continue
		}
		from := len(asks)
		for _, a := range d.asks[each.from:each.to] {
			if a.Limit.Algorithm != limiter.InFlight { // a copy takes no time
				asks = append(asks, a)
			}
		}
		each.from, each.to = from, len(asks)
		parts = append(parts, each)
	}
	decision, err := limiter.Take(r.Context(), m.store, asks, make([]limiter.Result, len(asks)))
	if err != nil || !decision.Allowed || m.guessing && (&Reading{Decision: decision}).guessed() {
		return
	}
	n := copy(d.parts, parts)
	clear(d.parts[n:])
	d.parts, d.asks, d.Decision = d.parts[:n], asks, decision
	d.blamed, d.Wait, d.copy = -1, 0, c
	for i := range d.parts {
		m.tell(d, &d.parts[i], r, observe.Allowed, -1)
	}
}
