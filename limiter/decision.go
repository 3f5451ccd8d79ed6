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
	d.Allowed, d.Blamed, d.Nearest, d.Asks, d.Results = true, -1, -1, asks, results
	if len(asks) == 0 {
		return d, nil
	}
	if err = s.Take(ctx, asks, results); err != nil {
		return d, err
	}
	for i := range asks {
		r := &results[i]
		if !r.Allowed && asks[i].Limit.Algorithm == InFlight {
			r.Wait = InFlightWait
		}
		if asks[i].Limit.Shadow {
			continue
		}
		if !r.Allowed && (d.Blamed < 0 || r.Wait > results[d.Blamed].Wait) {
			d.Blamed, d.Allowed = i, false
		}
		if asks[i].Limit.HasQuota() && (d.Nearest < 0 || nearer(r, &results[d.Nearest])) {
			d.Nearest = i
		}
	}
	return d, nil
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
