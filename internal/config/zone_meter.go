package config

import (
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// A zoneMeter is a Zone that is built.
type zoneMeter struct {
	seen     *observe.Zone
	match    caddyhttp.MatcherSets
	exempt   caddyhttp.MatcherSets
	ranges   *blocklist.Prefixes
	key      *compiledKey
	cost     compiledCost
	limits   []limiter.Limit
	prices   *prices       // nil if what a request costs at entry stands
	ban      *banMeter     // nil if the zone bans nobody
	feed     *feedMeter    // nil if the zone is not one for feeds
	previews *previewMeter // nil if it is not one for previews
	common   bool          // whether its limits are on all clients together
	shadow   bool
	deferred bool // whether it counts after the response

	// What was logged once.
	unsound, tooDear atomic.Bool
}

// build makes a valid zone ready to serve.
func (z *Zone) build(ctx caddy.Context, name string, app *App, shadow bool) (*zoneMeter, error) {
	onEmpty := z.OnEmptyKey
	setDefault(&onEmpty, emptyClientIP)
	r := newReport().in("zone %q", name)
	m := &zoneMeter{
		seen:     observe.NewZone(name),
		key:      compileKey(r, z.parts(), onEmpty, z.bits(app)),
		cost:     compileCost(r, z.Cost),
		prices:   z.Settle.compile(),
		shadow:   shadow || z.DryRun,
		deferred: z.CountAfter > 0,
	}
	m.common = m.key.common() && z.Feed == nil && z.Previews == nil
	limits := z.limits(name)
	number(limits)
	for _, l := range limits {
		l.Shadow, l.Settled = m.shadow, z.Settle != nil
		m.limits = append(m.limits, l.Limit)
	}
	var err error
	m.ranges, err = blocklist.ParsePrefixes(z.ExemptRanges)
	r.problem(err)
	r.in("match").problem(loadMatchers(ctx, z, "MatcherSets", &m.match))
	r.in("exempt").problem(loadMatchers(ctx, z, "Exempt", &m.exempt))
	return m, r.err()
}

// loadMatchers loads the matchers that stand in a field of the zone.
func loadMatchers(ctx caddy.Context, z *Zone, field string, sets *caddyhttp.MatcherSets) error {
	loaded, err := ctx.LoadModule(z, field)
	if err != nil {
		return err
	}
	return sets.FromInterface(loaded)
}

// applies reports whether the request is the zone's, and whether it is exempt from it.
// An error is a matcher's own.
func (m *zoneMeter) applies(r *http.Request, client netip.Addr) (applies, exempt bool, err error) {
	if applies, err = m.match.AnyMatchWithError(r); err != nil || !applies {
		return false, false, err
	}
	if m.ranges.Contains(client) {
		return true, true, nil
	}
	if len(m.exempt) > 0 {
		exempt, err = m.exempt.AnyMatchWithError(r)
	}
	return err == nil, exempt, err
}

// ask appends what a request with this key asks of the zone's limits.
func (m *zoneMeter) ask(asks []limiter.Ask, key string, cost int64) []limiter.Ask {
	for i := range m.limits {
		a := limiter.Ask{Limit: &m.limits[i], Key: key, Cost: cost}
		if !a.Limit.HasQuota() {
			// Neither the distance between requests nor how many there are at a time
			// depends on what they cost.
			a.Cost = min(cost, 1)
		}
		asks = append(asks, a)
	}
	return asks
}

// costOf returns what a request costs in this zone.
func (m *zoneMeter) costOf(r *http.Request, client netip.Addr, logger *zap.Logger) int64 {
	cost, sound := m.cost.of(r, client)
	if !sound && m.unsound.CompareAndSwap(false, true) {
		logger.Warn("cost of a request is no whole number and counts as 1", zap.String("zone", m.seen.Name))
	}
	return cost
}

// tellNever logs that a request asks for more than its limit can ever give.
func (m *zoneMeter) tellNever(a *limiter.Ask, logger *zap.Logger) {
	if m.tooDear.CompareAndSwap(false, true) {
		logger.Error("cost of a request is above its limit: it can never pass",
			zap.String("zone", m.seen.Name), zap.Int64("cost", a.Cost), zap.Int64("limit", a.Limit.Max()))
	}
}
