package limiter

import (
	"context"
	"time"
)

// A Decision is what the answers to one request's asks come to.
type Decision struct {
	// Allowed is false if an ask that is not a shadow was refused.
	Allowed bool
	// Blamed is the index of the refusal with the longest wait, the one whose
	// numbers a refused client is told; -1 if the request is allowed.
	Blamed int
	// Nearest is the index of the limit with a quota that is nearest to
	// exhaustion: a refused one with the longest wait, else the one with the
	// least left. -1 if no such limit was asked.
	Nearest int
	// Asks and Results belong together, index by index.
	Asks    []Ask
	Results []Result
}

// InFlightWait is the wait of an ask that an in_flight limit refuses. It promises nothing: a
// request may end at any moment, and nobody knows when.
const InFlightWait = time.Second

// Take asks the store and adds its answers up. results must be as long as asks; both
// are kept in the decision.
func Take(ctx context.Context, s Store, asks []Ask, results []Result) (d Decision, err error) {
	err = d.Take(ctx, s, asks, results)
	return d, err
}

// Take makes d the decision that the function Take returns, in its place: to hand it on costs as
// much as to add it up.
func (d *Decision) Take(ctx context.Context, s Store, asks []Ask, results []Result) (err error) {
	blamed, nearest := -1, -1
	if len(asks) > 0 {
		err = s.Take(ctx, asks, results)
	}
	for i := 0; i < len(asks) && err == nil; i++ {
		r, l := &results[i], asks[i].Limit
		if !r.Allowed && l.Algorithm == InFlight {
			r.Wait = InFlightWait
		}
		if l.Shadow {
			continue
		}
		if !r.Allowed && (blamed < 0 || r.Wait > results[blamed].Wait) {
			blamed = i
		}
		if l.HasQuota() && (nearest < 0 || nearer(r, &results[nearest])) {
			nearest = i
		}
	}
	d.Allowed, d.Blamed, d.Nearest, d.Asks, d.Results = blamed < 0, blamed, nearest, asks, results
	return err
}

// nearer reports whether a is nearer to exhaustion than b: refused before allowed,
// then the longer wait, then the fewer left, then the later reset.
func nearer(a, b *Result) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.Wait != b.Wait:
		return a.Wait > b.Wait
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.Reset > b.Reset
}
