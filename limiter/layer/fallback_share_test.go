package layer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// L103: the instances together let about as much pass as the limit says.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		limit limiter.Limit
		n     int
		each  int64
	}{
		{limiter.Limit{Algorithm: limiter.SlidingWindow, Events: 100}, 1, 100},
		{limiter.Limit{Algorithm: limiter.SlidingWindow, Events: 100}, 3, 33},
		{limiter.Limit{Algorithm: limiter.FixedWindow, Events: 2}, 3, 1},
		{limiter.Limit{Algorithm: limiter.TokenBucket, Events: 100, Burst: 10}, 4, 2},
		{limiter.Limit{Algorithm: limiter.TokenBucket, Events: 100, Burst: 3}, 4, 1},
		{limiter.Limit{Algorithm: limiter.InFlight, Events: 20}, 4, 5},
		{limiter.Limit{Algorithm: limiter.MinInterval, Events: 1}, 4, 1},
	} {
		clock := storetest.NewClock()
		s := Share(c.n, memstore.New(memstore.Options{Now: clock.Now}))
		l := c.limit
		l.Zone, l.Window = "z", time.Hour
		var last limiter.Result
		passed := int64(0)
		for i := range 200 {
			last = take(t, s, limiter.Ask{Limit: &l, Key: "k", Cost: 1, Lease: fmt.Sprint(i)})[0]
			if last.Allowed {
				passed++
			}
		}
		if passed != c.each || last.Max != c.each {
			t.Errorf("%s %d/%d of %d: %d passed, of %d; want %d", l.Algorithm, l.Events, l.Burst, c.n, passed, last.Max, c.each)
		}
		if l.Algorithm == limiter.MinInterval && last.Wait != time.Duration(c.n)*time.Hour {
			t.Errorf("a distance of %s, want %d hours", last.Wait, c.n)
		}
	}
}

// A share is a limit as good as the one that it is of, whatever the number of instances.
func TestShareIsValid(t *testing.T) {
	for _, alg := range algorithm.All {
		for _, window := range []time.Duration{time.Microsecond, time.Hour, limiter.MaxWindow} {
			for _, n := range []int{2, 7, 10_000} {
				l := &limiter.Limit{Zone: "z", Algorithm: alg.Name(), Events: 12, Window: window, Burst: 5, Ceiling: window}
				if alg.Name() == limiter.MinInterval {
					l.Events = 1
				}
				if alg.Name() != limiter.TokenBucket {
					l.Burst = 0
				}
				part := Share(n, AllowAll{}).(*share).of(l)
				if err := part.Check(); err != nil {
					t.Errorf("%s over %s, 1 of %d: %v", alg.Name(), window, n, err)
				}
				if a, b := alg.Check(l), alg.Check(part); a == nil && b != nil {
					t.Errorf("%s over %s, 1 of %d: %v", alg.Name(), window, n, b)
				}
			}
		}
	}
}

// What costs more than a share can pass, and takes all of it; what costs more than the limit
// never passes.
func TestShareCosts(t *testing.T) {
	clock := storetest.NewClock()
	s := Share(10, memstore.New(memstore.Options{Now: clock.Now}))
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 100, Window: time.Hour}
	first := take(t, s, askOf(l, "k", 20))[0]
	if !first.Allowed || first.Remaining != 0 || first.Max != 10 {
		t.Errorf("%+v", first)
	}
	if r := take(t, s, askOf(l, "k", 1))[0]; r.Allowed {
		t.Errorf("%+v", r)
	}
	if r := take(t, s, askOf(l, "other", 101))[0]; r.Allowed || r.Wait != limiter.Never {
		t.Errorf("more than the limit: %+v", r)
	}
	// A refund of what was charged gives all of it back, and no more.
	changes := []limiter.Change{{Limit: l, Key: "k", Delta: -20, Spent: first.Now}}
	if err := s.Adjust(context.Background(), changes); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, askOf(l, "k", 0))[0]; r.Remaining != 10 {
		t.Errorf("after a refund: %+v", r)
	}
	take(t, s, askOf(l, "k", 5))
	if err := s.Reset(context.Background(), l, "k"); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, askOf(l, "k", 0))[0]; r.Remaining != 10 {
		t.Errorf("after a reset: %+v", r)
	}
	if changes[0].Limit != l || changes[0].Delta != -20 {
		t.Error("the caller's change was changed")
	}
}

// Places of in_flight are given back to the share.
func TestShareReleases(t *testing.T) {
	s := Share(2, memstore.New(memstore.Options{}))
	l := &limiter.Limit{Zone: "z", Algorithm: limiter.InFlight, Events: 2, Window: time.Hour}
	for i := range 3 {
		a := []limiter.Ask{{Limit: l, Key: "k", Cost: 1, Lease: fmt.Sprint(i)}}
		if r := take(t, s, a...)[0]; !r.Allowed {
			t.Errorf("request %d: %+v", i, r)
		}
		if err := s.Release(context.Background(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShareAllocations(t *testing.T) {
	s := Share(2, AllowAll{})
	results := make([]limiter.Result, len(asks))
	take(t, s, asks...)
	if n := testing.AllocsPerRun(100, func() { _ = s.Take(context.Background(), asks, results) }); n > 1 {
		t.Errorf("%v allocations, want one at most", n)
	}
}
