package algorithm

import (
	"fmt"

	"github.com/weirhq/caddy-weir/limiter"
)

// slidingLog remembers each event by itself and so is exact at any limit: at most Events
// pass in any Window, and nothing is refused that would not be above it. The events stand
// in a ring of seven bytes each, of which a decision reads few and writes one.
type slidingLog struct{}

const (
	ringHead = 13
	eventLen = 7
	// ringMost bounds a state to 700 kB.
	ringMost = 100_000
)

func (slidingLog) Name() string { return limiter.SlidingLog }

func (slidingLog) Check(l *limiter.Limit) error {
	if l.Events > ringMost {
		return fmt.Errorf("events: sliding_log remembers each event, at most %d of them, got %d; sliding_window has no such bound",
			ringMost, l.Events)
	}
	return nil
}

func (slidingLog) Peek(now limiter.Instant, state []byte, a *limiter.Ask) (r limiter.Result) {
	g := readRing(now, state, a.Limit)
	g.peek(&r, now, a)
	return r
}

func (slidingLog) Spend(now limiter.Instant, state []byte, a *limiter.Ask) (_ []byte, r limiter.Result) {
	g := readRing(now, state, a.Limit)
	fits := g.spend(now, claim(a))
	if !fits {
		g.peek(&r, now, a)
		return g.state, r
	}
	return g.state, answer(now, g.events, g.live, g.reset(now))
}

func (slidingLog) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	g := readRing(now, state, a.Limit)
	if a.Cost <= 0 || g.live+a.Cost > g.events {
		g.peek(r, now, a)
		return state
	}
	g.spend(now, a.Cost)
	pass(r, now, g.events, g.live, g.reset(now))
	return g.state
}

func (slidingLog) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	g := readRing(now, state, c.Limit)
	switch {
	case c.Delta > 0:
		g.spend(now, min(c.Delta, g.events))
	case g.live == 0:
		g.state = g.state[:0]
	case c.Spent == 0:
		back := min(max(-c.Delta, 0), g.live)
		g.live -= back
		g.lay(now)
	default:
		// Of what is given back, as much as was above the limit frees nothing.
		above := max(g.live-g.events, 0)
		g.lay(now)
		g.dropAt(c.Spent, max(-c.Delta-above, 0))
	}
	return g.state, answer(now, g.events, g.live, g.reset(now))
}

func (slidingLog) rebase(now limiter.Instant, state []byte, l *limiter.Limit) ([]byte, bool) {
	g := readRing(now, state, l)
	if g.live == 0 || g.raw(g.live-1) <= now {
		return state, false
	}
	g.clamp(now)
	return g.state, true
}

// ring is a state as it is at some instant.
type ring struct {
	state  []byte
	events int64
	window int64
	size   int64 // slots there are room for
	next   int64 // the slot of the next event
	live   int64 // events that count, in the slots before next
}

func readRing(now limiter.Instant, state []byte, l *limiter.Limit) ring {
	g := ring{state: state, events: l.Events, window: window(l), size: l.Events}
	slots := int64(len(state)-ringHead) / eventLen
	if len(state) < ringHead || int64(len(state)) != ringHead+slots*eventLen || state[0] != version {
		return g
	}
	size, next, used := get4(state[1:]), get4(state[5:]), get4(state[9:])
	if size < 1 || size > ringMost || slots > size || next >= size || next > slots || used > slots {
		return g
	}
	if slots < size && used > next {
		return g // a ring that never came round has nothing behind next
	}
	g.size, g.next = size, next
	g.live = used
	// Times never fall from the oldest to the newest: the first that counts is found
	// by halving.
	lo, hi := int64(0), used
	for lo < hi {
		mid := (lo + hi) / 2
		if int64(now-g.raw(mid)) >= g.window {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	g.live = used - lo
	return g
}

// slot returns where the i-th live event stands, counted from the oldest.
func (g *ring) slot(i int64) []byte {
	at := g.next - g.live + i
	if at < 0 {
		at += g.size
	}
	return g.state[ringHead+at*eventLen:]
}

// raw returns the instant of a live event as it was written.
func (g *ring) raw(i int64) limiter.Instant { return limiter.Instant(get7(g.slot(i))) }

// left returns how many microseconds a live event still counts. One ahead of now counts
// as now.
func (g *ring) left(now limiter.Instant, i int64) int64 {
	return int64(min(g.raw(i), now)-now) + g.window
}

func (g *ring) reset(now limiter.Instant) int64 {
	if g.live == 0 {
		return 0
	}
	return g.left(now, g.live-1)
}

func (g *ring) peek(r *limiter.Result, now limiter.Instant, a *limiter.Ask) {
	pass(r, now, g.events, g.live, g.reset(now))
	cost := claim(a)
	switch {
	case cost > g.events:
		refuse(r, a, limiter.Never)
	case g.live+cost > g.events:
		refuse(r, a, micros(g.left(now, g.live+cost-g.events-1)))
	}
}

// spend records cost events as of now and reports whether they fit. If not, the log is
// full afterwards: of the older events only those stay for which there is room.
func (g *ring) spend(now limiter.Instant, cost int64) bool {
	over := g.live + cost - g.events
	if over > 0 {
		g.live -= min(over, g.live)
	}
	switch {
	case g.live == 0:
		g.state = g.state[:0]
		g.size, g.next = g.events, 0
	case g.size != g.events:
		g.lay(now)
	default:
		g.clamp(now)
	}
	g.push(now, cost)
	return over <= 0
}

// clamp writes now over the events that lie ahead of it.
func (g *ring) clamp(now limiter.Instant) {
	for i := g.live - 1; i >= 0 && g.raw(i) > now; i-- {
		put7(g.slot(i), int64(now))
	}
}

// push adds events at now behind the others and writes the head.
func (g *ring) push(now limiter.Instant, cost int64) {
	most := ringHead + int(g.size)*eventLen
	if len(g.state) < ringHead {
		g.state = resize(g.state, ringHead, most)
	}
	for range cost {
		at := ringHead + int(g.next)*eventLen
		if at == len(g.state) {
			g.state = resize(g.state, at+eventLen, most)
		}
		put7(g.state[at:], int64(now))
		if g.next++; g.next == g.size {
			g.next = 0
		}
	}
	g.live += cost
	g.seal()
}

func (g *ring) seal() {
	g.state[0] = version
	put4(g.state[1:], g.size)
	put4(g.state[5:], g.next)
	put4(g.state[9:], g.live)
}
