package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Row L37: when all is given back the window still keeps its end.
func refundKeepsWindow(t *testing.T, d *desk) {
	l := limitOf(limiter.FixedWindow)
	at := d.take(ask(l, "k"))[0].Now
	d.clock.Advance(4 * time.Second)
	d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -1, Spent: at})
	d.wantLeft(l, "k", 10)
	if n := d.passes(10, ask(l, "k")); n != 10 {
		t.Errorf("%d passed, want 10", n)
	}
	if r := d.left(l, "k"); r.Reset != 6*time.Second || r.Wait != 6*time.Second {
		t.Errorf("the window has a new end: %+v", r)
	}
}

// Row L38: what has left its window is not given back a second time.
func lateRefund(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.FixedWindow, limiter.TokenBucket, limiter.SlidingCounter} {
		l := limitOf(name)
		a := ask(l, "k")
		a.Cost = 4
		at := d.take(a)[0].Now
		d.clock.Advance(3 * l.Window)
		d.take(a)
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -4, Spent: at})
		if r := d.left(l, "k"); r.Remaining != 6 {
			t.Errorf("%s: a late refund: %+v", name, r)
		}
	}
}

// What is given back can be spent again, once, and never is anything below zero or above the
// limit (rows L61, L122).
func refundsAndCharges(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.FixedWindow, limiter.TokenBucket, limiter.SlidingCounter} {
		l := limitOf(name)
		a := ask(l, "k")
		a.Cost = 4
		first := d.take(a)[0].Now
		d.clock.Advance(100 * time.Millisecond)
		second := d.take(a)[0].Now
		check := func(what string, want int64) {
			t.Helper()
			if r := d.left(l, "k"); r.Remaining != want {
				t.Errorf("%s: after %s %d left, want %d", name, what, r.Remaining, want)
			}
		}
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -3, Spent: second})
		check("giving 3 back", 5)
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -1, Spent: first}, limiter.Change{Limit: l, Key: "k", Delta: 2})
		check("giving 1 back and charging 2", 4)
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: 50})
		check("charging 50", 0)
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -2})
		check("granting 2", 2)
		d.adjust(limiter.Change{Limit: l, Key: "k", Delta: -limiter.MaxEvents})
		check("granting more than was used", 10)
		d.adjust(limiter.Change{Limit: l, Key: "new", Delta: 3}, limiter.Change{Limit: l, Key: "newer", Delta: -3})
		d.wantLeft(l, "new", 7)
		d.wantLeft(l, "newer", 10)
	}
}

// Row L88: new numbers bite at once and what was used stays used, whether the limit is raised
// or lowered; several nodes may hold different numbers meanwhile.
func newNumbers(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.FixedWindow, limiter.TokenBucket, limiter.SlidingCounter, limiter.InFlight} {
		small, big := limitOf(name), limitOf(name)
		small.Events, big.Events = 5, 50
		lease := 0
		use := func(l *limiter.Limit, n int) (passed int) {
			for range n {
				lease++
				a := ask(l, "k")
				a.Lease = string(rune('A' + lease))
				passed += d.passes(1, a)
			}
			return passed
		}
		for _, step := range []struct {
			l    *limiter.Limit
			want int
			left int64
		}{{small, 5, 0}, {big, 45, 0}, {small, 0, 0}, {big, 0, 0}} {
			if n := use(step.l, 60); n != step.want {
				t.Errorf("%s: %d passed under a limit of %d, want %d", name, n, step.l.Events, step.want)
			}
			d.wantLeft(step.l, "k", step.left)
		}
	}
	// A sliding window counts coarsely above 72, and never too little.
	fine, coarse := limitOf(limiter.SlidingWindow), limitOf(limiter.SlidingWindow)
	fine.Events, coarse.Events = 60, 600
	passed := d.passes(60, ask(fine, "both"))
	for range 100 {
		passed += d.passes(6, ask(coarse, "both")) + d.passes(1, ask(fine, "both"))
	}
	if passed != 600 {
		t.Errorf("%d passed under limits of 60 and 600 in turns, want 600", passed)
	}
}

