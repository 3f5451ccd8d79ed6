package algorithm

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// base is a moment on no boundary of any window or unit.
const base = markEpoch + 31_536_000_123_457

// limits are numbers that differ in kind: small and large, coprime and not, of short and
// long windows.
func limits(name string) []limiter.Limit {
	all := []limiter.Limit{
		{Events: 1, Window: time.Second},
		{Events: 3, Window: 7 * time.Microsecond},
		{Events: 10, Window: time.Second, Burst: 4},
		{Events: 72, Window: time.Minute},
		{Events: 73, Window: time.Minute},
		{Events: 700, Window: time.Minute},
		{Events: 1000, Window: time.Hour, Burst: 37},
		{Events: 4999, Window: 999_983 * time.Microsecond},
		{Events: 120_000, Window: time.Minute},
		{Events: 1_000_000_000, Window: limiter.MaxWindow},
	}
	var kept []limiter.Limit
	for _, l := range all {
		l.Zone, l.Algorithm = "z", name
		if name == limiter.MinInterval {
			l.Events = 1
		}
		if Of(name).Check(&l) == nil {
			kept = append(kept, l)
		}
	}
	return kept
}

// walk drives an algorithm through random asks, corrections and clock steps, and shows each
// state it comes to.
func walk(rng *rand.Rand, alg Algorithm, limits []limiter.Limit, steps int, see func(now limiter.Instant, state []byte, l *limiter.Limit)) {
	now := limiter.Instant(base)
	var state []byte
	l := &limits[0]
	spent := []limiter.Instant{0}
	for range steps {
		switch rng.IntN(30) {
		case 0:
			l = &limits[rng.IntN(len(limits))]
		case 1:
			now -= limiter.Instant(rng.Int64N(window(l) + 1))
		case 2, 3:
			c := limiter.Change{Limit: l, Delta: 3 - rng.Int64N(10), Spent: spent[rng.IntN(len(spent))]}
			state, _ = Adjust(alg, now, state, &c)
		case 4:
			now += limiter.Instant(rng.Int64N(3 * window(l)))
		default:
			now += limiter.Instant(rng.Int64N(1 + 4*window(l)/l.Events/(1+rng.Int64N(20))))
		}
		see(now, state, l)
		a := limiter.Ask{Limit: l, Cost: 1 + rng.Int64N(1+min(l.Max(), 1+rng.Int64N(l.Max()))), Lease: string(rune('a' + rng.IntN(20)))}
		if rng.IntN(2) == 0 {
			a.Cost = 1
		}
		if r := Peek(alg, now, state, &a); r.Allowed {
			state, _ = Spend(alg, now, state, &a)
			spent = append(spent, now)[max(0, len(spent)-8):]
		} else {
			state, _, _ = Refuse(alg, now, state, &a, r)
		}
	}
}

// eachWalk calls see for many states of each algorithm.
func eachWalk(t *testing.T, see func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit)) {
	for _, alg := range All {
		t.Run(alg.Name(), func(t *testing.T) {
			for seed := range uint64(12) {
				rng := rand.New(rand.NewPCG(seed, 1))
				some := limits(alg.Name())
				if seed%2 == 0 { // half of the walks keep to one limit
					some = some[seed/2%uint64(len(some)):][:1]
				}
				walk(rng, alg, some, 300, func(now limiter.Instant, state []byte, l *limiter.Limit) {
					if !t.Failed() {
						see(t, alg, now, state, l)
					}
				})
			}
		})
	}
}

// Waiting exactly as long as told is enough, and one microsecond less is not.
func TestWaitIsTrue(t *testing.T) {
	eachWalk(t, func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit) {
		for _, cost := range []int64{1, 2, 3, l.Max()/2 + 1, l.Max()} {
			if cost > l.Max() || alg.Name() == limiter.InFlight {
				continue // a raised limit frees places before the first lease ends
			}
			a := limiter.Ask{Limit: l, Cost: cost, Lease: "new"}
			r := Peek(alg, now, state, &a)
			if r.Allowed != (r.Wait == 0) {
				t.Fatalf("cost %d of %d: allowed %t with a wait of %s", cost, l.Max(), r.Allowed, r.Wait)
			}
			if r.Allowed {
				continue
			}
			// Marks that are grouped anew may end a little earlier than told: they are
			// grouped from the oldest on, and that changes as events leave.
			regrouped := alg.Name() == limiter.SlidingWindow && get3(inner(now, state)[1:]) != MarkEvents(l.Events)
			if early := Peek(alg, now.Add(r.Wait)-1, state, &a); early.Allowed && !regrouped && !ahead(alg, now, state, l) {
				t.Fatalf("%d/%s cost %d: told to wait %s, but passed a microsecond earlier; state %x at %d",
					l.Events, l.Window, cost, r.Wait, state, now)
			}
			// A refusal rebases a state that lies ahead of a clock that was put back.
			kept, _ := rebased(alg, now, state, l)
			if due := Peek(alg, now.Add(r.Wait), kept, &a); !due.Allowed {
				t.Fatalf("%d/%s cost %d: told to wait %s, then told to wait %s; state %x at %d",
					l.Events, l.Window, cost, r.Wait, due.Wait, state, now)
			}
		}
	})
}

func inner(now limiter.Instant, stored []byte) []byte {
	_, state := open(now, stored)
	return state
}

// rebased returns a copy of what is stored as a refusal would leave it.
func rebased(alg Algorithm, now limiter.Instant, stored []byte, l *limiter.Limit) ([]byte, bool) {
	return alg.rebase(now, inner(now, append([]byte(nil), stored...)), l)
}

