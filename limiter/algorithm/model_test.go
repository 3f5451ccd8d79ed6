package algorithm

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// The ways of counting that promise exactness, each beside the plainest code that does the
// same.

// A log of all events is what sliding_log is, and sliding_window up to 72 in units of 8 µs.
func TestExactLogs(t *testing.T) {
	for _, c := range []struct {
		alg  Algorithm
		unit limiter.Instant
		most int64
	}{{slidingLog{}, 1, 300}, {slidingWindow{}, 8, marksMost}} {
		t.Run(c.alg.Name(), func(t *testing.T) {
			for seed := range uint64(30) {
				rng := rand.New(rand.NewPCG(seed, 3))
				m := plainLog{unit: c.unit}
				l := limiter.Limit{Algorithm: c.alg.Name(), Events: 1 + rng.Int64N(c.most), Window: time.Second}
				if seed%3 == 0 {
					l.Ceiling = 3 * time.Second
				}
				compareLogs(t, rng, c.alg, &l, &m, c.most, seed)
			}
		})
	}
}

func compareLogs(t *testing.T, rng *rand.Rand, alg Algorithm, l *limiter.Limit, m *plainLog, most int64, seed uint64) {
	now := limiter.Instant(base)
	var state []byte
	for step := range 400 {
		if rng.IntN(3) > 0 {
			now += limiter.Instant(rng.Int64N(2 * window(l) / l.Events))
		}
		if rng.IntN(40) == 0 {
			raised := *l
			raised.Events = 1 + rng.Int64N(most)
			l = &raised
		}
		m.expire(now, l)
		if rng.IntN(6) == 0 {
			c := limiter.Change{Limit: l, Delta: rng.Int64N(2*l.Events) - l.Events*3/2}
			if len(m.events) > 0 && rng.IntN(2) == 0 {
				c.Spent = m.events[rng.IntN(len(m.events))]
			}
			m.adjust(now, &c)
			state, _ = Adjust(alg, now, state, &c)
		}
		a := limiter.Ask{Limit: l, Cost: 1 + rng.Int64N(1+l.Events/3)}
		got, want := Peek(alg, now, state, &a), m.peek(now, &a)
		if got != want {
			t.Fatalf("seed %d, step %d, cost %d of %d: %+v, want %+v", seed, step, a.Cost, l.Events, got, want)
		}
		if got.Allowed {
			m.spend(now, l, a.Cost)
			state, got = Spend(alg, now, state, &a)
			look := m.peek(now, &limiter.Ask{Limit: l})
			look.Wait = 0
			if got != look {
				t.Fatalf("seed %d, step %d: spent %+v, want %+v", seed, step, got, look)
			}
		} else {
			var changed bool
			if state, _, changed = Refuse(alg, now, state, &a, got); changed {
				m.spend(now, l, a.Cost)
			}
		}
	}
}

// plainLog lists the events, oldest first, in times rounded up to a unit.
type plainLog struct {
	unit   limiter.Instant
	events []limiter.Instant
}

func (m *plainLog) round(at limiter.Instant) limiter.Instant {
	return (at + m.unit - 1) / m.unit * m.unit
}

func (m *plainLog) expire(now limiter.Instant, l *limiter.Limit) {
	m.events = slices.DeleteFunc(m.events, func(at limiter.Instant) bool { return at.Add(l.Window) <= now })
}

func (m *plainLog) spend(now limiter.Instant, l *limiter.Limit, cost int64) {
	for range cost {
		m.events = append(m.events, m.round(now))
	}
	m.keep(l.Events)
}

func (m *plainLog) keep(n int64) {
	m.events = m.events[max(0, int64(len(m.events))-n):]
}

func (m *plainLog) adjust(now limiter.Instant, c *limiter.Change) {
	if c.Delta > 0 {
		m.spend(now, c.Limit, min(c.Delta, c.Limit.Events))
		return
	}
	back := -c.Delta
	if m.unit == 1 { // marks of one event each are never grouped anew
		// What is above a limit that was lowered goes first.
		back -= max(int64(len(m.events))-c.Limit.Events, 0)
		m.keep(c.Limit.Events)
	}
	m.events = slices.DeleteFunc(m.events, func(at limiter.Instant) bool {
		if back <= 0 || c.Spent != 0 && at != m.round(c.Spent) {
			return false
		}
		back--
		return true
	})
}

