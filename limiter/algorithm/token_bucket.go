package algorithm

import (
	"fmt"

	"github.com/weirhq/caddy-weir/limiter"
)

// tokenBucket holds burst tokens, of which each ask takes its cost, and is refilled
// steadily with Events tokens in each Window, up to the burst again. In any span of time
// it lets pass at most the burst and what the span refills; in a window that may be twice
// the limit if the burst equals the events.
//
// It is the meter of ITU-T I.371 (the generic cell rate algorithm) told in tokens. The rate
// is kept as a fraction in lowest terms, so that no remainder is ever rounded away, however
// odd the numbers: the state says at which exact moment how many whole tokens were used,
// and the moment may lie between two microseconds.
type tokenBucket struct{}

const bucketLen = 20

// maxPart bounds the denominators of moments between two microseconds, maxAge the length
// of a busy period that is remembered: some twelve days.
const (
	maxPart = 1 << 24
	maxAge  = 1<<40 - 1
)

func (tokenBucket) Name() string { return limiter.TokenBucket }

func (tokenBucket) Check(l *limiter.Limit) error {
	events, span := Rate(l)
	if events < maxPart && l.Max() <= (limiter.Exact-events)/span {
		return nil
	}
	for unit := int64(10); l.Events >= unit && window(l)%unit == 0; unit *= 10 {
		near := *l
		near.Events -= near.Events % unit
		events, span = Rate(&near)
		if events < maxPart && near.Max() <= (limiter.Exact-events)/span {
			return fmt.Errorf("events: %d in %s with a burst of %d cannot be counted exactly, %d can",
				l.Events, l.Window, l.Max(), near.Events)
		}
	}
	return fmt.Errorf("events: %d in %s with a burst of %d cannot be counted exactly, fewer in a window of whole seconds can",
		l.Events, l.Window, l.Max())
}

func (tokenBucket) Peek(now limiter.Instant, state []byte, a *limiter.Ask) limiter.Result {
	b := readBucket(now, state, a.Limit)
	return b.peek(now, a)
}

func (tokenBucket) Spend(now limiter.Instant, state []byte, a *limiter.Ask) ([]byte, limiter.Result) {
	b := readBucket(now, state, a.Limit)
	fits := b.take(claim(a))
	state = b.write(now, state)
	if fits {
		return state, answer(now, b.burst, b.used, b.until(b.used))
	}
	return state, b.peek(now, a)
}

func (tokenBucket) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	b := readBucket(now, state, c.Limit)
	switch {
	case c.Delta > 0:
		b.take(min(c.Delta, b.burst))
	case c.Spent == 0 || c.Spent >= b.busy:
		// What was spent before the bucket was last full has come back by itself.
		b.used = max(b.used+max(c.Delta, -b.burst), 0)
	}
	state = b.write(now, state)
	return state, answer(now, b.burst, b.used, b.until(b.used))
}

func (tokenBucket) rebase(now limiter.Instant, state []byte, l *limiter.Limit) ([]byte, bool) {
	if len(state) != bucketLen || get7(state[1:]) <= int64(now) {
		return state, false
	}
	b := readBucket(now, state, l)
	return b.write(now, state), true
}

// Rate returns the limit's rate in lowest terms: that many tokens in that many
// microseconds.
func Rate(l *limiter.Limit) (events, span int64) {
	events, span = l.Events, window(l)
	// A limit counts at most a billion events, so that after one step the divisions
	// are short ones.
	a, b := uint32(events), uint32(span%events)
	for b != 0 {
		a, b = b, a%b
	}
	return events / int64(a), span / int64(a)
}

// bucket is a state as it is at some instant.
type bucket struct {
	events, span int64 // the rate in lowest terms
	burst        int64
	used         int64 // whole tokens that are missing
	part         int64 // of the next token, in tokens/span: below span
	busy         limiter.Instant
}

// readBucket reads a state as it is now. A bucket that is full is a fresh one.
func readBucket(now limiter.Instant, state []byte, l *limiter.Limit) bucket {
	b := bucket{burst: l.Max(), busy: now}
	b.events, b.span = Rate(l)
	if len(state) != bucketLen || state[0] != version {
		return b
	}
	at := limiter.Instant(get7(state[1:]))
	busy := min(at-limiter.Instant(get5(state[15:])), now)
	at = min(at, now)
	part := min(get3(state[8:]), b.events-1)
	used := min(get4(state[11:]), b.burst)
	missing := used*b.span - part
	if missing <= 0 || int64(now-at) >= ceilDiv(missing, b.events) {
		return b
	}
	part += int64(now-at) * b.events
	b.used = used - part/b.span
	b.part = part % b.span
	b.busy = busy
	return b
}

// write lays the bucket down as it is now. One that is full leaves no state.
func (b *bucket) write(now limiter.Instant, state []byte) []byte {
	if b.used == 0 {
		return state[:0]
	}
	at := now - limiter.Instant(b.part/b.events)
	state = resize(state, bucketLen, bucketLen)
	state[0] = version
	put7(state[1:], int64(at))
	put3(state[8:], b.part%b.events)
	put4(state[11:], b.used)
	put5(state[15:], min(int64(max(at-b.busy, 0)), maxAge))
	return state
}

// take uses tokens and reports whether there were enough; if not, the bucket is left
// empty, and what had run into it of the next token is lost as well.
func (b *bucket) take(cost int64) bool {
	if b.used+cost <= b.burst {
		b.used += cost
		return true
	}
	b.used, b.part = b.burst, 0
	return false
}

func (b *bucket) peek(now limiter.Instant, a *limiter.Ask) limiter.Result {
	r := answer(now, b.burst, b.used, b.until(b.used))
	cost := claim(a)
	switch {
	case cost > b.burst:
		refuse(&r, a, limiter.Never)
	case b.used+cost > b.burst:
		refuse(&r, a, micros(b.until(b.used+cost-b.burst)))
	}
	return r
}

// until returns how many microseconds it takes until n more tokens have come back.
func (b *bucket) until(n int64) int64 {
	if n == 0 {
		return 0
	}
	return ceilDiv(n*b.span-b.part, b.events)
}
