package algorithm

import (
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Stores ask through the functions of this file, which know of envelopes: while a limit
// with a Ceiling refuses a key, refused asks are spent too, and the state is kept with the
// instant since which that goes on, so that it can end. An envelope is read whatever the
// limit's numbers are now.

const (
	envelope     = 255
	envelopeHead = 8
)

// Peek answers an ask without charging it.
func Peek(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) limiter.Result {
	_, state := open(now, stored)
	return alg.Peek(now, state, a)
}

// Spend charges an ask that Peek allowed. This ends a refusal, and its envelope.
func Spend(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) ([]byte, limiter.Result) {
	return alg.Spend(now, unwrap(stored), a)
}

// Refuse does what a limit does to an ask that it refused itself, r being Peek's answer. It
// reports whether what is stored has changed, and then returns that with the answer
// after it.
//
// With a Ceiling the ask is charged, unless that could make the refusal last longer than
// the ceiling since its first ask. Without, only a state that lies ahead of now, since the
// clock stepped back, is written as if it were of now: a key that is refused all the while
// would never be free before the clock has caught up.
func Refuse(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask, r limiter.Result) ([]byte, limiter.Result, bool) {
	if a.Cost <= 0 || r.Wait == limiter.Never {
		return stored, r, false
	}
	since, state := open(now, stored)
	if a.Limit.Ceiling > 0 && now.Add(Longest(a)) <= since.Add(a.Limit.Ceiling) {
		state, _ = alg.Spend(now, unwrap(stored), a)
		r = alg.Peek(now, state, a)
		r.Allowed = false
		return wrap(since, state), r, true
	}
	state, changed := alg.rebase(now, state, a.Limit)
	if !changed {
		return stored, r, false
	}
	if len(stored) > 0 && stored[0] == envelope {
		state = wrap(since, state)
	}
	return state, r, true
}

// Take is Peek, and then Spend or Refuse, of an ask that is asked alone. It reports whether what is
// stored has changed, and then returns that; r is the answer after it.
func Take(r *limiter.Result, alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) (_ []byte, changed bool) {
	if len(stored) == 0 || stored[0] != envelope {
		stored = alg.take(r, now, stored, a)
	} else if *r = Peek(alg, now, stored, a); r.Allowed && a.Cost > 0 {
		stored, *r = Spend(alg, now, stored, a)
	}
	if r.Allowed {
		return stored, a.Cost > 0
	}
	stored, *r, changed = Refuse(alg, now, stored, a, *r)
	return stored, changed
}

// Longest returns how long an ask may have to wait after it was charged though it was refused,
// if it is not charged again.
func Longest(a *limiter.Ask) time.Duration {
	switch a.Limit.Algorithm {
	case limiter.SlidingCounter:
		// The next window counts this one.
		return 2 * a.Limit.Window
	case limiter.TokenBucket:
		// A burst may take longer than a window to come back.
		events, span := Rate(a.Limit)
		return max(a.Limit.Window, micros(ceilDiv(a.Cost*span, events)))
	}
	return a.Limit.Window
}

// Adjust applies a change.
func Adjust(alg Algorithm, now limiter.Instant, stored []byte, c *limiter.Change) ([]byte, limiter.Result) {
	since, state := open(now, stored)
	wrapped := len(state) != len(stored)
	state, r := alg.Adjust(now, state, c)
	if wrapped && len(state) > 0 {
		state = wrap(since, state)
	}
	return state, r
}

// Renew holds a lease for another window, and reports whether it is held: one that was lost is
// taken again if there is room. States of algorithms that know no leases stay as they are.
func Renew(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) ([]byte, bool) {
	if l, ok := alg.(Leaser); ok {
		return l.Renew(now, unwrap(stored), a.Limit, a.Lease)
	}
	return stored, false
}

// Release gives a lease back. States of algorithms that know no leases stay as they are.
func Release(alg Algorithm, now limiter.Instant, stored []byte, a *limiter.Ask) []byte {
	if l, ok := alg.(Leaser); ok {
		return l.Release(now, unwrap(stored), a.Limit, a.Lease)
	}
	return stored
}

// open returns the state in what is stored and the instant since which it refuses: now, if
// it does not stand in an envelope.
func open(now limiter.Instant, stored []byte) (limiter.Instant, []byte) {
	if len(stored) < envelopeHead || stored[0] != envelope {
		return now, stored
	}
	return min(limiter.Instant(get7(stored[1:])), now), stored[envelopeHead:]
}

// unwrap moves the state to the front of its room.
func unwrap(stored []byte) []byte {
	_, state := open(0, stored)
	if len(state) == len(stored) {
		return stored
	}
	return stored[:copy(stored, state)]
}

// wrap puts a state into an envelope, in its own room if that suffices.
func wrap(since limiter.Instant, state []byte) []byte {
	n := len(state)
	stored := resize(state, n+envelopeHead, n+envelopeHead)
	copy(stored[envelopeHead:], stored[:n])
	stored[0] = envelope
	put7(stored[1:], int64(since))
	return stored
}
