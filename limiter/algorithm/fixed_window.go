package algorithm

import "github.com/weirhq/caddy-weir/limiter"

// fixedWindow counts in windows that begin with a key's first hit after the last one
// ended, so that the windows of different keys do not end together. At most Events pass
// in a window; around the end of one and the beginning of the next, up to twice as many
// in less than Window.
type fixedWindow struct{}

const fixedLen = 12

func (fixedWindow) Name() string { return limiter.FixedWindow }

func (fixedWindow) Check(*limiter.Limit) error { return nil }

func (fixedWindow) Peek(now limiter.Instant, state []byte, a *limiter.Ask) limiter.Result {
	start, count, kept := readFixed(now, state, a.Limit)
	return peekFixed(now, start, count, kept, a)
}

func (fixedWindow) Spend(now limiter.Instant, state []byte, a *limiter.Ask) ([]byte, limiter.Result) {
	start, count, _ := readFixed(now, state, a.Limit)
	cost := claim(a)
	fits := count+cost <= a.Limit.Events
	if !fits {
		// A client that keeps hammering is refused for a whole window more.
		start = now
	}
	count = min(count+cost, a.Limit.Events)
	state = writeFixed(state, start, count)
	if !fits {
		return state, peekFixed(now, start, count, true, a)
	}
	return state, answer(now, a.Limit.Events, count, int64(start-now)+window(a.Limit))
}

func (fixedWindow) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	start, count, kept := readFixed(now, state, a.Limit)
	if a.Cost <= 0 || count+a.Cost > a.Limit.Events {
		*r = peekFixed(now, start, count, kept, a)
		return state
	}
	count += a.Cost
	pass(r, now, a.Limit.Events, count, int64(start-now)+window(a.Limit))
	return writeFixed(state, start, count)
}

func (fixedWindow) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	start, count, kept := readFixed(now, state, c.Limit)
	switch {
	case c.Delta > 0:
		kept = true
		count = max(count, min(count+min(c.Delta, c.Limit.Events), c.Limit.Events))
	case !kept:
		return state[:0], answer(now, c.Limit.Events, 0, 0)
	case c.Spent == 0 || c.Spent >= start:
		// At zero the window still keeps its end.
		count = max(count+max(c.Delta, -limiter.MaxEvents), 0)
	}
	return writeFixed(state, start, count), answer(now, c.Limit.Events, count, int64(start-now)+window(c.Limit))
}

func (fixedWindow) rebase(now limiter.Instant, state []byte, _ *limiter.Limit) ([]byte, bool) {
	return state, len(state) == fixedLen && startNow(now, state)
}

// startNow lets a window that begins ahead of now begin now, and reports whether it did.
func startNow(now limiter.Instant, state []byte) bool {
	if get7(state[1:]) <= int64(now) {
		return false
	}
	put7(state[1:], int64(now))
	return true
}

// readFixed returns the window that now falls into. kept is false if there is none, and
// one would begin now.
func readFixed(now limiter.Instant, state []byte, l *limiter.Limit) (start limiter.Instant, count int64, kept bool) {
	if len(state) != fixedLen || state[0] != version {
		return now, 0, false
	}
	start = min(limiter.Instant(get7(state[1:])), now)
	if int64(now-start) >= window(l) {
		return now, 0, false
	}
	return start, get4(state[8:]), true
}

func writeFixed(state []byte, start limiter.Instant, count int64) []byte {
	state = resize(state, fixedLen, fixedLen)
	state[0] = version
	put7(state[1:], int64(start))
	put4(state[8:], count)
	return state
}

func peekFixed(now, start limiter.Instant, count int64, kept bool, a *limiter.Ask) limiter.Result {
	var left int64
	if kept {
		left = int64(start-now) + window(a.Limit)
	}
	r := answer(now, a.Limit.Events, count, left)
	cost := claim(a)
	switch {
	case cost > a.Limit.Events:
		refuse(&r, a, limiter.Never)
	case count+cost > a.Limit.Events:
		refuse(&r, a, micros(left))
	}
	return r
}
