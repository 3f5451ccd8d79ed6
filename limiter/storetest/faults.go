package storetest

import (
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Row L10: a bucket that fills in a hundredth of a second is kept for as long. 5,399 requests
// at one moment are a burst of 100, and each millisecond lets 10 more through.
func fastBucket(t *testing.T, d *desk) {
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 10_000, Burst: 100, Window: time.Second}
	if n := d.passes(5399, ask(l, "k")); n != 100 {
		t.Errorf("%d passed at once, want 100", n)
	}
	for range 5 {
		d.clock.Advance(time.Millisecond)
		if n := d.passes(50, ask(l, "k")); n != 10 {
			t.Errorf("%d passed after a millisecond, want 10", n)
		}
	}
}

// Rows L14, L28, L41: under traffic that never stops, at twice the rate of the limit, every
// window gives out its budget again. Refused requests are not recorded, and put off nothing.
func steadyTraffic(t *testing.T, d *desk) {
	for _, c := range []struct {
		algorithm   string
		least, most int
	}{
		// 4 s of it: 5 at once and 5 with each second.
		{limiter.SlidingLog, 20, 20},
		{limiter.SlidingWindow, 20, 20},
		{limiter.FixedWindow, 20, 20},
		// One that fills while it is used: 5, and 5 in each second.
		{limiter.TokenBucket, 24, 25},
		// Two windows that are weighted let a little less through.
		{limiter.SlidingCounter, 17, 20},
	} {
		l := &limiter.Limit{Zone: "steady", Algorithm: c.algorithm, Events: 5, Window: time.Second}
		passed := 0
		for range 40 {
			passed += d.passes(1, ask(l, "k"))
			d.clock.Advance(100 * time.Millisecond)
		}
		if passed < c.least || passed > c.most {
			t.Errorf("%s: %d of 40 passed in 4 s at 5/s, want %d to %d", c.algorithm, passed, c.least, c.most)
		}
	}
}

// Row L16: windows of traffic that goes on do not vanish all at once. Whatever second one
// looks at in the middle of it, the window before it is still known.
func nothingVanishes(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingLog, limiter.SlidingWindow, limiter.SlidingCounter} {
		l := &limiter.Limit{Zone: "vanish", Algorithm: name, Events: 60, Window: time.Minute}
		for i := range 300 { // one a second, which is what the limit gives
			d.passes(1, ask(l, "k"))
			d.clock.Advance(time.Second)
			if r := d.left(l, "k"); i > 60 && r.Remaining > 2 {
				t.Fatalf("%s: after %d s %d are left of 60, as if the last minute had not been", name, i+1, r.Remaining)
			}
		}
	}
}

// Row L32: a client that asks again and again for more than is left takes nothing: the key
// neither falls below zero nor is kept any longer.
func repeatedRejects(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter, limiter.FixedWindow, limiter.TokenBucket} {
		l := limitOf(name)
		l.Zone = "rejects"
		a := ask(l, "k")
		a.Cost = 9
		d.take(a)
		before := d.left(l, "k")
		for range 1000 {
			if r := d.take(a)[0]; r.Allowed {
				t.Fatalf("%s: 9 of 1 passed: %+v", name, r)
			}
		}
		if after := d.left(l, "k"); after != before {
			t.Errorf("%s: after 1000 refusals %+v, before %+v", name, after, before)
		}
	}
}

// Row L40: the first of a million a second leaves exactly the others.
func millionASecond(t *testing.T, d *desk) {
	const million = 1_000_000
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingCounter, limiter.FixedWindow, limiter.TokenBucket} {
		l := &limiter.Limit{Zone: "million", Algorithm: name, Events: million, Window: time.Second}
		for i := range int64(3) {
			if r := d.take(ask(l, "k"))[0]; r.Remaining != million-1-i {
				t.Errorf("%s: %d left after %d, want %d", name, r.Remaining, i+1, million-1-i)
			}
		}
	}
}

// Rows L34, L47: the last of a limit can be used.
func lastToken(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter, limiter.FixedWindow, limiter.TokenBucket} {
		l := &limiter.Limit{Zone: "last", Algorithm: name, Events: 5, Window: 5 * time.Second}
		if n := d.passes(4, ask(l, "k")); n != 4 {
			t.Errorf("%s: %d of 4 passed", name, n)
		}
		d.wantLeft(l, "k", 1)
		if r := d.take(ask(l, "k"))[0]; !r.Allowed || r.Remaining != 0 {
			t.Errorf("%s: the last one: %+v", name, r)
		}
	}
}
