package config

import (
	"net/http"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// relieve looks whether a reader of a feed, whom a limit on all clients together has refused, can be
// given a copy. That costs the site nothing, and so what protects the site is left out of account, as are
// dry runs; the reader's own budgets, and all other limits of single clients, are asked and charged as if
// the site had answered.
func (m *Meter) relieve(d *Reading, r *http.Request) {
	p := d.keeper()
	if d.Blamed < 0 || d.blamed < 0 || p == nil || !d.parts[d.blamed].zone.common {
		return
	}
	c, ok := p.zone.feed.stale.find(r, Now())
	if !ok {
		return
	}
	parts := make([]part, len(d.parts))
	var asks []limiter.Ask
	for i := range parts {
		each := &parts[i]
		*each = d.parts[i]
		each.waived = each.zone.common || each.zone.shadow
		each.refused = each.waived && d.refusal(each) >= 0
		from := len(asks)
		for _, a := range d.asks[each.from:each.to] {
			if !each.waived && a.Limit.Algorithm != limiter.InFlight { // a copy takes no time
				asks = append(asks, a)
			}
		}
		each.from, each.to = from, len(asks)
	}
	decision, err := limiter.Take(r.Context(), m.store, asks, make([]limiter.Result, len(asks)))
	if err != nil || !decision.Allowed || m.guessing && (&Reading{Decision: decision}).guessed() {
		return
	}
	copy(d.parts, parts)
	d.asks, d.Decision = asks, decision
	d.blamed, d.Wait, d.copy = -1, 0, c
	for i := range d.parts {
		switch each := &d.parts[i]; {
		case each.waived:
			each.forgo()
		case each.fate == asked:
			m.tell(d, each, r, observe.Allowed, -1)
		}
	}
}

// keeper returns the first part whose zone is one of feeds that keeps copies; nil if there is none.
func (d *Reading) keeper() *part {
	for i := range d.parts {
		if p := &d.parts[i]; p.entered && p.zone.feed.stale != nil {
			return p
		}
	}
	return nil
}
