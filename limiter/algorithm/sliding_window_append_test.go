package algorithm

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// At every edge of what appendEvents deals with, and one step beyond, take comes to what Peek and Spend come to.
func TestAppendEvents(t *testing.T) {
	l := &limiter.Limit{Algorithm: limiter.SlidingWindow, Events: 1000, Window: time.Second}
	k := MarkEvents(l.Events)
	now := limiter.Instant(base)
	top, dead := mark(now), lastDead(now, window(l))
	appended := 0
	for _, n := range []int{1, 2, marksMost} {
		for _, was := range []int64{k - 1, k} {
			for _, fill := range []int64{0, 1, k - 2, k - 1, k, k + 1} {
				for _, oldest := range []int64{dead - 1, dead, dead + 1} {
					for _, newest := range []int64{top - 1, top, top + 1} {
						state := markedState(n, was, fill, oldest, newest)
						for _, cost := range []int64{0, 1, 2, k, k + 1} {
							a := limiter.Ask{Limit: l, Cost: cost}
							want, wanted, _ := peekThen(slidingWindow{}, now, slices.Clone(state), &a)
							var got limiter.Result
							kept, _ := Take(&got, slidingWindow{}, now, slices.Grow(slices.Clone(state), markLen), &a)
							if got != wanted || !bytes.Equal(kept, want) {
								t.Fatalf("cost %d of %d marks of %d, filled with %d, %d after the dead and %d after now:\n%+v, %x, want\n%+v, %x",
									cost, n, was, fill, oldest-dead, newest-top, got, kept, wanted, want)
							}
							if appendEvents(&got, now, slices.Clone(state), &a) != nil {
								appended++
							}
						}
					}
				}
			}
		}
	}
	if appended == 0 {
		t.Error("appendEvents dealt with none of them")
	}
}

// markedState lays marks down, of which a lone one is the newest.
func markedState(n int, k, fill, oldest, newest int64) []byte {
	state := make([]byte, logHead+n*markLen)
	state[0] = version
	put3(state[1:], k)
	put4(state[4:], fill)
	for i := range n {
		put6(state[logHead+i*markLen:], oldest)
	}
	put6(state[len(state)-markLen:], newest)
	return state
}
