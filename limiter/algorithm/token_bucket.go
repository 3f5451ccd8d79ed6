package algorithm

import (
	"fmt"
	"math/bits"

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

func (tokenBucket) Peek(now limiter.Instant, state []byte, a *limiter.Ask) (r limiter.Result) {
	var b bucket
	b.read(now, state, a.Limit)
	b.peek(&r, now, a)
	return r
}

func (tokenBucket) Spend(now limiter.Instant, state []byte, a *limiter.Ask) (_ []byte, r limiter.Result) {
	var b bucket
	b.read(now, state, a.Limit)
	fits := b.take(claim(a))
	state = b.write(now, state)
	if fits {
		return state, answer(now, b.burst, b.used, b.until(b.used))
	}
	b.peek(&r, now, a)
	return state, r
}

func (tokenBucket) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	var b bucket
	b.read(now, state, a.Limit)
	if a.Cost <= 0 || b.used+a.Cost > b.burst {
		b.peek(r, now, a)
		return state
	}
	b.used += a.Cost
	state = b.write(now, state)
	pass(r, now, b.burst, b.used, b.until(b.used))
	return state
}

func (tokenBucket) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	var b bucket
	b.read(now, state, c.Limit)
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
	var b bucket
	b.read(now, state, l)
	return b.write(now, state), true
}

// Rate returns the limit's rate in lowest terms: that many tokens in that many
// microseconds.
func Rate(l *limiter.Limit) (events, span int64) {
	events, span = l.Events, window(l)
	// A limit counts at most a billion events, so that after one step the divisions
	// are short ones.
	a, b := uint32(events), uint32(span%events)
	if b == 0 { // as with most limits
		return 1, span / events
	}
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

// read makes b, which is zero, a state as it is now. A bucket that is full is a fresh one.
func (b *bucket) read(now limiter.Instant, state []byte, l *limiter.Limit) {
	b.burst, b.busy = l.Max(), now
	b.events, b.span = Rate(l)
	if len(state) != bucketLen || state[0] != version {
		return
	}
	at := limiter.Instant(get7(state[1:]))
	busy := min(at-limiter.Instant(get5(state[15:])), now)
	at = min(at, now)
	part := min(get3(state[8:]), b.events-1)
	used := min(get4(state[11:]), b.burst)
	missing := used*b.span - part
	// What is missing is at most 2^53, so that a product that would be too large fills the bucket.
	hi, back := bits.Mul64(uint64(now-at), uint64(b.events))
	if missing <= 0 || hi > 0 || back >= uint64(missing) {
		return
	}
	part += int64(back)
	if part >= b.span { // divisions are what takes longest here
		used -= part / b.span
		part %= b.span
	}
	b.used, b.part, b.busy = used, part, busy
}

// write lays the bucket down as it is now. One that is full leaves no state.
func (b *bucket) write(now limiter.Instant, state []byte) []byte {
	if b.used == 0 {
		return state[:0]
	}
	whole, part := b.part, int64(0)
	if b.events > 1 {
		whole, part = b.part/b.events, b.part%b.events
	}
	at := now - limiter.Instant(whole)
	state = resize(state, bucketLen, bucketLen)
	state[0] = version
	put7(state[1:], int64(at))
	put3(state[8:], part)
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

func (b *bucket) peek(r *limiter.Result, now limiter.Instant, a *limiter.Ask) {
	pass(r, now, b.burst, b.used, b.until(b.used))
	cost := claim(a)
	switch {
	case cost > b.burst:
		refuse(r, a, limiter.Never)
	case b.used+cost > b.burst:
		refuse(r, a, micros(b.until(b.used+cost-b.burst)))
	}
}

// until returns how many microseconds it takes until n more tokens have come back.
func (b *bucket) until(n int64) int64 {
	if n == 0 {
		return 0
	}
	if b.events == 1 {
		return n*b.span - b.part
	}
	return ceilDiv(n*b.span-b.part, b.events)
}
