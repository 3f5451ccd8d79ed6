package config

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// UsualCeiling is the ceiling of a count_rejected that names none: a day, or the longest
// that one refused request counts in any of the zone's limits, which no ceiling may be
// below. CountRejected itself is left out of account.
func (z *Zone) UsualCeiling() caddy.Duration {
	longest := 24 * time.Hour
	for _, l := range z.limits("zone") {
		l.Ceiling = 0
		if l.Check() == nil { // others are refused later
			longest = max(longest, algorithm.Longest(&limiter.Ask{Limit: &l.Limit, Cost: 1}))
		}
	}
	return caddy.Duration(longest)
}
