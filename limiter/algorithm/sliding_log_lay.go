package algorithm

import "github.com/weirhq/caddy-weir/limiter"

// lay writes the newest live events, at most as many as the limit allows, into a new ring of
// the limit's size, the oldest in its first slot. This happens when the limit's number
// has changed or events were given back, and takes new room.
func (g *ring) lay(now limiter.Instant) {
	if g.live == 0 {
		g.state = g.state[:0]
		return
	}
	skip := max(g.live-g.events, 0)
	count := g.live - skip
	state := make([]byte, ringHead+count*eventLen)
	for i := range count {
		put7(state[ringHead+i*eventLen:], int64(min(g.raw(skip+i), now)))
	}
	g.state, g.size, g.live = state, g.events, count
	g.next = count % g.size
	g.seal()
}

// dropAt gives back events that were spent at that instant, from a ring that was just laid.
func (g *ring) dropAt(spent limiter.Instant, back int64) {
	first := int64(0)
	for first < g.live && g.raw(first) < spent {
		first++
	}
	last := first
	for last < g.live && last-first < back && g.raw(last) == spent {
		last++
	}
	kept := append(g.state[:ringHead+first*eventLen], g.state[ringHead+last*eventLen:]...)
	g.live -= last - first
	if g.live == 0 {
		g.state = kept[:0]
		return
	}
	g.state, g.next = kept, g.live%g.size
	g.seal()
}
