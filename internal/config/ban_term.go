package config

import (
	"math"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// A term says how long a key is banned.
type term struct {
	base    time.Duration
	grow    float64
	max     time.Duration
	quiet   time.Duration // 0 if nothing grows
	spread  float64
	ceiling time.Duration // of a rolling ban, 0 for a fixed one
}

func (b *Ban) term() term {
	t := term{
		base: time.Duration(b.For), grow: b.Grow, max: time.Duration(b.Max),
		spread: *b.Spread, ceiling: time.Duration(b.Rolling),
	}
	if t.grow > 1 {
		t.quiet = time.Duration(b.Quiet)
	}
	return t
}

// enough is the number of the first ban that is as long as bans become. No key is said to have
// had more: they would only take longer to be forgotten.
func (t *term) enough() int {
	if t.quiet <= 0 || t.max <= t.base {
		return 1
	}
	return 1 + int(math.Ceil(math.Log(float64(t.max)/float64(t.base))/math.Log(t.grow)))
}

// count returns the number of the ban that begins now: one more than those before it, of which
// one is forgotten for each quiet period since the last one ended. last is nil if there
// was none.
func (t *term) count(last *blocklist.Ban, now time.Time) int {
	if last == nil || t.quiet <= 0 {
		return 1
	}
	quiet := int(min(max(0, now.Sub(last.Until))/t.quiet, math.MaxInt32))
	return min(max(0, last.Count-quiet)+1, t.enough())
}

// length returns how long the n-th ban lasts: base × grow^(n-1), at most max, and on top of it a
// part of the spread by chance, which is from 0 to 1.
func (t *term) length(n int, chance float64) time.Duration {
	length := min(float64(t.base)*math.Pow(t.grow, float64(n-1)), float64(max(t.max, t.base)))
	return time.Duration(length * (1 + t.spread*chance)).Round(time.Millisecond)
}

// forget returns until when the n-th ban has to be remembered: then none of those that led to it
// counts any more.
func (t *term) forget(until time.Time, n int) time.Time {
	return until.Add(min(time.Duration(n)*t.quiet, maxForget))
}

// maxForget is the longest that a ban is remembered.
const maxForget = 10 * limiter.MaxWindow

// roll returns the end of a ban after an attempt, and whether it is another one. An attempt
// begins the ban anew, but not beyond the ceiling, and only once a tenth of it has passed
// since an earlier attempt did: a flood of attempts is not to become one of changes.
func (t *term) roll(ban *blocklist.Ban, now time.Time) (until time.Time, moved bool) {
	if t.ceiling <= 0 {
		return ban.Until, false
	}
	length := t.length(max(1, ban.Count), 0)
	until, last := now.Add(length), ban.Since.Add(t.ceiling)
	if until.After(last) {
		until = last
	}
	gain := until.Sub(ban.Until)
	if gain <= 0 || gain < length/10 && until.Before(last) {
		return ban.Until, false
	}
	return until, true
}
