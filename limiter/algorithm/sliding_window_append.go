package algorithm

import (
	"encoding/binary"

	"github.com/weirhq/caddy-weir/limiter"
)

// appendEvents is what take of a sliding_window mostly comes to: the ask passes, the marks were made
// under the limit's numbers, none of them has expired, and what is spent needs at most one more. Then only the
// oldest and the newest mark have to be looked at, and nothing is laid anew. In any other
// case it does nothing and returns nil.
func appendEvents(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	end := len(state)
	n := uint(end-logHead) / markLen
	if end < logHead+markLen || n*markLen != uint(end-logHead) {
		return nil
	}
	events, k, span := a.Limit.Events, MarkEvents(a.Limit.Events), window(a.Limit)
	// The head begins with the version and k; what is above them is fill.
	head := int64(version)<<56 | k<<32
	fill := int64(binary.BigEndian.Uint64(state)) - head
	if fill < 1 || fill > k || a.Cost < 1 || a.Cost > k {
		return nil
	}
	live := int64(n-1)*k + fill + a.Cost
	top := mark(now)
	if live > events || get6(state[logHead:]) <= lastDead(now, span) || get6(state[end-markLen:]) > top {
		return nil
	}
	full := fill == k
	if fill += a.Cost; fill > k {
		if cap(state) < end+markLen {
			return nil
		}
		fill -= k
		state = state[:end+markLen]
		put6(state[end:], top)
	}
	if !full {
		put6(state[end-markLen:], top)
	}
	binary.BigEndian.PutUint64(state, uint64(head|fill))
	pass(r, now, events, live, int64(markEpoch-now)+8*top+span)
	return state
}