// A lease is held until it is given back or runs out, and is renewed by taking it again
// (row L52).
func leases(t *testing.T, d *desk) {
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.InFlight, Events: 2, Window: time.Minute}
	lease := func(name string) limiter.Ask { return limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: name} }
	allowed := func(name string, want bool) {
		t.Helper()
		if r := d.take(lease(name))[0]; r.Allowed != want {
			t.Errorf("lease %s: %+v, want allowed %t", name, r, want)
		}
	}
	release := func(asks ...limiter.Ask) {
		t.Helper()
		if err := d.store.Release(context.Background(), asks); err != nil {
			t.Fatal(err)
		}
	}
	allowed("aaaaaaaa", true)
	d.clock.Advance(time.Second)
	allowed("bbbbbbbb", true)
	allowed("cccccccc", false)
	d.clock.Advance(39 * time.Second)
	allowed("aaaaaaaa", true)
	d.wantLeft(l, "k", 0)
	d.clock.Advance(30 * time.Second) // b has run out, a was renewed
	allowed("cccccccc", true)
	allowed("bbbbbbbb", false)
	other := limitOf(limiter.SlidingWindow)
	d.take(ask(other, "k"))
	release(ask(other, "k"), lease("aaaaaaaa"), lease("never held"))
	d.wantLeft(other, "k", 9)
	d.wantLeft(l, "k", 1)
	release(lease("aaaaaaaa"))
	d.wantLeft(l, "k", 1)
	release(lease("cccccccc"))
	d.wantLeft(l, "k", 2)
}

// Leases are renewed many at a time, each by itself: one that was lost is taken again if there
// is room, and none of the others suffers if there is not (row L58).
func renewals(t *testing.T, d *desk) {
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.InFlight, Events: 3, Window: time.Minute}
	shadow, other := *l, limitOf(limiter.SlidingWindow)
	shadow.Zone, shadow.Shadow = "shadow", true
	lease := func(l *limiter.Limit, key, name string) limiter.Ask {
		return limiter.Ask{Limit: l, Key: key, Cost: 1, Lease: name}
	}
	renew := func(asks ...limiter.Ask) {
		t.Helper()
		if err := d.store.(limiter.Renewer).Renew(context.Background(), asks); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := lease(l, "k", "aaaaaaaa"), lease(l, "k", "bbbbbbbb"), lease(l, "k", "cccccccc")
	far, trial := lease(l, "far", "aaaaaaaa"), lease(&shadow, "k", "aaaaaaaa")
	d.take(a, far, trial)
	d.take(b)
	for range 5 {
		d.clock.Advance(50 * time.Second)
		renew(a, b, ask(other, "k"), far, trial)
		d.wantLeft(l, "k", 1)
		d.wantLeft(l, "far", 2)
		d.wantLeft(&shadow, "k", 2)
	}
	d.wantLeft(other, "k", 10)
	if r := d.left(l, "k"); r.Reset != time.Minute {
		t.Errorf("renewed leases end in %s, want 1m", r.Reset)
	}
	// All but one are lost, and others come before they are renewed.
	d.clock.Advance(50 * time.Second)
	renew(far)
	d.clock.Advance(20 * time.Second)
	d.take(lease(l, "k", "dddddddd"))
	d.take(lease(l, "k", "eeeeeeee"))
	renew(a, b, c, far)
	d.wantLeft(l, "k", 0)
	d.wantLeft(l, "far", 2)
	if !d.take(a)[0].Allowed || d.take(b)[0].Allowed {
		t.Error("want the first lost lease taken again, the second not")
	}
	renew(lease(l, "new", "aaaaaaaa"))
	d.wantLeft(l, "new", 2)
	renew()
}

// Rows L1, L2, L4: the store's clock decides, and clients in turns share one budget evenly.
func oneClock(t *testing.T, d *desk) {
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 10, Window: time.Second}
	var passed [2]int
	for i := range 3000 {
		passed[i/100%2] += d.passes(1, ask(l, "k"))
		d.clock.Advance(time.Millisecond)
	}
	if sum := passed[0] + passed[1]; sum != 39 {
		t.Errorf("%d passed in 3 s at 10/s with a burst of 10, want 39", sum)
	}
	if passed[0] < 10 || passed[1] < 10 {
		t.Errorf("the two got %v", passed)
	}
}
