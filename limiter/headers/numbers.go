package headers

import (
	"math"
	"math/bits"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// maxInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// numbers are what the fields of one limit say.
type numbers struct {
	name      string
	max, left int64
	window    int64 // seconds
	reset     int64 // seconds
}

// grain is what the store may have rounded a reset up by. A window of a minute is not to
// read as 61 seconds for the sake of that.
const grain = 10 * time.Microsecond

// numbersOf returns the numbers of an ask's limit, each within its bounds whatever
// the store answered.
func numbersOf(a *limiter.Ask, r *limiter.Result) numbers {
	reset := r.Reset - grain
	if !r.Allowed && r.Wait != limiter.Never {
		reset = r.Wait
	}
	limit := min(max(r.Max, 0), maxInteger)
	return numbers{
		name:   a.Limit.Zone,
		max:    limit,
		left:   min(max(r.Remaining, 0), limit),
		window: max(1, seconds(window(a.Limit))),
		reset:  seconds(reset),
	}
}

// tighter reports whether n leaves less than old, or as much for longer.
func (n numbers) tighter(old numbers) bool {
	if n.left != old.left {
		return n.left < old.left
	}
	return n.reset > old.reset
}

// window returns the time in which a limit's whole quota comes back.
func window(l *limiter.Limit) time.Duration {
	if l.Algorithm != limiter.TokenBucket || l.Window <= 0 || l.Events <= 0 {
		return l.Window
	}
	// Window × burst ÷ events in 128 bits: a year in nanoseconds times a billion
	// leaves 64 bits far behind.
	hi, lo := bits.Mul64(uint64(l.Window), uint64(l.Max()))
	if hi >= uint64(l.Events) {
		return math.MaxInt64
	}
	fill, rest := bits.Div64(hi, lo, uint64(l.Events))
	if rest > 0 {
		fill++
	}
	return time.Duration(min(fill, math.MaxInt64))
}

// seconds returns d in whole seconds, rounded up and never below zero.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
