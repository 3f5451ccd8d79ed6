// Package limiter decides whether a key may do something now.
//
// A [Limit] is a pair of numbers with a way of counting; an [Ask] is one request's
// claim on one limit under one key; a [Store] keeps what has been counted and
// answers asks in one atomic step: every one of them is charged, or none is.
// [Take] adds the answers up to one [Decision].
//
// The package and those below it know nothing of Caddy or HTTP.
package limiter

import (
	"fmt"
	"math"
	"time"
)

// Names of the ways of counting, as they stand in configurations, metrics and
// stored keys. What each of them promises is told in package algorithm.
const (
	SlidingWindow  = "sliding_window"
	SlidingLog     = "sliding_log"
	SlidingCounter = "sliding_counter"
	TokenBucket    = "token_bucket"
	FixedWindow    = "fixed_window"
	MinInterval    = "min_interval"
	InFlight       = "in_flight"
)

// MaxEvents is the most events (and the highest burst and cost) a limit may name.
const MaxEvents = 1_000_000_000

// Exact is the largest whole number that a Lua number, a double, holds exactly.
// Every product that an algorithm forms has to stay at or below it.
const Exact = 1 << 53

// A Limit says how much is allowed: Events in Window, counted by Algorithm.
//
// Zone, Algorithm and Index name the state that is kept for each key; the other
// numbers may change between two asks, and the state is then read under the new
// ones. A Limit must not change once a store has seen it.
type Limit struct {
	// Zone is the name under which a user configured the limit.
	Zone string
	// Algorithm is the way of counting, one of the constants above.
	Algorithm string
	// Index tells the limits of a zone that count alike apart: 0 for the one
	// with the longest window, 1 for the next, and so on.
	Index int
	// Events is how much is allowed in each Window. A min_interval has 1, an
	// in_flight limit the number of requests that may run at once.
	Events int64
	// Window is a whole number of microseconds. For in_flight it is the time
	// after which a lease that was not renewed is given up.
	Window time.Duration
	// Burst is how much may come at once; only token_bucket looks at it, where
	// 0 means Events.
	Burst int64
	// Ceiling above zero makes refused asks count too, so that a client that
	// keeps hammering stays refused, at most this long. Not below Window.
	Ceiling time.Duration
	// Shadow (dry run) counts and reports, but never refuses.
	Shadow bool
	// Reserve above 1 lets a process take up to that many events of a busy key at a
	// time and spend them without asking. Only a quota has it; a store itself does not
	// look at it, see layer.Reserves.
	Reserve int64
	// Deferred above 0 lets a process decide by what it remembers, count when a
	// request has been served, and send what it counted to the store at this interval.
	// Only a quota has it; a store itself does not look at it, see layer.Deferred.
	Deferred time.Duration
	// Settled says that what a request has spent may be given back, by any process, once it
	// has been served. A store itself does not look at it, see layer.DenyCache.
	Settled bool
}

// Max returns the most that a key can have left: the burst of a token bucket, the
// events of anything else.
func (l *Limit) Max() int64 {
	if l.Algorithm == TokenBucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Events
}

// HasQuota reports whether the limit is a quota over a window, of which a client
// can be told how much is left. Minimum intervals and requests in flight are not.
func (l *Limit) HasQuota() bool {
	return l.Algorithm != MinInterval && l.Algorithm != InFlight
}

// Check says what is wrong with the numbers that every way of counting shares. An
// algorithm's own Check adds what it alone demands.
func (l *Limit) Check() error {
	switch {
	case l.Zone == "":
		return fmt.Errorf("zone: must have a name")
	case l.Events < 1:
		return fmt.Errorf("events: must be at least 1, got %d", l.Events)
	case l.Events > MaxEvents:
		return fmt.Errorf("events: must be at most %d, got %d", int64(MaxEvents), l.Events)
	case l.Window == 0:
		return fmt.Errorf("window: is missing")
	case l.Window < 0:
		return fmt.Errorf("window: must be positive, got %s", l.Window)
	case l.Window%time.Microsecond != 0:
		return fmt.Errorf("window: must be whole microseconds, got %s", l.Window)
	case l.Window > MaxWindow:
		return fmt.Errorf("window: must be at most %s, got %s", ShortDuration(MaxWindow), ShortDuration(l.Window))
	case l.Burst < 0 || l.Burst > MaxEvents:
		return fmt.Errorf("burst: must be between 1 and %d, got %d", int64(MaxEvents), l.Burst)
	case l.Ceiling < 0:
		return fmt.Errorf("count_rejected: must not be negative, got %s", l.Ceiling)
	case l.Ceiling > 0 && l.Ceiling < l.Window:
		return fmt.Errorf("count_rejected: must not be shorter than the window of %s, got %s", ShortDuration(l.Window), ShortDuration(l.Ceiling))
	}
	return nil
}

// MaxWindow is the longest window: a year and a day.
const MaxWindow = 366 * 24 * time.Hour

// Never is the wait of an ask that can never pass: its cost is above the limit.
const Never time.Duration = math.MaxInt64

// An Instant is a moment in microseconds since the Unix epoch: the one unit of time
// in stored states, Go and Lua alike.
type Instant int64

// At turns a time into an instant, rounding down.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time turns an instant into a time.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)) }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d/time.Microsecond) }
