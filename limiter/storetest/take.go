package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// contract holds what has to be so whatever the way of counting.
var contract = []struct {
	name string
	test func(t *testing.T, d *desk)
}{
	{"all or none", allOrNone},
	{"refused requests charge nothing", refusedChargeNothing},
	{"many limits", manyLimits},
	{"shadow", shadow},
	{"count rejected", countRejected},
	{"count rejected ends", countRejectedEnds},
	{"minimum distance", minimumDistance},
	{"separate", separate},
	{"odd keys", oddKeys},
	{"new numbers", newNumbers},
	{"unknown algorithm", unknownAlgorithm},
	{"refund keeps the window", refundKeepsWindow},
	{"late refund", lateRefund},
	{"refunds and charges", refundsAndCharges},
	{"leases", leases},
	{"renewals", renewals},
	{"one clock", oneClock},
	{"fast bucket", fastBucket},
	{"steady traffic", steadyTraffic},
	{"nothing vanishes", nothingVanishes},
	{"repeated rejects", repeatedRejects},
	{"a million a second", millionASecond},
	{"last token", lastToken},
}

// Row L29: a refusal by one limit leaves the others as they were.
func allOrNone(t *testing.T, d *desk) {
	user := &limiter.Limit{Zone: "user", Algorithm: limiter.SlidingWindow, Events: 5, Window: time.Minute}
	site := &limiter.Limit{Zone: "site", Algorithm: limiter.FixedWindow, Events: 10, Window: time.Minute}
	if n := d.passes(8, ask(user, "A"), ask(site, "all")); n != 5 {
		t.Errorf("%d of A's 8 requests passed, want 5", n)
	}
	d.wantLeft(site, "all", 5)
	if n := d.passes(6, ask(user, "B"), ask(site, "all")); n != 5 {
		t.Errorf("%d of B's 6 requests passed, want 5", n)
	}
	d.wantLeft(user, "B", 0)
	d.wantLeft(site, "all", 0)
	// The last limit refuses: the first ones are not charged either.
	results := d.take(ask(user, "C"), ask(site, "all"))
	if !results[0].Allowed || results[0].Remaining != 5 || results[1].Allowed || results[1].Wait != time.Minute {
		t.Errorf("a refused pair: %+v", results)
	}
	d.wantLeft(user, "C", 5)
}

// Row B41: hammering at 10/s against 1/s and 10/min passes 10 in a minute, since what the one
// refuses is not charged to the other.
func refusedChargeNothing(t *testing.T, d *desk) {
	second := &limiter.Limit{Zone: "z", Algorithm: limiter.SlidingWindow, Events: 1, Window: time.Second}
	minute := &limiter.Limit{Zone: "z", Algorithm: limiter.SlidingWindow, Index: 1, Events: 10, Window: time.Minute}
	passed := 0
	for range 590 {
		passed += d.passes(1, ask(second, "k"), ask(minute, "k"))
		d.clock.Advance(100 * time.Millisecond)
	}
	if passed != 10 {
		t.Errorf("%d passed in a minute, want 10", passed)
	}
}

// More limits than anything keeps room for, of several keys.
func manyLimits(t *testing.T, d *desk) {
	var asks []limiter.Ask
	for i := range 20 {
		l := limitOf(limiter.TokenBucket)
		l.Zone, l.Index = fmt.Sprint("zone", i%4), i/4
		asks = append(asks, ask(l, fmt.Sprint("key", i%3)))
	}
	if n := d.passes(12, asks...); n != 10 {
		t.Errorf("%d passed, want 10", n)
	}
	for _, a := range asks {
		d.wantLeft(a.Limit, a.Key, 0)
	}
	if results := d.take(); len(results) != 0 {
		t.Errorf("no asks: %+v", results)
	}
}

// A shadow counts and reports, never refuses, and is charged only with the rest.
func shadow(t *testing.T, d *desk) {
	live := &limiter.Limit{Zone: "live", Algorithm: limiter.SlidingWindow, Events: 4, Window: time.Minute}
	dry := &limiter.Limit{Zone: "dry", Algorithm: limiter.SlidingWindow, Events: 2, Window: time.Minute, Shadow: true}
	for i := range 6 {
		results := d.take(ask(dry, "k"), ask(live, "k"))
		if want := i < 2; results[0].Allowed != want {
			t.Errorf("request %d: the shadow says %+v", i, results[0])
		}
		if want := i < 4; results[1].Allowed != want {
			t.Errorf("request %d: %+v", i, results[1])
		}
	}
	d.wantLeft(live, "k", 0)
	full := &limiter.Limit{Zone: "full", Algorithm: limiter.SlidingWindow, Events: 1, Window: time.Minute}
	d.take(ask(full, "k"))
	d.take(ask(full, "k"), ask(dry, "other"))
	d.wantLeft(dry, "other", 2)
}