func (m *plainLog) peek(now limiter.Instant, a *limiter.Ask) limiter.Result {
	n := int64(len(m.events))
	r := limiter.Result{Allowed: true, Max: a.Limit.Events, Remaining: max(a.Limit.Events-n, 0), Now: now}
	left := func(i int64) time.Duration { return micros(int64(m.events[i].Add(a.Limit.Window) - now)) }
	if n > 0 {
		r.Reset = left(n - 1)
	}
	if over := n + max(a.Cost, 1) - a.Limit.Events; over > 0 {
		r.Allowed, r.Wait = a.Cost == 0, left(over-1)
	}
	return r
}

// A bucket with levels as fractions, without rounding anywhere (rows L40, L41, L68).
func TestTokenBucketModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 4))
		some := limits(limiter.TokenBucket)
		l := some[seed%uint64(len(some))]
		now := limiter.Instant(base)
		var state []byte
		most := big.NewRat(l.Max(), 1)
		level := new(big.Rat).Set(most)
		rate := big.NewRat(l.Events, window(&l))
		for step := range 300 {
			gap := rng.Int64N(1 + 4*window(&l)/l.Events)
			now += limiter.Instant(gap)
			level.Add(level, new(big.Rat).Mul(rate, big.NewRat(gap, 1)))
			if level.Cmp(most) > 0 {
				level.Set(most)
			}
			a := limiter.Ask{Limit: &l, Cost: 1 + rng.Int64N(l.Max())}
			if rng.IntN(2) == 0 {
				a.Cost = 1
			}
			cost := big.NewRat(a.Cost, 1)
			want := limiter.Result{Allowed: level.Cmp(cost) >= 0, Max: l.Max(), Now: now}
			want.Remaining = floor(level)
			want.Reset = ceilTime(new(big.Rat).Sub(most, level), rate)
			if !want.Allowed {
				want.Wait = ceilTime(new(big.Rat).Sub(cost, level), rate)
			}
			if got := Peek(tokenBucket{}, now, state, &a); got != want {
				t.Fatalf("seed %d, step %d, %d/%s, cost %d: %+v, want %+v", seed, step, l.Events, l.Window, a.Cost, got, want)
			}
			if want.Allowed {
				state, _ = Spend(tokenBucket{}, now, state, &a)
				level.Sub(level, cost)
			}
		}
	}
}

func floor(r *big.Rat) int64 { return new(big.Int).Quo(r.Num(), r.Denom()).Int64() }

// ceilTime returns how long it takes at a rate in 1/µs until something has come together.
func ceilTime(what, rate *big.Rat) time.Duration {
	us := new(big.Rat).Quo(what, rate)
	whole := floor(us)
	if !us.IsInt() {
		whole++
	}
	return micros(whole)
}

// Leases against a map of them.
func TestInFlightModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	l := limiter.Limit{Algorithm: limiter.InFlight, Events: 5, Window: time.Second}
	now := limiter.Instant(base)
	held := make(map[string]limiter.Instant)
	var state []byte
	for step := range 20_000 {
		now += limiter.Instant(rng.Int64N(200_000))
		for name, until := range held {
			if until <= now {
				delete(held, name)
			}
		}
		a := limiter.Ask{Limit: &l, Cost: 1 + rng.Int64N(9), Lease: string(rune('a' + rng.IntN(8)))}
		if rng.IntN(3) == 0 {
			state = Release(inFlight{}, now, state, &a)
			delete(held, a.Lease)
		}
		_, renewal := held[a.Lease]
		want := renewal || len(held) < 5
		r := Peek(inFlight{}, now, state, &a)
		if r.Allowed != want || r.Remaining != int64(5-len(held)) {
			t.Fatalf("step %d: %+v with %d held, want allowed %t", step, r, len(held), want)
		}
		if r.Allowed {
			state, r = Spend(inFlight{}, now, state, &a)
			held[a.Lease] = now.Add(l.Window)
			if r.Remaining != int64(5-len(held)) || r.Reset != l.Window {
				t.Fatalf("step %d: spent %+v with %d held", step, r, len(held))
			}
		}
	}
}
