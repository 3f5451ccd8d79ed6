package config

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/limiter"
)

// DefaultEscalate is Feed.Escalate where a Caddyfile says no number.
const DefaultEscalate = 8

// mostEscalate is the highest that there may be.
const mostEscalate = 100

func (f *Feed) checkEscalate(r report) {
	if f.Escalate == 0 {
		return
	}
	if f.Escalate < 2 || f.Escalate > mostEscalate {
		r.problemf("must be between 2 and %d, or 0 for never, got %d", mostEscalate, f.Escalate)
		return
	}
	if longest := caddy.Duration(limiter.MaxWindow) / caddy.Duration(f.Escalate); f.Unconditional.Window > longest {
		r.problemf("must fit the unconditional window: %d times %s is more than %s",
			f.Escalate, limiter.ShortDuration(time.Duration(f.Unconditional.Window)), limiter.ShortDuration(limiter.MaxWindow))
	}
}

// slowLimits are the budgets of whole feeds for readers that do not wait, by how many times as
// far apart these are: one at a time.
//
// They count in the place of the usual budget, so that whoever is counted by one of them starts
// from what it has spent.
type slowLimits map[int]*limiter.Limit

func (f *feedMeter) slowLimits() slowLimits {
	slow := make(slowLimits)
	for factor := 2; f.rules.Escalate > 1; factor *= 2 {
		factor = min(factor, f.rules.Escalate)
		rate := f.conf.Unconditional
		rate.Window *= caddy.Duration(factor)
		rate.Burst = 1
		l := rate.limit(f.zone, feedIndexes[feed.Unconditional], 1)
		l.Shadow = f.shadow
		slow[factor] = &l
		if factor == f.rules.Escalate {
			break
		}
	}
	return slow
}

// slowed returns the limit that holds for a visit in the place of l.
func (f *feedMeter) slowed(v *feed.Visit, l *limiter.Limit) *limiter.Limit {
	if slow := f.slow[v.Slower()]; slow != nil {
		return slow
	}
	return l
}
