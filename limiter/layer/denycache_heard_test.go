package layer

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// hearing has a cache told every second that all is heard, until stop is called.
func hearing(cache *DenyCache) (stop func()) {
	quit := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			cache.Heard()
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit) }
}

// spend makes a key's limit refuse, and the cache remember it.
func spend(t testing.TB, s limiter.Store, l *limiter.Limit, key string, beside ...limiter.Ask) {
	t.Helper()
	for range l.Events {
		take(t, s, askOf(l, key, 1))
	}
	if r := take(t, s, append(beside, askOf(l, key, 1))...); r[len(beside)].Allowed {
		t.Fatalf("%q is not refused", key)
	}
}

// While operators are known to be heard the store is asked once in HeardCap, and a key is free no later than
// in the store. Limits that others may correct have Cap all the same.
func TestDenyCacheHeard(t *testing.T) {
	window := limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 3, Window: 5*time.Minute + 7*time.Millisecond}
	settled, reserved, wide := window, window, window
	settled.Settled, reserved.Reserve, wide.Events = true, 10, 1000
	wide.Zone = "wide"
	for _, c := range []struct {
		name   string
		limit  *limiter.Limit
		beside []limiter.Ask
		apart  bool
		deaf   bool
		cap    time.Duration
	}{
		{name: "heard", limit: &window, cap: DefaultDenyCacheHeardCap},
		{name: "not heard", limit: &window, deaf: true, cap: DefaultDenyCacheCap},
		{name: "settled", limit: &settled, cap: DefaultDenyCacheCap},
		{name: "reserved of", limit: &reserved, cap: DefaultDenyCacheCap},
		{name: "several", limit: &window, beside: []limiter.Ask{askOf(&wide, "k", 1)}, cap: DefaultDenyCacheHeardCap},
		{name: "one in a cluster", limit: &window, apart: true, cap: DefaultDenyCacheHeardCap},
		{name: "several in a cluster", limit: &window, apart: true, beside: []limiter.Ask{askOf(&wide, "k", 1)}, cap: DefaultDenyCacheCap},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, store, s := remembering(DenyCacheOptions{Apart: c.apart})
				if !c.deaf {
					defer hearing(cache)()
				}
				spend(t, s, c.limit, "k", c.beside...)
				request := append(c.beside, askOf(c.limit, "k", 1))
				told := take(t, s, request...)[len(request)-1].Wait
				free := time.Now().Add(told)
				store.takes.Store(0)
				for step := 10 * time.Millisecond; time.Until(free) > step; pass(step) {
					if r := take(t, s, request...)[len(request)-1]; r.Allowed || r.Wait != time.Until(free) {
						t.Fatalf("%s before it is free: %+v", time.Until(free), r)
					}
				}
				// One that is under another limit is let through to ask about that as well.
				least := int64(told / (c.cap + doubt))
				most := (1 + int64(len(c.beside))) * int64(told/c.cap)
				if n := store.takes.Load(); n < least || n > most {
					t.Errorf("%d calls in %s, want %d to %d", n, told, least, most)
				}
				pass(time.Until(free) - time.Microsecond)
				if r := take(t, s, request...)[len(request)-1]; r.Allowed {
					t.Errorf("a microsecond early: %+v", r)
				}
				pass(time.Microsecond)
				if r := take(t, s, request...)[len(request)-1]; !r.Allowed {
					t.Errorf("when it is free: %+v", r)
				}
			})
		})
	}
}

// A listener that falls silent does not say so. Whatever it misses is known Cap after its last word, as
// soon as if it had never spoken.
func TestDenyCacheListenerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, store, s := remembering(DenyCacheOptions{})
		l := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
		stop := hearing(cache)
		spend(t, s, l, "k")
		pass(40*time.Second + 300*time.Millisecond) // its last word was said 300 ms ago
		store.takes.Store(0)
		stop()
		synctest.Wait()
		if err := store.Reset(t.Context(), l, "k"); err != nil { // that nobody hears of
			t.Fatal(err)
		}
		last := DefaultDenyCacheCap - 300*time.Millisecond
		pass(last - time.Microsecond)
		if r := take(t, s, askOf(l, "k", 1))[0]; r.Allowed || store.takes.Load() != 0 {
			t.Errorf("before the cap: %+v, %d calls", r, store.takes.Load())
		}
		pass(time.Microsecond)
		if r := take(t, s, askOf(l, "k", 1))[0]; !r.Allowed {
			t.Errorf("after the cap: %+v", r)
		}

		// It is back, having missed what was told meanwhile: nothing from before is believed.
		spend(t, s, l, "other")
		if err := store.Reset(t.Context(), l, "other"); err != nil {
			t.Fatal(err)
		}
		cache.Clear()
		defer hearing(cache)()
		synctest.Wait()
		if r := take(t, s, askOf(l, "other", 1))[0]; !r.Allowed {
			t.Errorf("from before the gap: %+v", r)
		}
	})
}

