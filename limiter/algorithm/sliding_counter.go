package algorithm

import (
	"fmt"
	"math"

	"github.com/weirhq/caddy-weir/limiter"
)

// slidingCounter counts in windows that follow each other from a key's first hit on, and
// estimates the last Window as the current count and the part of the previous one that
// still overlaps. It assumes that the previous window's events came evenly; when they came
// all at its end, almost twice the limit can pass in a Window. It is the cheapest of those
// that have no edges.
type slidingCounter struct{}

const counterLen = 16

func (slidingCounter) Name() string { return limiter.SlidingCounter }

func (slidingCounter) Check(l *limiter.Limit) error {
	if l.Ceiling > 0 && l.Ceiling < 2*l.Window {
		return fmt.Errorf("count_rejected: a sliding_counter of %s needs at least twice as long, got %s", l.Window, l.Ceiling)
	}
	return nil
}

func (slidingCounter) Peek(now limiter.Instant, state []byte, a *limiter.Ask) (r limiter.Result) {
	c := readCounter(now, state, a.Limit)
	c.peek(&r, now, a)
	return r
}

func (slidingCounter) Spend(now limiter.Instant, state []byte, a *limiter.Ask) (_ []byte, r limiter.Result) {
	c := readCounter(now, state, a.Limit)
	cost := claim(a)
	fits := c.fits(now, cost)
	c.charge(cost)
	state = c.write(state)
	if fits {
		return state, answer(now, c.events, c.used(now), c.reset(now))
	}
	c.peek(&r, now, a)
	return state, r
}

func (slidingCounter) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	c := readCounter(now, state, a.Limit)
	if a.Cost <= 0 || !c.fits(now, a.Cost) {
		c.peek(r, now, a)
		return state
	}
	c.charge(a.Cost)
	state = c.write(state)
	pass(r, now, c.events, c.used(now), c.reset(now))
	return state
}

func (slidingCounter) Adjust(now limiter.Instant, state []byte, ch *limiter.Change) ([]byte, limiter.Result) {
	c := readCounter(now, state, ch.Limit)
	back := max(-ch.Delta, 0)
	switch {
	case ch.Delta > 0:
		c.charge(min(ch.Delta, c.events))
	case ch.Spent == 0:
		current := min(back, c.current)
		c.current -= current
		c.previous -= min(back-current, c.previous)
	case ch.Spent >= c.start:
		c.current -= min(back, c.current)
	case ch.Spent >= c.start-limiter.Instant(c.window):
		c.previous -= min(back, c.previous)
	}
	state = c.write(state)
	return state, answer(now, c.events, c.used(now), c.reset(now))
}

func (slidingCounter) rebase(now limiter.Instant, state []byte, _ *limiter.Limit) ([]byte, bool) {
	return state, len(state) == counterLen && startNow(now, state)
}

// counter is a state as it is at some instant.
type counter struct {
	events, window    int64
	start             limiter.Instant
	current, previous int64
}

func readCounter(now limiter.Instant, state []byte, l *limiter.Limit) counter {
	c := counter{events: l.Events, window: window(l), start: now}
	if len(state) != counterLen || state[0] != version {
		return c
	}
	start := min(limiter.Instant(get7(state[1:])), now)
	switch passed := int64(now - start); {
	case passed >= 2*c.window:
		// Both windows have passed: a fresh key.
	case passed >= c.window:
		c.start = start + limiter.Instant(c.window)
		c.previous = get4(state[8:])
	default:
		c.start = start
		c.current, c.previous = get4(state[8:]), get4(state[12:])
	}
	return c
}

// write lays the counter down. One that counts nothing leaves no state.
func (c *counter) write(state []byte) []byte {
	if c.current == 0 && c.previous == 0 {
		return state[:0]
	}
	state = resize(state, counterLen, counterLen)
	state[0] = version
	put7(state[1:], int64(c.start))
	put4(state[8:], c.current)
	put4(state[12:], c.previous)
	return state
}

// charge adds to the current window, which never counts more than the limit, unless it
// did under a higher one.
func (c *counter) charge(cost int64) {
	c.current = max(c.current, min(c.current+cost, c.events))
}

// grain returns the unit of time, in microseconds, in which a window whose previous count
// is that can be weighed without a product that a double does not hold exactly, and
// the window's length in that unit. The float operations are the Lua twin's, in its order.
func (c *counter) grain(previous int64) (unit, span int64) {
	most := float64(max(c.events, previous))
	unit = max(int64(math.Ceil(float64(c.window)*most/(1<<52))), 1)
	return unit, ceilDiv(c.window, unit)
}

// used returns the estimate of what the last Window saw, rounded up.
func (c *counter) used(now limiter.Instant) int64 {
	if c.previous == 0 {
		return c.current
	}
	unit, span := c.grain(c.previous)
	return c.current + ceilDiv(c.previous*(span-int64(now-c.start)/unit), span)
}

func (c *counter) fits(now limiter.Instant, cost int64) bool {
	return c.used(now)+cost <= c.events
}

func (c *counter) peek(r *limiter.Result, now limiter.Instant, a *limiter.Ask) {
	used := c.used(now)
	pass(r, now, c.events, used, c.reset(now))
	cost := claim(a)
	switch {
	case cost > c.events:
		refuse(r, a, limiter.Never)
	case used+cost > c.events:
		refuse(r, a, micros(c.wait(now, cost)))
	}
}

// reset returns how many microseconds it takes until both counts are gone.
func (c *counter) reset(now limiter.Instant) int64 {
	left := int64(c.start-now) + c.window
	switch {
	case c.current > 0:
		return left + c.window
	case c.previous > 0:
		return left
	}
	return 0
}

// wait returns how many microseconds it takes until an ask that does not fit now does:
// when enough of the previous window has slid out, or else in the next window, whose
// previous count is today's current one.
func (c *counter) wait(now limiter.Instant, cost int64) int64 {
	past := int64(now - c.start)
	if room := c.events - c.current - cost; room >= 0 {
		if at := c.slid(c.previous, room); at < c.window {
			return at - past
		}
	}
	return c.window + min(c.slid(c.current, c.events-cost), c.window) - past
}

// slid returns how many microseconds into a window at most room of the count of the
// window before still weighs.
func (c *counter) slid(previous, room int64) int64 {
	if previous <= room {
		return 0
	}
	unit, span := c.grain(previous)
	return unit * (span - room*span/previous)
}
