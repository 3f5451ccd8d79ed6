package algorithm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/weirhq/caddy-weir/limiter"
)

// An ask that is asked alone, in one reading of the state, comes to what it comes to in two.
func TestTake(t *testing.T) {
	eachWalk(t, func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit) {
		for _, ceiling := range []bool{false, true} {
			counted := *l
			if ceiling && alg.Name() != limiter.InFlight {
				counted.Ceiling = 3 * l.Window
			}
			for _, cost := range []int64{0, 1, 2, l.Max() / 2, l.Max(), l.Max() + 1} {
				for _, lease := range []string{"a", "new"} {
					a := limiter.Ask{Limit: &counted, Cost: cost, Lease: lease}
					want, wanted, change := peekThen(alg, now, slices.Clone(state), &a)
					got := limiter.Result{Origin: limiter.Local, Wait: limiter.Never, Remaining: -1} // what was there before
					kept, changed := Take(&got, alg, now, slices.Clone(state), &a)
					if got != wanted || changed != change || !bytes.Equal(kept, want) {
						t.Fatalf("%d/%s cost %d of state %x at %d:\n%+v, changed %t to %x, want\n%+v, changed %t to %x",
							l.Events, l.Window, cost, state, now, got, changed, kept, wanted, change, want)
					}
				}
			}
		}
	})
}

func peekThen(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) ([]byte, limiter.Result, bool) {
	r := Peek(alg, now, stored, a)
	switch {
	case !r.Allowed:
		return Refuse(alg, now, stored, a, r)
	case a.Cost > 0:
		stored, r = Spend(alg, now, stored, a)
		return stored, r, true
	}
	return stored, r, false
}

// Number tells the place in All.
func TestNumber(t *testing.T) {
	for i, alg := range All {
		if n := Number(alg.Name()); n != i {
			t.Errorf("%s: %d, want %d", alg.Name(), n, i)
		}
	}
	if n := Number("no_such"); n != -1 {
		t.Errorf("of a name that there is not: %d", n)
	}
}
