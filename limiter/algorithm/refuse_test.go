package algorithm

import (
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Hammering keeps a key refused, with waits that stay true, for the ceiling and no longer.
func TestCeiling(t *testing.T) {
	for _, alg := range All {
		if alg.Name() == limiter.InFlight {
			continue // refused by Check
		}
		l := limiter.Limit{Algorithm: alg.Name(), Events: 10, Burst: 50, Window: time.Second, Ceiling: time.Minute}
		if alg.Name() == limiter.MinInterval {
			l.Events = 1
		}
		a := limiter.Ask{Limit: &l, Cost: l.Max()/2 + 1}
		longest := Longest(&a)
		now, since := limiter.Instant(base), limiter.Instant(0)
		var state []byte
		for {
			r := Peek(alg, now, state, &a)
			if r.Allowed && since != 0 {
				break
			}
			if r.Allowed {
				state, _ = Spend(alg, now, state, &a)
				continue
			}
			if since == 0 {
				since = now
			}
			state, r, _ = Refuse(alg, now, state, &a, r)
			if r.Allowed || r.Wait <= 0 || r.Wait >= longest+8*time.Microsecond {
				t.Fatalf("%s: refused with %+v", alg.Name(), r)
			}
			if kept := Peek(alg, now.Add(r.Wait), state, &a); !kept.Allowed {
				t.Fatalf("%s: told to wait %s, then %+v", alg.Name(), r.Wait, kept)
			}
			now += 50_000
		}
		// It asks every 50 ms, and a mark's time is rounded up.
		if refused := micros(int64(now - since)); refused > l.Ceiling+50*time.Millisecond || refused < l.Ceiling-longest {
			t.Errorf("%s: refused for %s, the ceiling is %s", alg.Name(), refused, l.Ceiling)
		}
		if state, _ = Spend(alg, now, state, &a); state[0] != version {
			t.Errorf("%s: the envelope stays when an ask passes: %x", alg.Name(), state)
		}
	}
}

// A client that stops hammering is free a window later, though others could go on longer.
func TestCeilingIsNoSentence(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.SlidingWindow, Events: 2, Window: time.Second, Ceiling: time.Hour}
	a := limiter.Ask{Limit: &l, Cost: 2}
	state, _ := Spend(slidingWindow{}, base, nil, &a)
	for i := range limiter.Instant(100) {
		now := base + 300_000*i
		state, _, _ = Refuse(slidingWindow{}, now, state, &a, Peek(slidingWindow{}, now, state, &a))
	}
	stop := limiter.Instant(base + 300_000*99)
	if r := Peek(slidingWindow{}, stop+999_000, state, &a); r.Allowed {
		t.Errorf("passed too early: %+v", r)
	}
	if r := Peek(slidingWindow{}, stop+1_000_008, state, &a); !r.Allowed {
		t.Errorf("a window after the last try: %+v", r)
	}
}

// An envelope is read by a limit that no longer counts refusals, and by corrections.
func TestEnvelope(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Events: 2, Window: time.Second, Ceiling: time.Minute}
	a := limiter.Ask{Limit: &l, Cost: 1}
	alg := fixedWindow{}
	state, _ := Spend(alg, base, nil, &limiter.Ask{Limit: &l, Cost: 2})
	state, _, changed := Refuse(alg, base+1, state, &a, Peek(alg, base+1, state, &a))
	if !changed || state[0] != envelope || limiter.Instant(get7(state[1:])) != base+1 {
		t.Fatalf("refused: %x", state)
	}
	plain := l
	plain.Ceiling = 0
	b := limiter.Ask{Limit: &plain, Cost: 1}
	r := Peek(alg, base+2, state, &b)
	if r.Allowed || r.Remaining != 0 || r.Wait != time.Second-time.Microsecond {
		t.Errorf("without a ceiling: %+v", r)
	}
	if _, _, changed := Refuse(alg, base+2, state, &b, r); changed {
		t.Error("a limit without a ceiling counted a refusal")
	}
	state, r = Adjust(alg, base+2, state, &limiter.Change{Limit: &plain, Delta: -1})
	if r.Remaining != 1 || state[0] != envelope {
		t.Errorf("after giving 1 back: %+v, %x", r, state)
	}
	if state, r = Spend(alg, base+3, state, &b); r.Remaining != 0 || len(state) != fixedLen || state[0] != version {
		t.Errorf("after an ask that passed: %+v, %x", r, state)
	}
	if state, _ = Adjust(alg, base+3, wrap(base, nil), &limiter.Change{Limit: &plain, Delta: -1}); len(state) != 0 {
		t.Errorf("an envelope with nothing in it: %x", state)
	}
}

// A refusal that began ahead of now, since the clock was put back, begins now.
func TestEnvelopeAhead(t *testing.T) {
	if since, _ := open(base, wrap(base+1, nil)); since != base {
		t.Errorf("since %d, %d ahead", since, since-base)
	}
}

// After the clock was put back, a refusal makes the state one of now (row L5).
func TestRebase(t *testing.T) {
	for _, alg := range All {
		l := limiter.Limit{Algorithm: alg.Name(), Events: 1, Window: time.Second}
		a := limiter.Ask{Limit: &l, Cost: 1, Lease: "a"}
		b := limiter.Ask{Limit: &l, Cost: 1, Lease: "b"}
		state, _ := Spend(alg, base+3_600_000_000, nil, &a)
		now := limiter.Instant(base)
		r := Peek(alg, now, state, &b)
		if r.Allowed {
			t.Fatalf("%s: passed because the clock went back: %+v", alg.Name(), r)
		}
		state, r, changed := Refuse(alg, now, state, &b, r)
		if !changed {
			t.Fatalf("%s: still lies ahead: %x", alg.Name(), state)
		}
		if _, _, again := Refuse(alg, now, state, &b, r); again {
			t.Errorf("%s: lies ahead a second time: %x", alg.Name(), state)
		}
		if due := Peek(alg, now.Add(r.Wait), state, &b); !due.Allowed {
			t.Errorf("%s: told to wait %s, then %+v", alg.Name(), r.Wait, due)
		}
	}
}