// A flood of many keys costs no call, whether they are under one limit or several, and whatever they cost. What it
// took is given back when it is over.
func TestDenyCacheHoldsFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 60_000
		hits := 0
		cache, store, s := remembering(DenyCacheOptions{Hit: func() { hits++ }})
		l := &limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 2, Window: 24 * time.Hour}
		beside := &limiter.Limit{Zone: "beside", Algorithm: limiter.SlidingWindow, Events: 1000, Window: time.Hour}
		requests := func(i int) []limiter.Ask {
			key := strconv.Itoa(i)
			if i%2 == 0 {
				return []limiter.Ask{askOf(l, key, 2)}
			}
			return []limiter.Ask{askOf(l, key, 2), askOf(beside, key, 2)}
		}
		for i := range 2 * keys {
			take(t, s, requests(i%keys)...)
		}
		store.takes.Store(0)
		hits = 0
		cache.Heard()
		for i := range keys {
			if r := take(t, s, requests(i)...)[0]; r.Allowed {
				t.Fatalf("key %d: %+v", i, r)
			}
		}
		kept, room := cache.filled()
		if n := store.takes.Load(); n > keys/1000 || hits != keys-int(n) {
			t.Errorf("%d calls for %d requests, and %d hits; %d answers in room for %d", n, keys, hits, kept, room)
		}
		if room > DefaultDenyCacheSize || room > 4*kept {
			t.Errorf("%d answers take room for %d", kept, room)
		}

		pass(25 * time.Hour)
		for range 60 {
			cache.Sweep(60)
		}
		for range 60 { // the parts of an uneven number
			cache.Sweep(60)
		}
		if kept, room := cache.filled(); room != 0 {
			t.Errorf("when it is over: %d answers in room for %d", kept, room)
		}
	})
}

// To shrink takes away nothing that can be used.
func TestDenyCacheShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, store, s := remembering(DenyCacheOptions{Size: 1 << 12, Cap: time.Hour})
		long := &limiter.Limit{Zone: "long", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
		short := &limiter.Limit{Zone: "short", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Second}
		for i := range 100 {
			spend(t, s, long, strconv.Itoa(i))
		}
		for i := range 1500 {
			spend(t, s, short, strconv.Itoa(i))
		}
		_, before := cache.filled()
		pass(2 * time.Second)
		cache.Sweep(1)
		kept, room := cache.filled()
		if room > before/2 || kept != 100 {
			t.Errorf("%d answers are left in room for %d, which was for %d", kept, room, before)
		}
		store.takes.Store(0)
		for i := range 100 {
			take(t, s, askOf(long, strconv.Itoa(i), 1))
		}
		if n := store.takes.Load(); n > 0 {
			t.Errorf("%d of 100 keys were asked about again", n)
		}
	})
}

// What is told of limits beside one that refuses is as old as a refusal may be: other nodes spend of them, and tell nobody.
func TestDenyCacheBesideGrowsOld(t *testing.T) {
	for heard, oldest := range map[bool]time.Duration{false: DefaultDenyCacheCap, true: DefaultDenyCacheHeardCap} {
		synctest.Test(t, func(t *testing.T) {
			cache, store, s := remembering(DenyCacheOptions{})
			if heard {
				defer hearing(cache)()
			}
			l := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 10, Window: time.Hour}
			left := func() int64 {
				results := make([]limiter.Result, 1)
				if err := beside(t.Context(), s, []limiter.Ask{askOf(l, "k", 1)}, results); err != nil {
					t.Fatal(err)
				}
				return results[0].Remaining
			}
			fresh := left()
			take(t, store, askOf(l, "k", 3))
			pass(oldest - time.Microsecond)
			if n := left(); n != fresh {
				t.Errorf("heard %t: %d left before the cap, want %d", heard, n, fresh)
			}
			pass(time.Microsecond)
			if n := left(); n != fresh-3 {
				t.Errorf("heard %t: %d left after the cap, want %d", heard, n, fresh-3)
			}
		})
	}
}
