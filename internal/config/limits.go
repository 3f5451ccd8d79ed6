package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// algorithms are the ways of counting that a limit may name.
var algorithms = []string{
	limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter,
	limiter.TokenBucket, limiter.FixedWindow,
}

// A placed limit knows where in its zone it was written.
type placed struct {
	limiter.Limit
	at string
}

// limits lists the zone's limits with their defaults filled in, in the order in which
// they were written.
func (z *Zone) limits(name string) []placed {
	var all []placed
	add := func(at string, rate Rate) {
		setDefault(&rate.Algorithm, z.Algorithm)
		setDefault(&rate.Algorithm, limiter.SlidingWindow)
		if rate.Algorithm == limiter.TokenBucket {
			setDefault(&rate.Burst, z.Burst)
			setDefault(&rate.Burst, rate.Events)
		}
		all = append(all, placed{at: at, Limit: limiter.Limit{
			Zone:      name,
			Algorithm: rate.Algorithm,
			Events:    rate.Events,
			Window:    time.Duration(rate.Window),
			Burst:     rate.Burst,
			Ceiling:   time.Duration(z.CountRejected),
		}})
		if l := &all[len(all)-1].Limit; l.HasQuota() {
			l.Reserve, l.Deferred = z.Lease, time.Duration(z.CountAfter)
		}
	}
	if z.MaxEvents != nil || z.Window != 0 {
		rate := Rate{Window: z.Window}
		if z.MaxEvents != nil {
			rate.Events = *z.MaxEvents
		}
		add("", rate)
	}
	for i, rate := range z.Limits {
		add(fmt.Sprintf("limits[%d]", i), rate)
	}
	if z.MinInterval != 0 {
		add("min_interval", Rate{Events: 1, Window: z.MinInterval, Algorithm: limiter.MinInterval})
	}
	if z.InFlight != 0 {
		add("in_flight", Rate{Events: z.InFlight, Window: caddy.Duration(LeaseTTL), Algorithm: limiter.InFlight})
		all[len(all)-1].Ceiling = 0 // a refused request is not in flight
	}
	return all
}

// number sorts limits, those that count alike by window and then by events, and numbers
// them from the longest window: a limit over a shorter one that joins or leaves the zone
// takes no count away from it.
func number(limits []placed) {
	slices.SortStableFunc(limits, func(a, b placed) int {
		return cmp.Or(
			cmp.Compare(a.Algorithm, b.Algorithm),
			cmp.Compare(a.Window, b.Window),
			cmp.Compare(a.Events, b.Events),
		)
	})
	for i := len(limits) - 2; i >= 0; i-- {
		if limits[i].Algorithm == limits[i+1].Algorithm {
			limits[i].Index = limits[i+1].Index + 1
		}
	}
}

// checkLimits checks each limit by itself and then those of a zone together.
func (z *Zone) checkLimits(r report) {
	limits := z.limits("zone")
	if len(limits) == 0 {
		if z.Ban == nil && z.Feed == nil && z.Previews == nil { // which limit as well
			r.problemf("must have a limit: limit (in JSON limits), events with window (max_events), min_interval or in_flight")
		}
		return
	}
	bucket, sound := false, true
	for _, l := range limits {
		before := len(r.problems)
		if l.at == "" && z.MaxEvents == nil {
			r.problemf("events: is missing, which window belongs to (in JSON max_events)")
		} else {
			checkLimit(r, l)
		}
		sound = sound && len(r.problems) == before
		bucket = bucket || l.Algorithm == limiter.TokenBucket
	}
	if z.Burst != 0 && !bucket {
		r.in("burst").problemf("only the algorithm token_bucket has one")
	}
	if z.CountRejected != 0 && len(limits) == 1 && z.InFlight != 0 {
		r.in("count_rejected").problemf("means nothing to in_flight, which is the zone's only limit")
	}
	if sound {
		comparePairs(r, limits, z.Cost == "" || z.Cost == "1")
	}
}

func checkLimit(r report, l placed) {
	if l.at != "" {
		r = r.in("%s", l.at)
	}
	if l.Algorithm != limiter.MinInterval && l.at != "in_flight" && !slices.Contains(algorithms, l.Algorithm) {
		r.in("algorithm").oneOf(l.Algorithm, algorithms...)
		return
	}
	if l.Burst != 0 && l.Algorithm != limiter.TokenBucket {
		r.in("burst").problemf("only the algorithm token_bucket has one, not %s", l.Algorithm)
		return
	}
	if err := l.Check(); err != nil {
		r.problem(err)
		return
	}
	way, err := algorithm.Find(l.Algorithm)
	if err == nil {
		err = way.Check(&l.Limit)
	}
	r.problem(err)
}

// comparePairs refuses limits that are written twice and warns about those that never
// bind because another one does first.
func comparePairs(r report, limits []placed, unitCost bool) {
	for i, l := range limits {
		for j, other := range limits {
			switch {
			case i == j, l.Algorithm == limiter.InFlight, other.Algorithm == limiter.InFlight:
			case l.Limit == other.Limit:
				if j < i {
					r.problemf("%s: is written twice", describe(l))
				}
			case !unitCost && l.HasQuota() != other.HasQuota():
				// The one counts requests, the other what they cost.
			case implies(other.Limit, l.Limit) && (j < i || !implies(l.Limit, other.Limit)):
				r.in("%s", describe(l)).warn("this limit can never bind: another limit of its zone always does first")
			}
		}
	}
}

// describe names a limit in a message by where it stands and by its numbers.
func describe(l placed) string {
	window := limiter.ShortDuration(l.Window)
	numbers := fmt.Sprintf("%d/%s", l.Events, window)
	switch l.at {
	case "":
		return numbers
	case "in_flight":
		return fmt.Sprintf("in_flight (%d)", l.Events)
	case "min_interval":
		return fmt.Sprintf("%s (%s)", l.at, window)
	}
	return fmt.Sprintf("%s (%s)", l.at, numbers)
}

// implies reports whether whatever a lets pass, b lets pass as well.
func implies(a, b limiter.Limit) bool {
	if !isBucket(b) {
		return atMost(a, b.Window) <= float64(b.Events)
	}
	rate := func(l limiter.Limit) float64 { return float64(l.Events) / float64(l.Window) }
	return atMost(a, 1) <= float64(b.Max()) && rate(a) <= rate(b)
}

// atMost is the most that a limit lets pass in any span of time.
func atMost(l limiter.Limit, span time.Duration) float64 {
	events, windows := float64(l.Events), math.Ceil(float64(span)/float64(l.Window))
	switch {
	case isBucket(l):
		return float64(l.Max()) + math.Floor(events*float64(span)/float64(l.Window))
	case l.Algorithm == limiter.FixedWindow || l.Algorithm == limiter.SlidingCounter:
		// A span that is shorter than a window may still touch two of them.
		return (windows + 1) * events
	}
	return windows * events
}

func isBucket(l limiter.Limit) bool {
	return l.Algorithm == limiter.TokenBucket || l.Algorithm == limiter.MinInterval
}
