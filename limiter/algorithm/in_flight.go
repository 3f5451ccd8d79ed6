package algorithm

import (
	"fmt"

	"github.com/weirhq/caddy-weir/limiter"
)

// inFlight lets at most Events requests of a key run at the same time. Each holds a lease,
// which it takes by an ask, renews by asking again, and gives back by Release; a lease that
// is not renewed for a Window is given up, so that a node that dies takes no place for ever.
// An ask costs one place, whatever it says.
type inFlight struct{}

const (
	leaseHead = 1
	leaseName = 8
	leaseLen  = leaseName + 7
	leaseMost = 10_000
)

// A Leaser is an algorithm whose spending is renewed and given back by name.
type Leaser interface {
	Algorithm
	// Renew returns the state with the lease held for a Window from now. One that is
	// not held any more is taken again if there is room; held is false if there is not.
	Renew(now limiter.Instant, state []byte, l *limiter.Limit, lease string) (renewed []byte, held bool)
	// Release returns the state without the lease.
	Release(now limiter.Instant, state []byte, l *limiter.Limit, lease string) []byte
}

func (inFlight) Name() string { return limiter.InFlight }

func (inFlight) Check(l *limiter.Limit) error {
	switch {
	case l.Events > leaseMost:
		return fmt.Errorf("events: in_flight counts at most %d requests at a time, got %d", leaseMost, l.Events)
	case l.Ceiling > 0:
		return fmt.Errorf("count_rejected: means nothing to in_flight")
	}
	return nil
}

func (inFlight) Peek(now limiter.Instant, state []byte, a *limiter.Ask) limiter.Result {
	live, held, soonest, latest := readLeases(now, state, a.Limit, leaseKey(a.Lease))
	r := answer(now, a.Limit.Events, live, latest)
	if live >= a.Limit.Events && (!held || a.Cost <= 0) {
		refuse(&r, a, micros(soonest))
	}
	return r
}

func (f inFlight) Spend(now limiter.Instant, state []byte, a *limiter.Ask) ([]byte, limiter.Result) {
	name := leaseKey(a.Lease)
	live, held, _, _ := readLeases(now, state, a.Limit, name)
	fits := held || live < a.Limit.Events
	state = keepLeases(now, state, a.Limit, name)
	if !fits {
		// The newest are kept, and stand last.
		over := int(live+1-a.Limit.Events) * leaseLen
		state = append(state[:leaseHead], state[leaseHead+over:]...)
	}
	state = addLease(now, state, a.Limit, name)
	if !fits {
		return state, f.Peek(now, state, a)
	}
	live, _, _, latest := readLeases(now, state, a.Limit, name)
	return state, answer(now, a.Limit.Events, live, latest)
}

func (f inFlight) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	if *r = f.Peek(now, state, a); r.Allowed && a.Cost > 0 {
		state, *r = f.Spend(now, state, a)
	}
	return state
}

// Adjust changes nothing: leases are given back by name.
func (f inFlight) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	live, _, _, latest := readLeases(now, state, c.Limit, [leaseName]byte{})
	return state, answer(now, c.Limit.Events, live, latest)
}

// Renew cuts the leases that were given up, too.
func (inFlight) Renew(now limiter.Instant, state []byte, l *limiter.Limit, lease string) ([]byte, bool) {
	name := leaseKey(lease)
	live, held, _, _ := readLeases(now, state, l, name)
	state = keepLeases(now, state, l, name)
	if !held && live >= l.Events {
		return state, false
	}
	return addLease(now, state, l, name), true
}

// Release returns the state without the lease, and without those that were given up.
func (inFlight) Release(now limiter.Instant, state []byte, l *limiter.Limit, lease string) []byte {
	state = keepLeases(now, state, l, leaseKey(lease))
	if len(state) == leaseHead {
		return state[:0]
	}
	return state
}

func (inFlight) rebase(now limiter.Instant, state []byte, l *limiter.Limit) ([]byte, bool) {
	if !areLeases(state) {
		return state, false
	}
	changed := false
	latest := int64(now) + window(l)
	for i := leaseHead; i < len(state); i += leaseLen {
		if get7(state[i+leaseName:]) > latest {
			put7(state[i+leaseName:], latest)
			changed = true
		}
	}
	return state, changed
}

// leaseKey returns a lease's name in the state: its first bytes, or all and zeros.
func leaseKey(lease string) (name [leaseName]byte) {
	copy(name[:], lease)
	return name
}

// readLeases counts the live leases, and tells whether name is one of them and in how many
// microseconds the first and the last of them end. One that ends further ahead than a
// window counts as taken now.
func readLeases(now limiter.Instant, state []byte, l *limiter.Limit, name [leaseName]byte) (live int64, held bool, soonest, latest int64) {
	if !areLeases(state) {
		return 0, false, 0, 0
	}
	for i := leaseHead; i < len(state); i += leaseLen {
		left := min(get7(state[i+leaseName:])-int64(now), window(l))
		if left <= 0 {
			continue
		}
		if live++; live == 1 || left < soonest {
			soonest = left
		}
		latest = max(latest, left)
		held = held || [leaseName]byte(state[i:]) == name
	}
	return live, held, soonest, latest
}

// keepLeases cuts the leases that are over and the one of that name.
func keepLeases(now limiter.Instant, state []byte, l *limiter.Limit, name [leaseName]byte) []byte {
	if !areLeases(state) {
		state = resize(state, leaseHead, leaseHead+int(l.Events)*leaseLen)
		state[0] = version
		return state
	}
	latest := int64(now) + window(l)
	kept := state[:leaseHead]
	for i := leaseHead; i < len(state); i += leaseLen {
		until := get7(state[i+leaseName:])
		if until <= int64(now) || [leaseName]byte(state[i:]) == name {
			continue
		}
		put7(state[i+leaseName:], min(until, latest))
		kept = append(kept, state[i:i+leaseLen]...)
	}
	return kept
}

// addLease appends a lease that begins now.
func addLease(now limiter.Instant, state []byte, l *limiter.Limit, name [leaseName]byte) []byte {
	n := len(state)
	state = resize(state, n+leaseLen, leaseHead+int(l.Events)*leaseLen)
	copy(state[n:], name[:])
	put7(state[n+leaseName:], int64(now)+window(l))
	return state
}

func areLeases(state []byte) bool {
	return len(state) > leaseHead && (len(state)-leaseHead)%leaseLen == 0 && state[0] == version
}
