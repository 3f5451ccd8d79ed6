package config

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
)

var flight = &limiter.Limit{Zone: "z", Algorithm: limiter.InFlight, Events: 3, Window: LeaseTTL}

// seat is an ask for a place, with a lease of its own.
func seat(key string) limiter.Ask {
	return limiter.Ask{Limit: flight, Key: key, Cost: 1, Lease: leaseName()}
}

// seated takes a place.
func seated(t *testing.T, s limiter.Store, key string) limiter.Ask {
	t.Helper()
	ask := seat(key)
	d, err := limiter.Take(t.Context(), s, []limiter.Ask{ask}, make([]limiter.Result, 1))
	if err != nil || !d.Allowed {
		t.Fatalf("no place: %+v, %v", d, err)
	}
	return ask
}

// left is how many places a key has.
func left(t *testing.T, s limiter.Store, key string) int64 {
	t.Helper()
	var r [1]limiter.Result
	if err := s.Take(t.Context(), []limiter.Ask{{Limit: flight, Key: key}}, r[:]); err != nil {
		t.Fatal(err)
	}
	return r[0].Remaining
}

// bubble runs a test in a time of its own. What was started for leases has to end with them.
func bubble(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		test(t)
		pass(2 * LeaseTTL / leaseTicks)
	})
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// A far store is one in memory that is reached as if by a network: it may be down, and it
// counts calls.
type far struct {
	*memstore.Store

	mu              sync.Mutex
	down            bool
	lost            string // a key on a node that is down
	renews, returns []int  // how many leases each call was about
	before          func() // each call
}

func newFar() *far { return &far{Store: memstore.New(memstore.Options{})} }

func (f *far) Renew(ctx context.Context, asks []limiter.Ask) error {
	return f.call(&f.renews, asks, func() error { return f.Store.Renew(ctx, asks) })
}

func (f *far) Release(ctx context.Context, asks []limiter.Ask) error {
	return f.call(&f.returns, asks, func() error { return f.Store.Release(ctx, asks) })
}

func (f *far) call(calls *[]int, asks []limiter.Ask, do func() error) error {
	f.mu.Lock()
	*calls = append(*calls, len(asks))
	down, before := f.down, f.before
	for i := range asks {
		down = down || f.lost != "" && asks[i].Key == f.lost
	}
	f.mu.Unlock()
	if before != nil {
		before()
	}
	if down {
		return limiter.ErrUnavailable
	}
	return do()
}

func (f *far) fail(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// each has every call begin with that.
func (f *far) each(before func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *far) calls() (renews, returns int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.renews), len(f.returns)
}

// L58: a request of hours keeps its place, by a call now and then, and frees it when it
// ends. The goroutine ends with the leases, or the bubble would not.
func TestLeaseLastsAsLongAsItsRequest(t *testing.T) {
	for _, near := range []bool{true, false} {
		t.Run(fmt.Sprintf("near=%t", near), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newFar()
				l := newLessor(s, near)
				var held []*lease
				for _, key := range []string{"a", "a", "b"} {
					held = append(held, l.hold(seated(t, s, key)))
				}
				for range 300 {
					pass(time.Minute / 5)
					if a, b := left(t, s, "a"), left(t, s, "b"); a != 1 || b != 2 {
						t.Fatalf("%d and %d places free, want 1 and 2", a, b)
					}
				}
				// An hour is 120 times the TTL, of which each third needs one call.
				if renews, _ := s.calls(); renews > 360 {
					t.Errorf("%d calls for 3 leases", renews)
				}
				for _, one := range held {
					l.end(one)
				}
				if !near {
					synctest.Wait()
				}
				if a, b := left(t, s, "a"), left(t, s, "b"); a != 3 || b != 3 {
					t.Errorf("%d and %d places free at the end, want 3 and 3", a, b)
				}
			})
		})
	}
}

