package layer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
)

// A counted store counts how often it is asked.
type counted struct {
	limiter.Store

	takes atomic.Int64
}

func (c *counted) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	c.takes.Add(1)
	return c.Store.Take(ctx, asks, results)
}

// storeTime is a store's clock in a bubble, which differs from the local one: bubbles begin in
// the year 2000, and states in 2025.
func storeTime() time.Time { return time.Now().AddDate(26, 0, 0) }

// remembering returns a memory store with a cache around it, in a bubble.
func remembering(o DenyCacheOptions) (*DenyCache, *counted, limiter.Store) {
	store := &counted{Store: memstore.New(memstore.Options{Now: storeTime})}
	cache := NewDenyCache(o)
	return cache, store, cache.Around(store)
}

func limitOf(algorithm string) *limiter.Limit {
	l := &limiter.Limit{Zone: "api", Algorithm: algorithm, Events: 10, Window: 10 * time.Second}
	if algorithm == limiter.MinInterval {
		l.Events = 1
	}
	return l
}

func askOf(l *limiter.Limit, key string, cost int64) limiter.Ask {
	return limiter.Ask{Limit: l, Key: key, Cost: cost, Lease: "lease"}
}

func take(t testing.TB, s limiter.Store, asks ...limiter.Ask) []limiter.Result {
	t.Helper()
	results := make([]limiter.Result, len(asks))
	if err := s.Take(context.Background(), asks, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// A refused key is refused from memory until exactly when it is free: a flood of requests makes
// one call in each Cap.
func TestDenyCacheFlood(t *testing.T) {
	for _, name := range []string{
		limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter,
		limiter.TokenBucket, limiter.FixedWindow, limiter.MinInterval,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hits int
				_, store, s := remembering(DenyCacheOptions{Hit: func() { hits++ }})
				l := limitOf(name)
				for range l.Events {
					take(t, s, askOf(l, "k", 1))
				}
				told := take(t, s, askOf(l, "k", 1))[0]
				if told.Allowed || told.Origin != limiter.Exactly {
					t.Fatalf("at the limit: %+v", told)
				}
				// What is left has to be told as if the store were asked.
				free := time.Now().Add(told.Wait)
				store.takes.Store(0)
				const step = 10 * time.Millisecond
				requests := 0
				for ; time.Until(free) > step; requests++ {
					pass(step)
					r := take(t, s, askOf(l, "k", 1))[0]
					if r.Allowed || r.Wait != time.Until(free) || r.Max != l.Events || r.Now != limiter.At(storeTime()) {
						t.Fatalf("%s before it is free: %+v", time.Until(free), r)
					}
				}
				if n, most := store.takes.Load(), int64(told.Wait/DefaultDenyCacheCap); n > most {
					t.Errorf("%d calls for %d requests in %s, want %d", n, requests, told.Wait, most)
				}
				if want := requests - int(store.takes.Load()); hits != want {
					t.Errorf("%d hits, want %d", hits, want)
				}
				pass(time.Until(free) - time.Microsecond)
				if r := take(t, s, askOf(l, "k", 1))[0]; r.Allowed || r.Wait != time.Microsecond {
					t.Errorf("a microsecond early: %+v", r)
				}
				pass(time.Microsecond)
				if r := take(t, s, askOf(l, "k", 1))[0]; !r.Allowed || r.Origin != limiter.Exactly {
					t.Errorf("when it is free: %+v", r)
				}
			})
		})
	}
}

// What may not be remembered, or only for some asks.
func TestDenyCacheAsks(t *testing.T) {
	window, bucket := limitOf(limiter.SlidingWindow), limitOf(limiter.TokenBucket)
	ceiling, shadow, flight, raised := *window, *window, *limitOf(limiter.InFlight), *window
	ceiling.Ceiling, shadow.Shadow, raised.Events = time.Hour, true, 20
	index, zone := *window, *window
	index.Index, zone.Zone = 1, "other"
	for _, c := range []struct {
		name    string
		refused limiter.Ask // of a key that has nothing left
		next    []limiter.Ask
		calls   int64
	}{
		{"the same", askOf(window, "k", 1), []limiter.Ask{askOf(window, "k", 1)}, 0},
		{"another key", askOf(window, "k", 1), []limiter.Ask{askOf(window, "K", 1)}, 1},
		{"another index", askOf(window, "k", 1), []limiter.Ask{askOf(&index, "k", 1)}, 1},
		{"another zone", askOf(window, "k", 1), []limiter.Ask{askOf(&zone, "k", 1)}, 1},
		{"another way of counting", askOf(window, "k", 1), []limiter.Ask{askOf(bucket, "k", 1)}, 1},
		// L88: a raised limit holds at once.
		{"other numbers", askOf(window, "k", 1), []limiter.Ask{askOf(&raised, "k", 1)}, 1},
		{"a larger cost, whose wait is longer", askOf(window, "k", 1), []limiter.Ask{askOf(window, "k", 2)}, 1},
		{"a smaller cost", askOf(window, "k", 2), []limiter.Ask{askOf(window, "k", 1)}, 1},
		{"no cost", askOf(window, "k", 1), []limiter.Ask{askOf(window, "k", 0)}, 1},
		{"with a limit that nothing is known of", askOf(window, "k", 1), []limiter.Ask{askOf(bucket, "k", 1), askOf(window, "k", 1)}, 1},
		{"with one that counts refusals", askOf(window, "k", 1), []limiter.Ask{askOf(window, "k", 1), askOf(&ceiling, "new", 1)}, 1},
		{"one that counts refusals", askOf(&ceiling, "k", 1), []limiter.Ask{askOf(&ceiling, "k", 1)}, 1},
		{"a shadow", askOf(&shadow, "k", 1), []limiter.Ask{askOf(&shadow, "k", 1)}, 1},
		{"in flight", askOf(&flight, "k", 1), []limiter.Ask{askOf(&flight, "k", 1)}, 1},
		{"never", askOf(window, "k", 11), []limiter.Ask{askOf(window, "k", 11)}, 0},
		{"with one in flight", askOf(window, "k", 1), []limiter.Ask{askOf(window, "k", 1), askOf(&flight, "k", 1)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, store, s := remembering(DenyCacheOptions{})
				for i := range c.refused.Limit.Events {
					a := c.refused
					a.Cost, a.Lease = 1, fmt.Sprint(i)
					take(t, s, a)
				}
				r := take(t, s, c.refused)[0]
				if r.Allowed {
					t.Fatalf("%+v", r)
				}
				store.takes.Store(0)
				pass(time.Millisecond)
				again := take(t, s, c.next...)
				if n := store.takes.Load(); n != c.calls {
					t.Errorf("%d calls, want %d: %+v", n, c.calls, again)
				}
				for _, r := range again {
					if want := c.calls == 0; (r.Origin == limiter.Cached) != want {
						t.Errorf("origin %s", r.Origin)
					}
				}
				if r.Wait == limiter.Never && again[0].Wait != limiter.Never {
					t.Errorf("never became %s", again[0].Wait)
				}
			})
		})
	}
}