func ahead(alg Algorithm, now limiter.Instant, stored []byte, l *limiter.Limit) bool {
	_, is := rebased(alg, now, stored, l)
	return is
}

// After Reset a key is as good as new: no state outlives it (rows L10, L85).
func TestResetIsTrue(t *testing.T) {
	eachWalk(t, func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit) {
		a := limiter.Ask{Limit: l, Cost: 1, Lease: "new"}
		reset := Peek(alg, now, state, &a).Reset
		kept, _ := rebased(alg, now, state, l)
		later := now.Add(reset)
		got, want := Peek(alg, later, kept, &a), Peek(alg, later, nil, &a)
		if got != want {
			t.Fatalf("%d/%s: after a reset of %s %+v, a fresh key says %+v", l.Events, l.Window, reset, got, want)
		}
	})
}

// Row L122: what is left is between nothing and all, and a charge is seen at once.
func TestRemaining(t *testing.T) {
	eachWalk(t, func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit) {
		a := limiter.Ask{Limit: l, Cost: 1, Lease: "new"}
		r := Peek(alg, now, state, &a)
		if r.Max != l.Max() || r.Remaining < 0 || r.Remaining > r.Max || r.Now != now {
			t.Fatalf("%+v for a limit of %d", r, l.Max())
		}
		if r.Allowed != (r.Remaining >= 1) {
			t.Fatalf("a cost of 1: allowed %t with %d left", r.Allowed, r.Remaining)
		}
		if !r.Allowed {
			return
		}
		_, after := Spend(alg, now, append([]byte(nil), state...), &a)
		if !after.Allowed || after.Wait != 0 || after.Remaining != r.Remaining-1 {
			t.Fatalf("%d left, then after a cost of 1: %+v", r.Remaining, after)
		}
	})
}

// A look passes whatever is left, and tells when a cost of 1 would.
func TestLook(t *testing.T) {
	eachWalk(t, func(t *testing.T, alg Algorithm, now limiter.Instant, state []byte, l *limiter.Limit) {
		look := Peek(alg, now, state, &limiter.Ask{Limit: l, Lease: "new"})
		one := Peek(alg, now, state, &limiter.Ask{Limit: l, Cost: 1, Lease: "new"})
		one.Allowed = true
		if look != one {
			t.Fatalf("a look says %+v, a cost of 1 %+v", look, one)
		}
	})
}

// Rows L35, L32: what costs more than there can ever be never passes and charges nothing.
func TestNever(t *testing.T) {
	for _, alg := range All {
		if alg.Name() == limiter.InFlight {
			continue // any cost is one place
		}
		l := limiter.Limit{Algorithm: alg.Name(), Events: 1, Window: time.Second, Ceiling: time.Minute}
		a := limiter.Ask{Limit: &l, Cost: 2}
		r := Peek(alg, base, nil, &a)
		if r.Allowed || r.Wait != limiter.Never || r.Remaining != 1 {
			t.Errorf("%s: cost 2 of 1: %+v", alg.Name(), r)
		}
		if state, _, changed := Refuse(alg, base, nil, &a, r); changed || len(state) != 0 {
			t.Errorf("%s: was charged: %x", alg.Name(), state)
		}
	}
}

func TestFind(t *testing.T) {
	for _, alg := range All {
		if found, err := Find(alg.Name()); err != nil || found != alg {
			t.Errorf("Find(%q) = %v, %v", alg.Name(), found, err)
		}
	}
	_, err := Find("leaky")
	if err == nil || !strings.Contains(err.Error(), "sliding_window, sliding_log") {
		t.Errorf("unknown algorithm: %v", err)
	}
}

// Whatever bytes a store gives back, they are a state or a fresh key, and asking, charging,
// correcting and giving back work on them.
func FuzzState(f *testing.F) {
	for _, alg := range All {
		for i, l := range limits(alg.Name()) {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			walk(rng, alg, []limiter.Limit{l}, 30, func(_ limiter.Instant, state []byte, _ *limiter.Limit) {
				if len(state) < 500 && rng.IntN(10) == 0 {
					f.Add(state, int64(1), int64(i))
				}
			})
		}
	}
	f.Fuzz(func(t *testing.T, state []byte, cost, pick int64) {
		for _, alg := range All {
			some := limits(alg.Name())
			l := some[uint64(pick)%uint64(len(some))]
			a := limiter.Ask{Limit: &l, Cost: 1 + int64(uint64(cost)%uint64(l.Max())), Lease: "a"}
			held := func() []byte { return append([]byte(nil), state...) }
			r := Peek(alg, base, held(), &a)
			if r.Remaining < 0 || r.Remaining > l.Max() || r.Wait < 0 || r.Reset < 0 {
				t.Fatalf("%s: %x: %+v", alg.Name(), state, r)
			}
			after, r := alg.Spend(base, held(), &a)
			if r.Remaining < 0 || r.Remaining > l.Max()-1 || r.Wait < 0 || r.Reset <= 0 {
				t.Fatalf("%s: %x spent: %x %+v", alg.Name(), state, after, r)
			}
			for _, spent := range []limiter.Instant{0, base} {
				c := limiter.Change{Limit: &l, Delta: -a.Cost, Spent: spent}
				if _, r := Adjust(alg, base, held(), &c); r.Remaining < 0 || r.Remaining > l.Max() {
					t.Fatalf("%s: %x adjusted: %+v", alg.Name(), state, r)
				}
			}
			Refuse(alg, base, held(), &a, r)
			Release(alg, base, held(), &a)
		}
	})
}