// Renewing does not bring a lease back that is given back at the same moment.
func TestRenewMeetsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, true)
		held := l.hold(seated(t, s, "a"))
		s.each(func() {
			s.each(nil)
			l.end(held)
		})
		pass(LeaseTTL / 2)
		if n := left(t, s, "a"); n != 3 {
			t.Errorf("%d places free, want 3", n)
		}
		if renews, returns := s.calls(); renews != 1 || returns != 2 {
			t.Errorf("%d renewals and %d returns, want 1 and 2", renews, returns)
		}
	})
}

// Leases are renewed though there are always some to be given back.
func TestRenewAmongReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		mine := l.hold(seated(t, s, "mine"))
		s.each(func() { pass(100 * time.Millisecond) })
		for range 2 * LeaseTTL / (50 * time.Millisecond) {
			l.end(l.hold(seat("others")))
			pass(50 * time.Millisecond)
		}
		if n := left(t, s, "mine"); n != 2 {
			t.Errorf("%d places left, want 2", n)
		}
		l.end(mine)
		pass(time.Second)
	})
}

// Leases are given back many at a time, and the sooner the fewer there are.
func TestReturnsAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		var held []*lease
		for i := range 3000 {
			held = append(held, l.hold(seated(t, s, fmt.Sprint(i/3))))
		}
		s.each(func() { pass(time.Millisecond) })
		for _, one := range held {
			l.end(one)
		}
		pass(time.Second / 2)
		for i := range 1000 {
			if n := left(t, s, fmt.Sprint(i)); n != 3 {
				t.Fatalf("%d places of key %d free, want 3", n, i)
			}
		}
		if _, returns := s.calls(); returns > 3000/leaseBatch+2 {
			t.Errorf("%d calls", returns)
		}
	})
}

// While the store is away nothing piles up, and nothing calls it without a pause; a short
// absence loses no place, and after a long one the leases have ended by themselves.
func TestReturnsWhileStoreIsAway(t *testing.T) {
	for _, test := range []struct {
		name    string
		outage  time.Duration
		waiting int
	}{
		{"short", LeaseTTL/2 + time.Millisecond, mostStrays + 1},
		{"long", 2*LeaseTTL + time.Millisecond, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newFar()
				l := newLessor(s, false)
				mine := l.hold(seated(t, s, "a"))
				s.fail(true)
				for range 2 * mostEnded {
					l.stray(seat("b"))
				}
				l.end(mine) // for which strays leave room
				pass(test.outage)
				l.mu.Lock()
				waiting := len(l.ended) + len(l.late)
				l.mu.Unlock()
				if waiting != test.waiting {
					t.Errorf("%d leases wait to be given back, want %d", waiting, test.waiting)
				}
				if _, returns := s.calls(); returns > mostFailures*(int(test.outage/(LeaseTTL/leaseTicks))+1) {
					t.Errorf("%d calls of a store that is away", returns)
				}
				s.fail(false)
				pass(2 * LeaseTTL / leaseTicks)
				if n := left(t, s, "a"); n != 3 {
					t.Errorf("%d places free, want 3", n)
				}
			})
		})
	}
}

// A request that outlives an outage has its place again afterwards, if there is one.
func TestRenewAfterOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		held := l.hold(seated(t, s, "a"))
		s.fail(true)
		pass(2 * LeaseTTL)
		if n := left(t, s, "a"); n != 3 {
			t.Fatalf("%d places free, want 3: the lease was not renewed", n)
		}
		s.fail(false)
		pass(2 * renewTicks * LeaseTTL / leaseTicks)
		if n := left(t, s, "a"); n != 2 {
			t.Errorf("%d places free after the outage, want 2", n)
		}
		l.end(held)
		synctest.Wait()
		if n := left(t, s, "a"); n != 3 {
			t.Errorf("%d places free at the end, want 3", n)
		}
	})
}

