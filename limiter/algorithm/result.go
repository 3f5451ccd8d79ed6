package algorithm

import (
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// answer returns the result of an ask that passes, given what is used and the time in
// microseconds until the key is as good as new.
func answer(now limiter.Instant, most, used, reset int64) (r limiter.Result) {
	pass(&r, now, most, used, reset)
	return r
}

// pass makes r that result.
func pass(r *limiter.Result, now limiter.Instant, most, used, reset int64) {
	r.Allowed = true
	r.Origin = limiter.Exactly
	r.Max = most
	r.Remaining = min(max(most-used, 0), most)
	r.Reset = micros(reset)
	r.Wait = 0
	r.Now = now
}

// claim returns the cost that an ask is judged by: one that only looks is told about a
// cost of 1.
func claim(a *limiter.Ask) int64 { return max(a.Cost, 1) }

// refuse turns r into the answer to an ask that would have to wait. One that only looks
// is told so, and passes.
func refuse(r *limiter.Result, a *limiter.Ask, wait time.Duration) {
	r.Allowed = a.Cost <= 0
	r.Wait = wait
}

// micros turns whole microseconds into a duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// window returns the limit's window in microseconds.
func window(l *limiter.Limit) int64 { return int64(l.Window / time.Microsecond) }
