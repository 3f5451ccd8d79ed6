package people

import (
	"math"
	"net/netip"
	"time"
)

// An Allowance says how much more an address may do, by who was seen from it.
type Allowance struct {
	// PerUser is how many people there are for each one who signs in. Default: 1.
	PerUser float64
	// Max is the highest factor that is given without anybody's confirmation. Default: 1.
	Max int
	// Overrides are what an operator confirmed. The first one that holds an address counts,
	// however high it is.
	Overrides []Override
}

// An Override gives the addresses of a network a factor of their own.
type Override struct {
	Range   netip.Prefix
	Factor  int
	Expires time.Time // zero for never
	// Note is for people.
	Note string
}

// Factor returns how many times as much as a single client an address may do, at least 1:
// what an operator says of it, else PerUser times the users seen, or where nobody has signed
// in the browsers seen, but at most Max.
func (a *Allowance) Factor(client netip.Addr, seen Seen, now time.Time) int {
	for i := range a.Overrides {
		o := &a.Overrides[i]
		if o.Range.Contains(client) && (o.Expires.IsZero() || now.Before(o.Expires)) {
			return max(1, o.Factor)
		}
	}
	return int(min(max(1, a.Estimate(seen)), int64(max(1, a.Max))))
}

// Estimate returns how many people there seem to be, whatever Max says: what an operator
// looks at before he confirms more.
func (a *Allowance) Estimate(seen Seen) int64 {
	if seen.Users == 0 {
		return seen.Browsers
	}
	per := a.PerUser
	if per == 0 {
		per = 1
	}
	return int64(math.Ceil(per * float64(seen.Users)))
}