// A store that no configuration uses any more stays open for those who hold leases in it.
func TestStoreClosesAfterLastLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		var shut atomic.Int32
		closes := func() error { shut.Add(1); return errors.New("told") }
		if err := l.close(closes); shut.Load() != 1 || err == nil {
			t.Errorf("without leases closed %d times, %v", shut.Load(), err)
		}
		held := l.hold(seated(t, s, "a"))
		if err := l.close(closes); shut.Load() != 1 || err != nil {
			t.Errorf("closed under a lease, %v", err)
		}
		pass(3 * LeaseTTL)
		if n := left(t, s, "a"); n != 2 || shut.Load() != 1 {
			t.Errorf("%d places free, closed %d times", n, shut.Load())
		}
		l.end(held)
		pass(2 * LeaseTTL / leaseTicks)
		if n := left(t, s, "a"); n != 3 || shut.Load() != 2 {
			t.Errorf("at the end %d places free, closed %d times", n, shut.Load())
		}
	})
}

// A process that ends gives everything back, but does not wait for a store that hangs.
func TestQuit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		l.hold(seated(t, s, "a"))
		l.hold(seated(t, s, "b"))
		l.quit()
		if a, b := left(t, s, "a"), left(t, s, "b"); a != 3 || b != 3 {
			t.Errorf("%d and %d places free, want 3 and 3", a, b)
		}
		l.hold(seated(t, s, "a"))
		s.each(func() { pass(time.Hour) })
		start := time.Now()
		l.quit()
		if took := time.Since(start); took != leaseFarewell {
			t.Errorf("the process waited %s", took)
		}
		pass(2 * time.Hour)
	})
}

func TestLeaseNames(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		name := leaseName()
		if len(name) != 8 || seen[name] {
			t.Fatalf("name %q", name)
		}
		seen[name] = true
	}
}

// Who finds no place but one that is being given back waits for that, and for no other.
func TestAwaitReturn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		leases := lessors{first: l}
		held := l.hold(seated(t, s, "a"))
		ask := []limiter.Ask{seat("a")}
		if n := l.returning(ask); n != 0 {
			t.Errorf("number %d, and none has ended", n)
		}
		seated(t, s, "a")
		seated(t, s, "a")
		s.each(func() { pass(time.Millisecond) })
		l.end(held)
		if n := l.returning([]limiter.Ask{seat("b"), {Limit: &limiter.Limit{Zone: "z"}, Key: "a"}}); n != 0 {
			t.Errorf("number %d for others", n)
		}
		start := time.Now()
		d, err := leases.take(t.Context(), s, ask, make([]limiter.Result, 1))
		if err != nil || !d.Allowed || time.Since(start) != time.Millisecond {
			t.Errorf("allowed %t after %s, %v", d.Allowed, time.Since(start), err)
		}
		// A store that does not answer holds nobody up for long.
		s.each(func() { pass(time.Second) })
		l.end(l.hold(ask[0]))
		start = time.Now()
		d, err = leases.take(t.Context(), s, []limiter.Ask{seat("a")}, make([]limiter.Result, 1))
		if err != nil || d.Allowed || time.Since(start) != returnWait {
			t.Errorf("allowed %t after %s, %v", d.Allowed, time.Since(start), err)
		}
		// Nor is anybody who is refused for another reason.
		quota := &limiter.Limit{Zone: "q", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
		both := []limiter.Ask{seat("a"), {Limit: quota, Key: "a", Cost: 2}}
		start = time.Now()
		d, err = leases.take(t.Context(), s, both, make([]limiter.Result, 2))
		if err != nil || d.Allowed || time.Since(start) != 0 {
			t.Errorf("allowed %t after %s, %v", d.Allowed, time.Since(start), err)
		}
		pass(time.Second)
		l.mu.Lock()
		if len(l.last) != 0 || l.through != 2 {
			t.Errorf("still known: %v, through %d", l.last, l.through)
		}
		l.mu.Unlock()
	})
}
