package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// everyAlgorithm holds what has to be so for each way of counting.
var everyAlgorithm = []struct {
	name string
	test func(t *testing.T, d *desk, name string)
}{
	{"race", race},
	{"wait", waitIsTrue},
	{"look", look},
	{"never", never},
	{"clock back", clockBack},
	{"reset", reset},
	{"empties", empties},
}

// Rows L25, L26, L44, L50: of many at once exactly the limit passes, all in the same microsecond
// (S2.4, S2.6), and asks of several limits in any order block nobody for ever.
func race(t *testing.T, d *desk, name string) {
	l, other := limitOf(name), limitOf(limiter.FixedWindow)
	other.Zone, other.Events = "other", 1000
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			a, b := ask(l, "k"), ask(other, "all")
			a.Lease = fmt.Sprintf("%08d", i)
			asks := []limiter.Ask{a, b}
			if i%2 == 0 {
				asks = []limiter.Ask{b, a}
			}
			decision, err := limiter.Take(context.Background(), d.store, asks, make([]limiter.Result, 2))
			if err != nil {
				t.Error(err)
			}
			if decision.Allowed {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != l.Events {
		t.Errorf("%d of 200 passed, want %d", passed.Load(), l.Events)
	}
	d.wantLeft(l, "k", 0)
	d.wantLeft(other, "all", 1000-l.Events)
}

// The wait that a refused client is told is enough, to the microsecond, and Reset makes it as
// good as new (row L13).
func waitIsTrue(t *testing.T, d *desk, name string) {
	l := limitOf(name)
	a := ask(l, "k")
	r := d.take(a)[0]
	for i := 0; r.Allowed && i < 20; i++ {
		d.clock.Advance(137 * time.Millisecond)
		a.Lease = fmt.Sprint(i)
		r = d.take(a)[0]
	}
	if r.Allowed || r.Wait <= 0 || r.Remaining != 0 {
		t.Fatalf("at the limit: %+v", r)
	}
	d.clock.Advance(r.Wait - time.Microsecond)
	if early := d.take(a)[0]; early.Allowed || early.Wait != time.Microsecond {
		t.Errorf("a microsecond early: %+v", early)
	}
	d.clock.Advance(time.Microsecond)
	if due := d.take(a)[0]; !due.Allowed {
		t.Errorf("after the wait: %+v", due)
	}
	d.clock.Advance(d.left(l, "k").Reset)
	if r := d.left(l, "k"); r.Remaining != l.Events || r.Reset != 0 || r.Wait != 0 {
		t.Errorf("after the reset: %+v", r)
	}
}

// A cost of nothing only looks.
func look(t *testing.T, d *desk, name string) {
	l := limitOf(name)
	d.take(ask(l, "k"))
	for range 3 {
		if r := d.left(l, "k"); !r.Allowed || r.Remaining != l.Events-1 || r.Max != l.Events || r.Now != limiter.At(d.clock.Now()) {
			t.Errorf("a look: %+v", r)
		}
	}
}

// Row L35: what costs more than there can be never passes; it charges nothing (rows L31, L32).
func never(t *testing.T, d *desk, name string) {
	if name == limiter.InFlight {
		return // a request in flight is one, whatever it costs
	}
	l := limitOf(name)
	a := ask(l, "k")
	a.Cost = l.Events + 1
	if r := d.take(a)[0]; r.Allowed || r.Wait != limiter.Never || r.Remaining != l.Events {
		t.Errorf("%+v", r)
	}
	if name != limiter.MinInterval {
		a.Cost = 9
		d.take(a)
		a.Cost = 5
		if r := d.take(a)[0]; r.Allowed || r.Remaining != 1 || r.Wait <= 0 || r.Wait > 2*l.Window {
			t.Errorf("5 with 1 left: %+v", r)
		}
		d.wantLeft(l, "k", 1)
	}
}

// Row L5: a clock that is put back by an hour neither fills a key's budget nor keeps it
// refused for an hour.
func clockBack(t *testing.T, d *desk, name string) {
	l := limitOf(name)
	use := func(n int64, lease string) (passed int64) {
		for i := range n {
			a := ask(l, "k")
			a.Lease = fmt.Sprint(lease, i)
			if d.take(a)[0].Allowed {
				passed++
			}
		}
		return passed
	}
	if n := use(l.Events, "a"); n != l.Events {
		t.Fatalf("%d passed, want %d", n, l.Events)
	}
	d.clock.Advance(-time.Hour)
	if n := use(l.Events, "b"); n != 0 {
		t.Errorf("%d passed because the clock went back", n)
	}
	d.clock.Advance(2 * l.Window)
	if n := use(l.Events, "c"); n != l.Events {
		t.Errorf("%d passed two windows after the clock went back, want %d", n, l.Events)
	}
}

// A key that was reset is fresh, others are not.
func reset(t *testing.T, d *desk, name string) {
	l := limitOf(name)
	d.take(ask(l, "k"))
	d.take(ask(l, "other"))
	if err := d.store.Reset(context.Background(), l, "k"); err != nil {
		t.Fatal(err)
	}
	d.wantLeft(l, "k", l.Events)
	d.wantLeft(l, "other", l.Events-1)
	if err := d.store.Reset(context.Background(), l, "never seen"); err != nil {
		t.Fatal(err)
	}
}

// empties: after all was used and has passed, the whole limit can be used again, many times
// (rows L10, L47, L85).
func empties(t *testing.T, d *desk, name string) {
	l := limitOf(name)
	for round := range 5 {
		for i := range l.Events {
			a := ask(l, "k")
			a.Lease = fmt.Sprint(round, i)
			if r := d.take(a)[0]; !r.Allowed || r.Remaining != l.Events-1-i {
				t.Fatalf("round %d, request %d: %+v", round, i, r)
			}
		}
		d.clock.Advance(2 * l.Window)
	}
}