// With a ceiling a client that keeps hammering stays refused, and one that stops is free a
// window later (S2.5).
func countRejected(t *testing.T, d *desk) {
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.SlidingWindow, Events: 3, Window: 10 * time.Second, Ceiling: time.Hour}
	if n := d.passes(3, ask(l, "k")); n != 3 {
		t.Fatalf("%d passed, want 3", n)
	}
	for range 60 {
		d.clock.Advance(time.Second)
		if r := d.take(ask(l, "k"))[0]; r.Allowed {
			t.Fatalf("passed while hammering: %+v", r)
		}
	}
	r := d.left(l, "k")
	if r.Remaining != 0 || r.Wait <= 7*time.Second {
		t.Errorf("after a minute of hammering: %+v", r)
	}
	d.clock.Advance(r.Wait)
	if n := d.passes(1, ask(l, "k")); n != 1 {
		t.Errorf("did not pass after the wait it was told")
	}
	// What another limit refuses, and what can never pass, is not counted.
	other := &limiter.Limit{Zone: "other", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
	d.take(ask(other, "k"))
	d.take(ask(l, "fresh"), ask(other, "k"))
	d.take(limiter.Ask{Limit: l, Key: "fresh", Cost: 4})
	d.wantLeft(l, "fresh", 3)
}

// Whatever a client does, it is not refused for longer than the ceiling (row L130).
func countRejectedEnds(t *testing.T, d *desk) {
	for _, name := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.FixedWindow, limiter.TokenBucket, limiter.MinInterval} {
		l := limitOf(name)
		l.Ceiling = 30 * time.Second
		d.passes(10, ask(l, "k"))
		waited := time.Duration(0)
		for ; d.passes(1, ask(l, "k")) == 0; waited += 500 * time.Millisecond {
			if waited > l.Ceiling {
				t.Fatalf("%s: still refused after %s", name, waited)
			}
			d.clock.Advance(500 * time.Millisecond)
		}
		if waited <= l.Window {
			t.Errorf("%s: passed after %s of hammering", name, waited)
		}
	}
}

// Ten a minute, and two seconds apart (S2.3).
func minimumDistance(t *testing.T, d *desk) {
	rate := &limiter.Limit{Zone: "z", Algorithm: limiter.SlidingWindow, Events: 10, Window: time.Minute}
	apart := &limiter.Limit{Zone: "z", Algorithm: limiter.MinInterval, Events: 1, Window: 2 * time.Second}
	passed := 0
	for i := range 40 {
		n := d.passes(1, ask(rate, "k"), ask(apart, "k"))
		if want := i%2 == 0 && i < 20; (n == 1) != want {
			t.Errorf("after %ds: passed %t, want %t", i, n == 1, want)
		}
		passed += n
		d.clock.Advance(time.Second)
	}
	if passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
}

// States are kept apart by zone, algorithm, index and key (row L86: and by nothing else).
func separate(t *testing.T, d *desk) {
	one := limitOf(limiter.FixedWindow)
	d.passes(10, ask(one, "k"))
	zone, alg, index := *one, *one, *one
	zone.Zone, alg.Algorithm, index.Index = "ap", limiter.SlidingCounter, 1
	for _, l := range []*limiter.Limit{&zone, &alg, &index} {
		d.wantLeft(l, "k", 10)
	}
	d.wantLeft(one, "K", 10)
	zone.Zone = "apik" // and a key that begins where the zone ends
	d.wantLeft(&zone, "", 10)
	same := *one
	d.wantLeft(&same, "k", 0)
}

// Rows L80, L79: a key is any bytes.
func oddKeys(t *testing.T, d *desk) {
	l := limitOf(limiter.SlidingWindow)
	long := make([]byte, 1<<16)
	keys := []string{"", "\x00", "\x00\x00", "a\nb", "{a}", "}{", "a}{b", "\xff\xfe", "a:b", "a b", "*", "%", string(long), string(long[1:])}
	for i, key := range keys {
		a := ask(l, key)
		a.Cost = int64(i%9) + 1
		if !d.take(a)[0].Allowed {
			t.Errorf("key %d shares its budget with another", i)
		}
	}
	for i, key := range keys {
		d.wantLeft(l, key, 10-int64(i%9)-1)
	}
}

func unknownAlgorithm(t *testing.T, d *desk) {
	l := limitOf(limiter.SlidingWindow)
	bad := *l
	bad.Algorithm = "leaky"
	results := make([]limiter.Result, 2)
	if err := d.store.Take(context.Background(), []limiter.Ask{ask(l, "k"), ask(&bad, "k")}, results); err == nil {
		t.Error("no error")
	}
	d.wantLeft(l, "k", 10)
}