// Of a request with several limits each says from memory what it said, and what a shadow would
// refuse is told (as a dry run's) though the request is refused by another.
func TestDenyCacheCompanions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, s := remembering(DenyCacheOptions{})
		apart := &limiter.Limit{Zone: "z", Algorithm: limiter.MinInterval, Events: 1, Window: time.Minute}
		quota := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 100, Window: time.Hour}
		dry := &limiter.Limit{Zone: "dry", Algorithm: limiter.TokenBucket, Events: 1, Window: time.Hour, Shadow: true}
		full := &limiter.Limit{Zone: "full", Algorithm: limiter.SlidingWindow, Events: 1, Window: 2 * time.Second}
		asks := []limiter.Ask{askOf(quota, "k", 1), askOf(apart, "k", 1), askOf(dry, "k", 1), askOf(full, "k", 1)}
		take(t, s, asks...)
		told := take(t, s, asks...)
		store.takes.Store(0)
		for range 3 {
			pass(500 * time.Millisecond)
			aged := take(t, s, asks...)
			d, err := limiter.Take(t.Context(), s, asks, make([]limiter.Result, len(asks)))
			if err != nil || d.Allowed || d.Blamed != 1 || d.Nearest != 3 {
				t.Fatalf("%+v, %v", d, err)
			}
			for i, r := range aged {
				was := told[i]
				age := time.Duration(r.Now-was.Now) * time.Microsecond
				was.Origin, was.Now, was.Reset = limiter.Cached, r.Now, was.Reset-age
				if !was.Allowed {
					was.Wait -= age
				}
				if r != was {
					t.Errorf("%d: got  %+v\nwant %+v", i, r, was)
				}
			}
		}
		if n := store.takes.Load(); n != 0 {
			t.Errorf("%d calls", n)
		}
		// What refuses no longer is asked about.
		pass(time.Second)
		if r := take(t, s, asks...)[3]; !r.Allowed || r.Remaining != 1 || r.Origin != limiter.Exactly {
			t.Errorf("a refusal that is over: %+v", r)
		}
		pass(doubt)
		// About what was never asked beside it the store is asked, but not each time that a
		// client makes up another one: then the least is told.
		store.takes.Store(0)
		for i := range 100 {
			r := take(t, s, askOf(quota, fmt.Sprint(i), 1), asks[1])[0]
			left := int64(0)
			if i == 0 {
				left = 100
			}
			if !r.Allowed || r.Remaining != left || r.Max != 100 {
				t.Errorf("unknown %d: %+v", i, r)
			}
		}
		pass(doubt)
		take(t, s, askOf(quota, "last", 1), asks[1])
		if n := store.takes.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// What a stand-in refuses is not remembered: the store knows nothing of it.
func TestDenyCacheStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &recorder{err: errDown}
		second := &counted{Store: memstore.New(memstore.Options{Now: storeTime})}
		s := NewDenyCache(DenyCacheOptions{}).Around(Fallback(second)(first))
		l := limitOf(limiter.FixedWindow)
		for range 20 {
			if r := take(t, s, askOf(l, "k", 1))[0]; r.Origin != limiter.Local {
				t.Errorf("%+v", r)
			}
		}
		if n := second.takes.Load(); n != 20 {
			t.Errorf("the stand-in was asked %d times, want 20", n)
		}
	})
}

// Of a state only so many costs are told apart; then a larger one is refused with a wait that is
// known to be too short rather than asked about for ever.
func TestDenyCacheManyCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, s := remembering(DenyCacheOptions{})
		l := &limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 1000, Window: time.Hour}
		take(t, s, askOf(l, "k", 1000))
		store.takes.Store(0)
		for cost := range int64(500) {
			if r := take(t, s, askOf(l, "k", cost+1))[0]; r.Allowed || r.Wait <= 0 {
				t.Fatalf("cost %d: %+v", cost+1, r)
			}
		}
		if n := store.takes.Load(); n != mostCosts {
			t.Errorf("%d calls, want %d", n, mostCosts)
		}
		if r := take(t, s, askOf(l, "k", 1001))[0]; r.Wait != limiter.Never {
			t.Errorf("more than there can be: %+v", r)
		}
	})
}
